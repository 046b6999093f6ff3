#include "mc2/store/imported.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::store {
namespace {

using planner::Fingerprint;
using planner::Profile;
using planner::Sample;

/// The most cuts of a machine that are read. Each round of refining adds a few.
constexpr int kMostListedCuts = 1000;

bool answers_for(const Profile& profile, const Sample& sample, const planner::OpSpec& op) {
  if (sample.component == planner::Component::Matmul) return planner::has_same_block_costs(profile.op, op);
  return profile.op.world_size == op.world_size &&
         planner::collective_of(profile.op.kind) == planner::collective_of(op.kind);
}

/// A fingerprint with the fields of both. Errors: Stale (device), naming a field in which they disagree.
Result<Fingerprint> joined(const Fingerprint& left, const Fingerprint& right) {
  Fingerprint both = left;
  for (const auto& [key, value] : right.fields) {
    const auto [known, is_new] = both.fields.try_emplace(key, value);
    const bool is_same = key == "nccl" ? planner::nccl_version(known->second) == planner::nccl_version(value)
                                       : known->second == value; // kept ones may be of another form
    if (is_new || is_same) continue;
    return Error{ErrorCode::Stale, "device",
                 "names one machine, and its logs disagree in " + key + ": '" + known->second + "' and '" + value +
                     "'; give one of them another name"};
  }
  return both;
}

/// Whether every fresh sample is kept already; equal samples count as often as they occur.
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
  for (const auto& profile : profiles) {
    std::vector<Sample> session;
    std::ranges::copy_if(profile.samples, std::back_inserter(session),
                         [&](const Sample& sample) { return answers_for(profile, sample, op); });
    result.add_session(session);
  }
  return result;
}

Error nothing_imported(const planner::OpSpec& op, const std::string& device) {
  return {ErrorCode::NotFound, "device", "nothing was imported for " + op.text() + " on '" + device + "'"};
}

Result<ImportedMachine> join_imported(const std::string& device, Result<std::vector<Profile>> profiles) {
  ImportedMachine machine{{imported_fields(device)}, {}};
  MC2_ASSIGN(machine.profiles, std::move(profiles));
  for (const auto& profile : machine.profiles) {
    MC2_ASSIGN(machine.fingerprint, joined(machine.fingerprint, profile.fingerprint));
  }
  return machine;
}

namespace {

/// Larger relative errors are limited to this: such runs carry no information.
constexpr double kMostError = 0.9;

/// The cut that a text describes, or that of the kept plan with this digest. Errors: NotFound, InvalidSpec.
Result<planner::Cut> named_cut(const Store& store, const planner::OpSpec& op, const std::string& blocks) {
  if (auto cut = planner::parse_cut(blocks)) return cut;
  const auto stored_plan = store.find_plan(blocks);
  if (!stored_plan && stored_plan.error().code == ErrorCode::NotFound)
    return Error{ErrorCode::NotFound, "blocks",
                 stored_plan.error().message + ", and only tuned plans are kept; give the cut instead, e.g. 512+4x896"};
  MC2_ASSIGN(const auto stored, stored_plan);
  if (stored.plan.op != op)
    return Error{ErrorCode::InvalidSpec, "blocks",
                 "'" + blocks + "' is a plan of " + stored.plan.op.text() + ", not of " + op.text()};
  return stored.plan.cut;
}

/// Errors: InvalidSpec (blocks) naming the field and its value.
Result<void> validate_runs(const planner::CutRuns& runs) {
  if (const auto legal = planner::validate_cut_times(runs); !legal)
    return Error{ErrorCode::InvalidSpec, "blocks", legal.error().field + " " + legal.error().message};
  return planner::validate_units(runs);
}

Result<Measurement> measurement_of(const Store& store, const planner::OpSpec& op, const planner::CutRuns& runs) {
  MC2_TRY(validate_runs(runs));
  MC2_ASSIGN(auto cut, named_cut(store, op, runs.blocks));
  Measurement measured{{runs, {"imported", {}}, std::move(cut)}, op};
  MC2_TRY(planner::validate_measured_cut(op, measured));
  measured.relative_error = std::min(measured.relative_error, kMostError);
  if (!(measured.serial_us > 0)) return measured;
  const auto beside_serial = planner::validation_of(measured);
  measured.benefit = beside_serial.benefit;
  measured.benefit_low = beside_serial.benefit_low;
  measured.benefit_high = beside_serial.benefit_high;
  return measured;
}

/// Errors: as keep_imported.
Result<std::vector<Measurement>> to_measurements(const Store& store, const planner::OpSpec& op,
                                                 std::span<const planner::CutRuns> cuts) {
  if (cuts.size() > kMostMeasuredCuts)
    return Error{ErrorCode::InvalidSpec, "blocks",
                 "are " + std::to_string(cuts.size()) + " different ones; at most " +
                     std::to_string(kMostMeasuredCuts) + " at a time"};
  std::vector<Measurement> measured;
  for (const auto& runs : cuts) {
    auto one = measurement_of(store, op, runs);
    if (!one) return Error{one.error().code, "blocks", "'" + runs.blocks.substr(0, 64) + "': " + one.error().message};
    measured.push_back(std::move(one).value());
  }
  return measured;
}

/// Keeps the cuts that are not kept yet. Returns the digests of these.
Result<std::vector<std::string>> keep_measured_cuts(Store& store, const std::string& device,
                                                    std::span<const Measurement> cuts, const std::string& created_at) {
  std::vector<std::string> digests;
  if (cuts.empty()) return digests;
  MC2_ASSIGN(const auto known, list_measured_cuts(store, device, cuts.front().op));
  for (const auto& measured : cuts) {
    if (std::ranges::find(known, measured) != known.end()) continue;
    MC2_ASSIGN(auto digest, store.add_measurement({imported_fields(device)}, measured, created_at));
    digests.push_back(std::move(digest));
  }
  return digests;
}

} // namespace

Result<KeptImport> keep_imported(Store& store, const ImportedMachine& machine, const Profile& fresh,
                                 std::span<const planner::CutRuns> cuts, const std::string& created_at) {
  if (fresh.fingerprint.fields.at("device").empty())
    return Error{ErrorCode::InvalidSpec, "device", "is empty; name the machine, for which plans will ask"};
  if (!fresh.samples.empty()) MC2_TRY(joined(machine.fingerprint, fresh.fingerprint));
  MC2_ASSIGN(const auto measured, to_measurements(store, fresh.op, cuts));
  KeptImport kept;
  if (!is_known(machine.profile_for(fresh.op), fresh)) {
    MC2_ASSIGN(kept.samples, store.append_samples(fresh.op, fresh.fingerprint, fresh.samples, created_at));
  }
  MC2_ASSIGN(kept.measurements, keep_measured_cuts(store, fresh.fingerprint.fields.at("device"), measured, created_at));
  return kept;
}

Result<std::vector<Measurement>> list_measured_cuts(const Store& store, const std::string& device,
                                                    const planner::OpSpec& op) {
  ListFilter filter = filter_of_equal_costs(op, {imported_fields(device)});
  filter.limit = kMostListedCuts;
  MC2_ASSIGN(const auto listed, store.list_measurements(filter));
  std::vector<Measurement> measured;
  for (const Listed& item : listed) {
    auto read = store.find_measurement(item.digest);
    if (!read && read.error().code == ErrorCode::Stale) continue; // its blocks are along another axis than today's
    MC2_ASSIGN(auto found, std::move(read));
    if (planner::has_same_block_costs(found.record.measurement.op, op))
      measured.push_back(std::move(found.record.measurement));
  }
  std::ranges::reverse(measured);
  return measured;
}

} // namespace mc2::store
