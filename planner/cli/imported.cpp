#include "imported.hpp"

#include <algorithm>

#include "mc2/planner/collective.hpp"

namespace mc2::cli {
namespace {

bool answers_for(const planner::Profile& profile, const planner::Sample& sample, const planner::OpSpec& op) {
  if (sample.component == planner::Component::Matmul) return planner::has_same_block_costs(profile.op, op);
  return profile.op.world_size == op.world_size &&
         planner::collective_of(profile.op.kind) == planner::collective_of(op.kind);
}

} // namespace

Result<planner::Fingerprint> joined(const planner::Fingerprint& left, const planner::Fingerprint& right) {
  planner::Fingerprint both = left;
  for (const auto& [key, value] : right.fields) {
    const auto [known, is_new] = both.fields.try_emplace(key, value);
    if (is_new || known->second == value) continue;
    return Error{ErrorCode::Stale, "--device",
                 "names one machine, and its logs disagree in " + key + ": '" + known->second + "' and '" + value +
                     "'; give one of them another name"};
  }
  return both;
}

planner::Profile ImportedMachine::profile_for(const planner::OpSpec& op) const {
  planner::Profile result{op, fingerprint, {}};
  int first_round = 0;
  for (const auto& profile : profiles) {
    int last_round = first_round - 1;
    for (planner::Sample sample : profile.samples) {
      if (!answers_for(profile, sample, op)) continue;
      sample.round += first_round;
      last_round = std::max(last_round, sample.round);
      result.samples.push_back(std::move(sample));
    }
    first_round = last_round + 1;
  }
  return result;
}

Result<ImportedMachine> find_imported(const store::Layers& layers, const std::string& device) {
  ImportedMachine machine{{{{"backend", "imported"}, {"device", device}}}, {}};
  machine.profiles = layers.list_profiles(machine.fingerprint.fields);
  for (const auto& profile : machine.profiles) {
    auto both = joined(machine.fingerprint, profile.fingerprint);
    if (!both) return both.error();
    machine.fingerprint = std::move(both).value();
  }
  return machine;
}

} // namespace mc2::cli
