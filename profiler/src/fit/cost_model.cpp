#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fit/round_drift.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/drift.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

using planner::Component;
using planner::Context;
using planner::CurveAxis;
using planner::Profile;
using planner::Sample;

constexpr double kFactorConfidence = 0.90;
constexpr double kNotableDrift = 1.1;
constexpr std::size_t kFewSamples = 3;
constexpr std::int64_t kFewLengths = 2; ///< a cut axis up to this length has fewer block lengths than a fit needs

/// The samples of one curve: one component of one variant.
struct Series {
  std::string variant;
  Component component = Component::Matmul;

  [[nodiscard]] std::string text() const { return variant + " " + std::string(to_string(component)); }
};

bool is_of(const Sample& sample, const Series& series, Context context) {
  return !sample.is_outlier && sample.variant == series.variant && sample.component == series.component &&
         sample.context == context;
}

Result<void> check_samples(const Profile& profile) {
  for (std::size_t i = 0; i < profile.samples.size(); ++i) {
    const Sample& sample = profile.samples[i];
    if (sample.is_outlier) continue;
    const std::string field = sample.variant + " " + std::string(to_string(sample.component));
    const std::string which = "sample " + std::to_string(i);
    if (sample.time.count() <= 0) {
      return Error{ErrorCode::CannotFit, field,
                   which + " has a time of " + std::to_string(sample.time.count()) + " ns; must be above 0"};
    }
    if (sample.size() <= 0) {
      return Error{ErrorCode::CannotFit, field,
                   which + " has a size of " + std::to_string(sample.size()) + "; must be above 0"};
    }
  }
  return {};
}

/// Times of one size at the reference level.
struct SizeTimes {
  std::vector<double> steady_us; ///< times in rounds whose drift factor is estimated
  std::vector<double> all_us;

  /// A round whose factor is borrowed from a neighbour adds error, so it counts only where steady_us has too few times.
  [[nodiscard]] const std::vector<double>& best() const { return steady_us.size() >= kFewSamples ? steady_us : all_us; }
};

FitPoint make_point(std::int64_t size, const std::vector<double>& times_us, double q) {
  FitPoint point;
  point.x = static_cast<double>(size);
  point.time_us = quantile(times_us, q);
  point.sample_count = static_cast<int>(times_us.size());
  point.relative_spread = robust_deviation(times_us) / point.time_us;
  return point;
}

std::vector<FitPoint> points_of(const Profile& profile, const Series& series, const Drift& drift, double q) {
  const double reference = fit::reference_factor(drift, q);
  std::map<std::int64_t, SizeTimes> sizes;
  for (const Sample& sample : profile.samples) {
    if (!is_of(sample, series, Context::Alone)) continue;
    SizeTimes& times = sizes[sample.size()];
    const double corrected_us = sample.time_us() * reference / drift.factor(sample.round);
    times.all_us.push_back(corrected_us);
    if (drift.is_estimated(sample.round)) times.steady_us.push_back(corrected_us);
  }
  std::vector<FitPoint> points;
  for (const auto& [size, times] : sizes) points.push_back(make_point(size, times.best(), q));
  return points;
}

void note_samples(const Profile& profile, const Series& series, std::span<const FitPoint> points,
                  std::vector<std::string>& notes) {
  const auto outlier_count = std::count_if(profile.samples.begin(), profile.samples.end(), [&](const Sample& sample) {
    return sample.is_outlier && sample.variant == series.variant && sample.component == series.component;
  });
  if (outlier_count > 0) {
    notes.push_back(series.text() + ": " + std::to_string(outlier_count) + " samples left out as outliers");
  }
  for (const FitPoint& point : points) {
    if (point.sample_count >= static_cast<int>(kFewSamples)) continue;
    notes.push_back(series.text() + ": size " + number_text(point.x) + " has only " +
                    std::to_string(point.sample_count) + (point.sample_count == 1 ? " sample" : " samples"));
  }
}

/// Assumes a slow-down where there are no pairs. Logs of other tools never time the lanes side by side, so an imported
/// profile gets the published recipe's contention.
void assume_slowdown(const Profile& profile, const Series& series, planner::LaneCost& lane,
                     std::vector<std::string>& notes) {
  if (profile.fingerprint.field("backend") != "imported") {
    notes.push_back(
        series.text() +
        ": slow-down 1 assumed, because no size was timed in one round both alone and with the other lane busy");
    return;
  }
  lane.slowdown = planner::kPublishedContention;
  lane.slowdown_interval = planner::kContentionInterval;
  notes.push_back(series.text() + ": slow-down " + number_text(lane.slowdown) +
                  " while the other lane is busy ASSUMED, as in the published recipe (90 % interval 1 to 1.3)" +
                  std::string(kUntilACutIsMeasured));
}

/// A lane does not do the same work faster beside another lane. Where the collective's co-run time is surely below this
/// share of its time alone, the other lane does a part of its work. For a variant with planner::shares_collective(),
/// any share surely below 1 means that.
constexpr double kSurelyLess = 0.9;

/// Sets the slow-down to the median of co-run / alone, at least 1 unless the collective's ratio is surely less.
void fit_slowdown(const Profile& profile, const Series& series, planner::LaneCost& lane,
                  std::vector<std::string>& notes) {
  std::map<std::pair<std::int64_t, int>, std::vector<double>> alone;
  for (const Sample& sample : profile.samples) {
    if (is_of(sample, series, Context::Alone)) alone[{sample.size(), sample.round}].push_back(sample.time_us());
  }
  std::vector<double> co_run_us;
  std::vector<double> alone_us;
  for (const Sample& sample : profile.samples) {
    if (!is_of(sample, series, Context::CoRun)) continue;
    const auto pair = alone.find({sample.size(), sample.round});
    if (pair == alone.end()) continue;
    co_run_us.push_back(sample.time_us());
    alone_us.push_back(quantile(pair->second, 0.5));
  }
  if (co_run_us.empty()) return assume_slowdown(profile, series, lane, notes);
  const Interval ratio = paired_ratio(co_run_us, alone_us, kFactorConfidence);
  const bool is_shared = planner::shares_collective(planner::parse_variant(series.variant));
  const bool is_less = series.component == Component::Collective && ratio.high < (is_shared ? 1 : kSurelyLess);
  notes.push_back(series.text() + ": slow-down " + number_text(ratio.value) + " while the other lane is busy (" +
                  number_text(ratio.low) + " to " + number_text(ratio.high) + ", median of " +
                  std::to_string(co_run_us.size()) + " pairs)" +
                  (ratio.value >= 1 ? ""
                   : is_less        ? "; the other lane does a part of its work"
                                    : ", taken as 1"));
  lane.slowdown = std::max(ratio.value, is_less ? planner::kLeastSlowdown : 1.0);
}

/// Whether the operator has fewer block lengths than a fit needs: its cut axis is short, or it would be cut in columns
/// and all samples are of the uncut axis because the backend does not cut columns.
bool has_few_lengths(const Profile& profile) {
  const std::int64_t length = planner::traits_of(profile.op.kind).cut_axis_length(profile.op);
  const bool is_uncut =
      std::ranges::all_of(profile.samples, [length](const Sample& sample) { return sample.block_rows == length; });
  return length <= kFewLengths || (is_uncut && planner::cut_axis(profile.op) == planner::CutAxis::Columns);
}

/// The error for a lane without times. Logs of other tools often have the times of one lane only.
Error missing_times(const Profile& profile, const Series& series) {
  if (profile.fingerprint.field("backend") != "imported")
    return {ErrorCode::CannotFit, series.text(), "there are no samples to fit"};
  const bool is_matmul = series.component == Component::Matmul;
  const std::string lane(is_matmul ? "matmul" : to_string(planner::collective_of(profile.op.kind)));
  // Few rows are cut into columns, so that their matmuls are those of this m with several n.
  const bool wants_columns = is_matmul && planner::cut_axis(profile.op) == planner::CutAxis::Columns;
  const std::string m = std::to_string(profile.op.m);
  return {ErrorCode::CannotFit, "device",
          "'" + std::string(profile.fingerprint.field("device")) + "' has no " + lane + " times for " +
              profile.op.text() +
              (wants_columns ? ", whose blocks are columns; import a log of matmuls of m=" + m +
                                   " with three n or more by mc2 import --m " + m
                             : "; import a log that has them for it, too (mc2 import)")};
}

/// Sets the cost of a run besides its blocks. One run's differs from the next's by as much as from another day's, so
/// the interval is that of single runs.
/// @param q  the quantile that the curves are fitted to
void fit_start(const Profile& profile, const Series& series, double q, planner::LaneCost& lane) {
  constexpr double kLow = 0.05, kHigh = 0.95; // the ends of a 90 % interval
  std::vector<double> starts_us;
  for (const Sample& sample : profile.samples)
    if (is_of(sample, series, Context::Alone) && sample.start.count() > 0)
      starts_us.push_back(planner::to_us(sample.start));
  if (starts_us.empty()) return;
  lane.start_us = quantile(starts_us, q);
  const double half_range_us = (quantile(starts_us, kHigh) - quantile(starts_us, kLow)) / 2;
  lane.start_interval = std::min(half_range_us / lane.start_us, planner::kMaxCurveInterval);
}

Result<planner::LaneCost> fit_lane(const Profile& profile, const Series& series, const Drift& drift,
                                   const FitOptions& options, std::vector<std::string>& notes) {
  const CurveAxis axis = series.component == Component::Matmul ? planner::compute_axis(profile.op) : CurveAxis::Bytes;
  const std::vector<FitPoint> points = points_of(profile, series, drift, options.quantile);
  if (points.empty()) return missing_times(profile, series);
  auto curve = has_few_lengths(profile) ? meet_points(points, axis) : fit_curve(points, axis, options);
  if (!curve) return Error{curve.error().code, series.text(), curve.error().message};
  note_samples(profile, series, points, notes);
  planner::LaneCost lane{std::move(curve).value()};
  fit_slowdown(profile, series, lane, notes);
  fit_start(profile, series, options.quantile, lane);
  return lane;
}

Result<planner::VariantCost> fit_variant(const Profile& profile, const std::string& name,
                                         const std::map<Component, Drift>& drifts, const FitOptions& options,
                                         std::vector<std::string>& notes) {
  MC2_ASSIGN(auto compute, fit_lane(profile, {name, Component::Matmul}, drifts.at(Component::Matmul), options, notes));
  MC2_ASSIGN(auto communication,
             fit_lane(profile, {name, Component::Collective}, drifts.at(Component::Collective), options, notes));
  return planner::VariantCost{planner::parse_variant(name), std::move(compute), std::move(communication)};
}

/// The drift factor of each session: the median over its estimated rounds. Empty for a single session, or where a
/// session has no estimated round.
std::vector<double> session_factors(const Profile& profile, const Drift& drift) {
  std::vector<std::vector<double>> of_rounds(profile.later_sessions.size() + 1);
  for (const auto& [number, round] : drift.rounds) {
    const auto later = std::ranges::upper_bound(profile.later_sessions, number) - profile.later_sessions.begin();
    if (round.is_estimated) of_rounds[static_cast<std::size_t>(later)].push_back(round.factor);
  }
  std::vector<double> factors;
  for (const auto& rounds : of_rounds)
    if (!rounds.empty()) factors.push_back(quantile(rounds, 0.5));
  return factors.size() == of_rounds.size() && factors.size() > 1 ? factors : std::vector<double>();
}

/// Adds a note where the speed of the sessions differs notably.
void note_sessions(const Profile& profile, Component component, const Drift& drift, std::vector<std::string>& notes) {
  const std::vector<double> factors = session_factors(profile, drift);
  if (factors.empty()) return;
  const auto [fastest, slowest] = std::ranges::minmax_element(factors);
  if (*slowest / *fastest < kNotableDrift) return;
  const auto number_of = [&](auto session) { return std::to_string(session - factors.begin() + 1); };
  notes.push_back(std::string(to_string(component)) + ": session " + number_of(slowest) + " of " +
                  std::to_string(factors.size()) + " took " + number_text(*slowest / *fastest) +
                  " x the time of session " + number_of(fastest) +
                  ": this machine was slower then, or it is another one of the same name; all times are scaled to the "
                  "level of the faster rounds");
}

std::string source_text(const Profile& profile) {
  std::set<int> rounds;
  for (const Sample& sample : profile.samples) rounds.insert(sample.round);
  return "profile of " + std::to_string(profile.samples.size()) + " samples in " + std::to_string(rounds.size()) +
         " rounds";
}

} // namespace

Result<FitSummary> fit_cost_model(const Profile& profile, const FitOptions& options) {
  MC2_TRY(options.validate());
  MC2_TRY(profile.op.validate());
  if (profile.samples.empty()) return Error{ErrorCode::CannotFit, "samples", "the profile has no samples"};
  MC2_TRY(check_samples(profile));

  FitSummary summary;
  summary.model.op = profile.op;
  summary.model.fingerprint = profile.fingerprint;
  summary.model.source = source_text(profile);
  std::map<Component, Drift> drifts;
  for (const Component component : {Component::Matmul, Component::Collective}) {
    const Drift& drift = drifts[component] = fit::drift_of(profile, component);
    note_sessions(profile, component, drift, summary.notes);
    if (drift.range() < kNotableDrift) continue;
    summary.notes.push_back(std::string(to_string(component)) + ": the machine's speed drifted by a factor of " +
                            number_text(drift.range()) + " between rounds, corrected");
  }
  std::set<std::string> variants;
  for (const Sample& sample : profile.samples) variants.insert(sample.variant);
  for (const std::string& name : variants) {
    MC2_ASSIGN(auto variant, fit_variant(profile, name, drifts, options, summary.notes));
    if (planner::has_run_cost(variant.variant)) variant.run_us = planner::kUsualRunUs;
    summary.model.variants.push_back(std::move(variant));
  }
  if (auto valid = summary.model.validate(); !valid) {
    return Error{ErrorCode::CannotFit, valid.error().field, valid.error().message};
  }
  return summary;
}

} // namespace mc2::profiler
