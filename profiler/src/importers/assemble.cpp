#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "mc2/planner/device_model.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/importer.hpp"
#include "mc2/profiler/override.hpp"
#include "mc2/profiler/refine.hpp"
#include "mc2/profiler/statistics.hpp"
#include "row_unit.hpp"

namespace mc2::profiler {
namespace {

using planner::Collective;
using planner::Component;
using planner::OpSpec;
using planner::Sample;

constexpr std::size_t kMaxListedShapes = 6;
/// Fewest runs of a cut from which its error is estimated.
constexpr std::size_t kFewestForError = 5;
/// For normal times: standard error of the median over that of the mean, and standard deviation over the median
/// absolute deviation.
constexpr double kMedianError = 1.2533, kMadToDeviation = 1.4826;

/// Shapes, types and ranks that the logs state.
struct Seen {
  std::set<std::array<std::int64_t, 2>> shapes; ///< n, k
  std::set<planner::DType> dtypes;
  std::set<int> world_sizes;
  std::int64_t largest_m = 0;
};

Seen evidence_of(const TimingSet& timings, const ImportQuestion& question) {
  Seen found;
  for (const auto& [key, group] : timings.groups()) {
    if (key.component == Component::Collective) {
      if (key.world_size > 0) found.world_sizes.insert(key.world_size);
      continue;
    }
    if ((question.n && key.n != *question.n) || (question.k && key.k != *question.k)) continue;
    found.shapes.insert({key.n, key.k});
    if (key.dtype) found.dtypes.insert(*key.dtype);
    found.largest_m = std::max(found.largest_m, key.m);
  }
  for (const FusedTiming& timing : timings.fused()) {
    if (timing.n == 0 || (question.n && timing.n != *question.n) || (question.k && timing.k != *question.k)) continue;
    found.shapes.insert({timing.n, timing.k});
    if (timing.dtype) found.dtypes.insert(*timing.dtype);
    found.largest_m = std::max(found.largest_m, timing.m);
  }
  return found;
}

std::string shapes_text(const std::set<std::array<std::int64_t, 2>>& shapes) {
  std::vector<std::string> texts;
  for (const auto& [n, k] : shapes) {
    if (texts.size() == kMaxListedShapes) return list_text(texts) + ", ...";
    texts.push_back("n=" + std::to_string(n) + " k=" + std::to_string(k));
  }
  return list_text(texts);
}

/// The list of what the user must still say.
class Missing {
 public:
  void add(const std::string& what) { texts_.push_back(what); }
  [[nodiscard]] bool is_empty() const { return texts_.empty(); }
  [[nodiscard]] Error error() const {
    return {ErrorCode::InvalidSpec, "", "the logs do not say: " + list_text(texts_, "; ")};
  }

 private:
  std::vector<std::string> texts_;
};

void find_shape(const Seen& found, const ImportQuestion& question, OpSpec& op, Missing& missing) {
  const bool has_one_shape = found.shapes.size() == 1;
  if (question.n || has_one_shape) op.n = question.n ? *question.n : (*found.shapes.begin())[0];
  if (question.k || has_one_shape) op.k = question.k ? *question.k : (*found.shapes.begin())[1];
  if (op.n == 0 || op.k == 0)
    missing.add("which matmul (--n, --k)" +
                (found.shapes.empty() ? std::string() : "; they hold " + shapes_text(found.shapes)));
  if (question.m || found.largest_m > 0)
    op.m = question.m.value_or(found.largest_m);
  else
    missing.add("the rows of the uncut product (--m)");
}

Result<OpSpec> find_operator(const TimingSet& timings, const ImportQuestion& question) {
  const Seen found = evidence_of(timings, question);
  Missing missing;
  OpSpec op;
  if (question.kind)
    op.kind = *question.kind;
  else
    missing.add("the operator (--op)");
  find_shape(found, question, op, missing);
  if (question.dtype || found.dtypes.size() == 1)
    op.dtype = question.dtype ? *question.dtype : *found.dtypes.begin();
  else
    missing.add(found.dtypes.empty()
                    ? "the element type (--dtype)"
                    : "which of their element types: " + list_text(found.dtypes, [](planner::DType type) {
                        return to_string(type);
                      }) + " (--dtype)");
  if (question.world_size || found.world_sizes.size() == 1)
    op.world_size = question.world_size ? *question.world_size : *found.world_sizes.begin();
  else
    missing.add(found.world_sizes.empty() ? "the ranks (--ranks)"
                                          : "which of their ranks: " + list_text(found.world_sizes) + " (--ranks)");
  if (!missing.is_empty()) return missing.error();
  if (!found.world_sizes.empty() && !found.world_sizes.contains(op.world_size))
    return Error{ErrorCode::InvalidSpec, "--ranks",
                 "is " + std::to_string(op.world_size) + " where the log says " + list_text(found.world_sizes)};
  MC2_TRY(op.validate());
  return op;
}

/// Length on the cut axis of the block that a matmul multiplies; nothing when the matmul is no block of the operator.
std::optional<std::int64_t> block_length(const OpSpec& op, const TimingKey& matmul) {
  if (matmul.k != op.k || matmul.dtype != op.dtype) return std::nullopt;
  if (planner::cut_axis(op) == planner::CutAxis::Columns)
    return matmul.m == op.m ? std::optional(matmul.n) : std::nullopt;
  if (matmul.n != op.n) return std::nullopt;
  // With a local part, the curve is over the other ranks' rows, because a rank multiplies its own shard separately.
  const std::int64_t unit = row_unit(op.kind, op.world_size);
  return matmul.m % unit == 0 ? std::optional(matmul.m / unit) : std::nullopt;
}

/// The sample for a group's timings, still without a time; nothing when the group is of another operator.
std::optional<Sample> sample_of(const OpSpec& op, const TimingKey& key) {
  Sample sample;
  sample.component = key.component;
  sample.variant = std::string(kImportedVariant);
  if (key.component == Component::Matmul) {
    const auto length = block_length(op, key);
    if (!length) return std::nullopt;
    sample.block_rows = *length;
    return sample;
  }
  if (key.collective != planner::collective_of(op.kind) || (key.world_size > 0 && key.world_size != op.world_size))
    return std::nullopt;
  const std::int64_t row_bytes = planner::traits_of(op.kind).message_bytes_per_unit(op);
  sample.message_bytes = key.message_bytes;
  sample.block_rows = std::clamp<std::int64_t>(key.message_bytes / row_bytes, 1, planner::kMaxSize);
  return sample;
}

std::string group_text(const TimingKey& key) {
  if (key.component == Component::Matmul)
    return "matmul m=" + std::to_string(key.m) + " n=" + std::to_string(key.n) + " k=" + std::to_string(key.k) +
           (key.dtype ? " " + std::string(planner::to_string(*key.dtype)) : "");
  return std::string(planner::to_string(key.collective)) + " of " + std::to_string(key.message_bytes) + " B" +
         (key.world_size > 0 ? " among " + std::to_string(key.world_size) + " ranks" : "");
}

/// Why a group has no sample_of() the operator: "of another operator", or what else differs.
std::string unused_text(const OpSpec& op, const TimingKey& key) {
  if (key.component == Component::Collective && key.collective == planner::collective_of(op.kind))
    return "of another number of ranks than " + std::to_string(op.world_size);
  const std::int64_t unit = row_unit(op.kind, op.world_size);
  const bool is_of_op =
      planner::cut_axis(op) == planner::CutAxis::Rows && key.n == op.n && key.k == op.k && key.dtype == op.dtype;
  if (key.component != Component::Matmul || !is_of_op || key.m % unit == 0) return "of another operator";
  const bool has_local_part = planner::traits_of(op.kind).has_local_part;
  return "of rows that are no multiple of " + std::to_string(unit) + (has_local_part ? ", the ranks less 1" : "") +
         ", as those of each block are";
}

void append_samples(const Sample& shape, const std::vector<TimedRound>& rounds, std::vector<Sample>& samples) {
  std::vector<double> times;
  for (const TimedRound& timed : rounds) times.push_back(static_cast<double>(timed.time.count()));
  const std::vector<bool> outliers = find_outliers(times);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    Sample sample = shape;
    sample.time = rounds[i].time;
    sample.round = rounds[i].round;
    sample.is_outlier = outliers[i];
    samples.push_back(std::move(sample));
  }
}

/// Runs that some ranks' logs lack count as waiting where the slowest takes more than this times the fastest.
constexpr double kMostWaiting = 3;

/// Counts of the runs of collectives that ranks timed separately and that were left out or are doubtful.
struct EventCount {
  std::int64_t left_out = 0, waiting_sizes = 0, torn = 0;
  bool may_have_waited = false;
  std::string waited; ///< the first size whose ranks evidently waited
};

/// The runs with times of all ranks. Where there are none, the runs with times of some ranks, unless these evidently
/// waited for others.
std::vector<TimedRound> usable_rounds(const TimingKey& key, const TimingGroup& group, int world_size,
                                      EventCount& count) {
  std::vector<TimedRound> complete, others;
  for (const TimedEvent& timed : group.events) {
    if (timed.is_torn)
      ++count.torn;
    else
      (timed.is_complete(world_size) ? complete : others).push_back(timed.shortest);
  }
  if (!complete.empty()) count.left_out += std::ssize(others);
  if (!complete.empty() || others.empty()) return complete;
  const auto [least, most] = std::ranges::minmax(others, {}, &TimedRound::time);
  if (static_cast<double>(most.time.count()) <= kMostWaiting * static_cast<double>(least.time.count())) {
    count.may_have_waited = true;
    return others;
  }
  if (count.waiting_sizes++ == 0) count.waited = group_text(key);
  return {};
}

std::vector<std::string> event_notes(const EventCount& count) {
  const std::string all_ranks = "; import the logs of all ranks in one command";
  std::vector<std::string> notes;
  if (count.waiting_sizes > 0)
    notes.push_back(std::to_string(count.waiting_sizes) + (count.waiting_sizes == 1 ? " size is" : " sizes are") +
                    " left out, whose times differ by more than " + std::to_string(static_cast<int>(kMostWaiting)) +
                    " times: ranks waited for others that no log is of, e.g. in " + count.waited + all_ranks);
  if (count.may_have_waited)
    notes.push_back("collectives were timed by some of their ranks only, and may have waited for the others" +
                    all_ranks);
  if (count.left_out > 0)
    notes.push_back("runs of collectives that only some ranks' logs tell are left out: " +
                    std::to_string(count.left_out));
  if (count.torn > 0)
    notes.push_back("runs of collectives to which one rank gives two times are left out: " +
                    std::to_string(count.torn) + "; import one trace of each rank, of the same steps");
  return notes;
}

/// The timings that did not become samples.
struct Unused {
  /// Groups that are not used for one reason.
  struct Groups {
    std::size_t count = 0;
    std::string first;
  };
  std::map<std::string, Groups> groups; ///< by their reason
  std::string group;                    ///< the first of all these groups
  EventCount events;

  void add(const std::string& reason, const std::string& text) {
    Groups& of_reason = groups[reason];
    if (of_reason.count++ == 0) of_reason.first = text;
    if (group.empty()) group = text;
  }
  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> texts;
    for (const auto& [reason, of_reason] : groups)
      texts.push_back(std::to_string(of_reason.count) + (of_reason.count == 1 ? " size is " : " sizes are ") + reason +
                      ", e.g. " + of_reason.first);
    return texts;
  }
};

/// Adds the samples of the profile's operator, and notes where only a part of their timings was kept.
Unused add_samples(const TimingSet& timings, ImportedProfile& imported) {
  const OpSpec& op = imported.profile.op;
  Unused unused;
  for (const auto& [key, group] : timings.groups()) {
    const auto shape = sample_of(op, key);
    if (!shape) {
      unused.add(unused_text(op, key), group_text(key));
      continue;
    }
    std::vector<TimedRound> rounds = group.kept;
    const int world_size = key.world_size > 0 ? key.world_size : op.world_size;
    const auto of_events = usable_rounds(key, group, world_size, unused.events);
    rounds.insert(rounds.end(), of_events.begin(), of_events.end());
    append_samples(*shape, rounds, imported.profile.samples);
    if (group.events.empty() && group.count > static_cast<std::int64_t>(group.kept.size()))
      imported.notes.push_back(group_text(key) + ": " + std::to_string(group.kept.size()) + " of " +
                               std::to_string(group.count) + " timings kept, drawn evenly");
  }
  return unused;
}

bool is_run_of(const OpSpec& op, const FusedTiming& timing) {
  if (timing.collective && *timing.collective != planner::collective_of(op.kind)) return false;
  if (timing.first_lane && *timing.first_lane != planner::traits_of(op.kind).first_lane) return false;
  if (timing.dtype && *timing.dtype != op.dtype) return false;
  const planner::Collective collective = planner::collective_of(op.kind);
  const std::int64_t shards = collective == planner::Collective::AllReduce ? 1 : op.world_size;
  if (timing.shards > 0 && collective != planner::Collective::AllToAll && timing.shards != shards) return false;
  return timing.n == 0 || (timing.m == op.m && timing.n == op.n && timing.k == op.k);
}

/// Median of the times that are not 0; 0 where all are.
double median_us(const std::vector<const FusedTiming*>& runs, double planner::CutTimes::*time_us) {
  std::vector<double> times;
  for (const FusedTiming* run : runs)
    if (run->*time_us > 0) times.push_back(run->*time_us);
  return times.empty() ? 0 : quantile(times, 0.5);
}

planner::CutRuns cut_of(const std::string& blocks, const std::vector<const FusedTiming*>& runs) {
  planner::CutRuns cut{{median_us(runs, &FusedTiming::fused_us), median_us(runs, &FusedTiming::serial_us),
                        median_us(runs, &FusedTiming::compute_us), median_us(runs, &FusedTiming::communication_us),
                        median_us(runs, &FusedTiming::compute_blocks_us),
                        median_us(runs, &FusedTiming::communication_blocks_us), static_cast<int>(runs.size())},
                       blocks};
  if (runs.size() < kFewestForError) return cut;
  std::vector<double> deviations;
  for (const FusedTiming* run : runs) deviations.push_back(std::abs(run->fused_us / cut.fused_us - 1));
  cut.relative_error =
      kMedianError * kMadToDeviation * quantile(deviations, 0.5) / std::sqrt(static_cast<double>(runs.size()));
  return cut;
}

/// Adds the measured cuts of the operator. Returns the number of runs of another operator.
std::size_t add_cuts(const TimingSet& timings, ImportedProfile& imported) {
  const OpSpec& op = imported.profile.op;
  std::size_t other_count = 0;
  std::vector<std::pair<std::string, std::vector<const FusedTiming*>>> groups;
  std::map<std::string, std::size_t> places;
  for (const FusedTiming& timing : timings.fused()) {
    if (!is_run_of(op, timing)) {
      ++other_count;
      continue;
    }
    const auto [place, is_new] = places.try_emplace(timing.blocks, groups.size());
    if (is_new) groups.emplace_back(timing.blocks, std::vector<const FusedTiming*>());
    groups[place->second].second.push_back(&timing);
  }
  for (const auto& [blocks, runs] : groups) {
    imported.cuts.push_back(cut_of(blocks, runs));
    imported.places.push_back(runs.front()->place());
  }
  return other_count;
}

Error bad_run(const std::string& place, const std::string& what) {
  return {ErrorCode::InvalidSpec, "blocks", place.empty() ? what : place + ": " + what};
}

/// Uncut times of one kind, of all cuts of an import. They are medians, so that a slow first run does not count.
class UncutTimes {
 public:
  explicit UncutTimes(std::string name) : name_(std::move(name)) {}

  void add(const std::string& cut, double us) {
    if (us <= 0) return;
    if (shortest_.us <= 0 || us < shortest_.us) shortest_ = {cut, us};
    if (us > longest_.us) longest_ = {cut, us};
  }

  /// Errors: InvalidSpec (blocks) where one is in another unit than the others.
  [[nodiscard]] Result<void> check() const {
    constexpr double kMostUnlike = 30; // of one operator on one machine
    if (longest_.us <= kMostUnlike * shortest_.us) return {};
    return bad_run("", "the " + name_ + " beside " + shortest_.cut + " is " + number_text(shortest_.us, 9) +
                           " us, and that beside " + longest_.cut + " is " + number_text(longest_.us, 9) +
                           " us; times of one operator, in us, are within a factor of 30");
  }

 private:
  struct Named {
    std::string cut;
    double us = 0;
  };

  std::string name_;
  Named shortest_, longest_;
};

/// Errors: as UncutTimes::check.
Result<void> check_units(const ImportedProfile& imported) {
  const planner::Variant variant{std::string(kImportedVariant), {}};
  UncutTimes serial("serial time"), compute("compute_us"), communication("communication_us");
  for (std::size_t i = 0; i < imported.cuts.size(); ++i) {
    const planner::CutRuns& runs = imported.cuts[i];
    const std::string& place = imported.places[i];
    const std::string name = "'" + runs.blocks.substr(0, 64) + "'" + (place.empty() ? "" : " (" + place + ")");
    const auto cut = planner::parse_cut(runs.blocks);
    const bool is_uncut =
        cut && planner::overlapping_schedule(imported.profile.op, variant, cut.value()) == planner::Schedule::Serial;
    serial.add(name, runs.serial_us);
    if (is_uncut) serial.add(name, runs.fused_us);
    compute.add(name, runs.compute_us);
    communication.add(name, runs.communication_us);
  }
  for (const auto& times : {serial, compute, communication}) MC2_TRY(times.check());
  return {};
}

/// The least that the uncut matmul alone takes: by the samples, or by what is published of the device; 0 where neither
/// tells.
double uncut_matmul_us(const planner::Profile& profile) {
  const auto& traits = planner::traits_of(profile.op.kind);
  std::vector<double> times;
  for (const Sample& sample : profile.samples)
    if (sample.component == Component::Matmul && sample.block_rows == traits.cut_axis_length(profile.op))
      times.push_back(sample.time_us());
  if (!times.empty()) return std::ranges::min(times);
  const auto published = planner::device_model(profile.fingerprint.fields.at("device"), profile.op);
  return published ? published.value().variants.front().uncut_compute_us(profile.op) : 0;
}

/// Checks each run before runs of one cut are merged. Errors: InvalidSpec (blocks).
Result<void> check_runs(const TimingSet& timings, const planner::Profile& profile) {
  const double matmul_us = uncut_matmul_us(profile);
  for (const FusedTiming& run : timings.fused())
    if (is_run_of(profile.op, run))
      if (const auto fits = validate_fused_time(profile.op, run.fused_us, matmul_us); !fits)
        return bad_run(run.place(), "'" + run.blocks.substr(0, 64) + "': " + fits.error().message);
  return {};
}

/// Checks the cuts of which the blocks are named; the plans of digests are not known here. Errors: InvalidSpec
/// (blocks).
Result<void> check_cuts(const ImportedProfile& imported) {
  const OpSpec& op = imported.profile.op;
  const planner::Variant variant{std::string(kImportedVariant), {}};
  const auto published = planner::device_model(imported.profile.fingerprint.fields.at("device"), op);
  for (std::size_t i = 0; i < imported.cuts.size(); ++i) {
    const planner::CutRuns& runs = imported.cuts[i];
    const std::string name = "'" + runs.blocks.substr(0, 64) + "': ";
    auto cut = planner::parse_cut(runs.blocks);
    if (!cut) continue;
    planner::MeasuredCut measured{runs, variant, std::move(cut).value()};
    if (const auto fits = planner::validate_measured_cut(op, measured); !fits)
      return bad_run(imported.places[i], name + fits.error().message);
    if (!published) continue;
    measured.variant = published.value().variants.front().variant;
    if (const auto fits = validate_uncut_times(op, published.value(), measured); !fits)
      return bad_run(imported.places[i], name + fits.error().message);
  }
  return {};
}

/// The maker of a device by its name in logs; empty where the name does not tell it.
std::string_view maker_of(const std::string& device) {
  struct Maker {
    std::string_view word, name; ///< of the device, in lower case; of its maker
  };
  static constexpr Maker kMakers[] = {
      {"nvidia", "NVIDIA"}, {"geforce", "NVIDIA"}, {"h100", "NVIDIA"}, {"h200", "NVIDIA"},  {"h800", "NVIDIA"},
      {"a100", "NVIDIA"},   {"a800", "NVIDIA"},    {"b200", "NVIDIA"}, {"instinct", "AMD"}, {"radeon", "AMD"},
      {"mi250", "AMD"},     {"mi300", "AMD"},      {"mi325", "AMD"},   {"mi355", "AMD"},    {"ascend", "Huawei"}};
  std::string name = device;
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  for (const Maker& maker : kMakers)
    if (name.find(maker.word) != std::string::npos) return maker.name;
  return {};
}

/// Errors: InvalidSpec (--device) where the logs name a device of another maker than the published one of this name.
Result<void> check_maker(const std::map<std::string, std::string>& facts, const std::string& device) {
  const auto logged = facts.find("device");
  const bool is_published = std::ranges::any_of(planner::published_devices(),
                                                [&](const auto& published) { return published.name == device; });
  if (!is_published || logged == facts.end()) return {};
  const std::string_view own = maker_of(device), other = maker_of(logged->second);
  if (own.empty() || other.empty() || own == other) return {};
  return Error{ErrorCode::InvalidSpec, "--device",
               "is '" + device + "', a device of " + std::string(own) +
                   " whose costs are published, and the logs name '" + logged->second.substr(0, 64) + "', of " +
                   std::string(other) + "; give that machine a name of its own"};
}

/// Errors: CannotFit for samples that cannot be of the published device after which they are named.
Result<void> check_against_published(const planner::Profile& profile) {
  auto published = planner::device_model(profile.fingerprint.fields.at("device"), profile.op);
  if (!published || profile.samples.empty()) return {};
  if (const auto overridden = override_model(std::move(published).value(), profile); !overridden)
    return overridden.error();
  return {};
}

planner::Fingerprint fingerprint_of(const std::map<std::string, std::string>& facts, const std::string& device) {
  planner::Fingerprint fingerprint;
  fingerprint.fields = facts;
  fingerprint.fields["backend"] = "imported";
  if (!device.empty()) {
    // The device's name in the log is kept beside the name that the user gives the machine.
    if (const auto known = facts.find("device"); known != facts.end() && known->second != device)
      fingerprint.fields["device_model"] = known->second;
    fingerprint.fields["device"] = device;
  }
  return fingerprint;
}

} // namespace

Result<ImportedProfile> assemble_profile(const TimingSet& timings, const std::map<std::string, std::string>& facts,
                                         const ImportQuestion& question) {
  MC2_ASSIGN(const auto op, find_operator(timings, question));
  if (question.device.empty() && !facts.contains("device"))
    return Error{ErrorCode::InvalidSpec, "--device",
                 "is missing: the logs do not name the machine, and what they hold is kept under its name"};
  MC2_TRY(check_maker(facts, question.device));
  ImportedProfile imported;
  imported.profile.op = op;
  imported.profile.fingerprint = fingerprint_of(facts, question.device);
  const Unused rest = add_samples(timings, imported);
  for (auto& note : rest.notes()) imported.notes.push_back(std::move(note));
  const auto notes = event_notes(rest.events);
  imported.notes.insert(imported.notes.end(), notes.begin(), notes.end());
  if (const std::size_t count = add_cuts(timings, imported); count > 0)
    imported.notes.push_back(std::to_string(count) + (count == 1 ? " fused run is" : " fused runs are") +
                             " of another operator or m");
  MC2_TRY(check_cuts(imported));
  MC2_TRY(check_runs(timings, imported.profile));
  MC2_TRY(check_units(imported));
  MC2_TRY(check_against_published(imported.profile));
  if (imported.profile.samples.empty() && imported.cuts.empty() && !notes.empty())
    return Error{ErrorCode::CannotFit, "", notes.front()};
  if (imported.profile.samples.empty() && imported.cuts.empty())
    return Error{ErrorCode::CannotFit, "",
                 "nothing in the logs is of " + op.text() + (rest.group.empty() ? "" : "; they hold " + rest.group)};
  return imported;
}

Result<void> check_import(const TimingSet& timings, const std::map<std::string, std::string>& facts,
                          const ImportQuestion& question) {
  const auto op = find_operator(timings, question);
  const bool is_unknown = !op && op.error().field.empty(); // something was not stated yet
  if (is_unknown) return {};
  ImportQuestion under = question;
  if (under.device.empty() && !facts.contains("device")) under.device = "device"; // it need not be named yet
  if (const auto assembled = assemble_profile(timings, facts, under); !assembled) return assembled.error();
  return {};
}

} // namespace mc2::profiler
