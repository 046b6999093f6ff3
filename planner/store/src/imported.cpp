#include "mc2/store/imported.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "mc2/planner/collective.hpp"

namespace mc2::store {
namespace {

using planner::Fingerprint;
using planner::Profile;
using planner::Sample;

bool answers_for(const Profile& profile, const Sample& sample, const planner::OpSpec& op) {
  if (sample.component == planner::Component::Matmul) return planner::has_same_block_costs(profile.op, op);
  return profile.op.world_size == op.world_size &&
         planner::collective_of(profile.op.kind) == planner::collective_of(op.kind);
}

/// Both fingerprints' fields. Errors: Stale naming a field that they disagree in.
Result<Fingerprint> joined(const Fingerprint& left, const Fingerprint& right) {
  Fingerprint both = left;
  for (const auto& [key, value] : right.fields) {
    const auto [known, is_new] = both.fields.try_emplace(key, value);
    if (is_new || known->second == value) continue;
    return Error{ErrorCode::Stale, "device",
                 "names one machine, and its logs disagree in " + key + ": '" + known->second + "' and '" + value +
                     "'; give one of them another name"};
  }
  return both;
}

/// Whether every sample is kept already.
bool is_known(const Profile& kept, const Profile& fresh) {
  const auto key = [](const Sample& sample) {
    return std::tuple(sample.component, sample.block_rows, sample.message_bytes, sample.time);
  };
  std::multiset<decltype(key(kept.samples.front()))> known;
  for (const auto& sample : kept.samples) known.insert(key(sample));
  return std::ranges::all_of(fresh.samples, [&](const Sample& sample) {
    const auto found = known.find(key(sample));
    if (found == known.end()) return false;
    known.erase(found);
    return true;
  });
}

} // namespace

std::map<std::string, std::string> imported_fields(const std::string& device) {
  return {{"backend", "imported"}, {"device", device}};
}

Profile ImportedMachine::profile_for(const planner::OpSpec& op) const {
  Profile result{op, fingerprint, {}};
  int first_round = 0;
  for (const auto& profile : profiles) {
    int last_round = first_round - 1;
    for (Sample sample : profile.samples) {
      if (!answers_for(profile, sample, op)) continue;
      sample.round += first_round;
      last_round = std::max(last_round, sample.round);
      result.samples.push_back(std::move(sample));
    }
    first_round = last_round + 1;
  }
  return result;
}

Result<ImportedMachine> join_imported(const std::string& device, std::vector<Profile> profiles) {
  ImportedMachine machine{{imported_fields(device)}, std::move(profiles)};
  for (const auto& profile : machine.profiles) {
    MC2_ASSIGN(machine.fingerprint, joined(machine.fingerprint, profile.fingerprint));
  }
  return machine;
}

Result<std::vector<std::string>> keep_imported(Store& store, const ImportedMachine& machine, const Profile& fresh,
                                               const std::string& created_at) {
  MC2_TRY(joined(machine.fingerprint, fresh.fingerprint));
  if (is_known(machine.profile_for(fresh.op), fresh)) return std::vector<std::string>();
  return store.append_samples(fresh.op, fresh.fingerprint, fresh.samples, created_at);
}

} // namespace mc2::store
