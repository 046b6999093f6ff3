#include "pages/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "mc2/profiler/statistics.hpp"

#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::cli {
namespace {

constexpr double kConfidence = 0.9;
constexpr std::size_t kKnownSamples = 6; ///< from so many on, order statistics give the median's 90 % interval
constexpr double kUnknownNoise = 0.1;
constexpr int kModelSizes = 5;

using SizeKey = std::tuple<std::string, planner::Component, planner::Context, std::int64_t>;

std::map<SizeKey, std::vector<double>> times_of(const planner::Profile& profile) {
  std::map<SizeKey, std::vector<double>> times;
  for (const auto& sample : profile.samples) {
    if (sample.is_outlier || sample.time.count() <= 0) continue;
    const std::int64_t size = sample.size();
    times[{sample.variant, sample.component, sample.context, size}].push_back(sample.time_us());
  }
  return times;
}

TimeInterval known_to(double relative, double us) { return {us, us / (1 + relative), us * (1 + relative)}; }

TimeInterval median_of(const std::vector<double>& times) {
  const auto interval = profiler::quantile_interval(times, 0.5, kConfidence);
  if (times.size() >= kKnownSamples) return {interval.value, interval.low, interval.high};
  return known_to(kUnknownNoise, interval.value);
}

std::string work_text(const planner::OpSpec& op) { return std::string(to_string(planner::traits_of(op.kind).work)); }

std::string size_text(const planner::OpSpec& op, const SizeKey& key) {
  const auto& [variant, component, context, size] = key;
  const bool is_collective = component == planner::Component::Collective;
  const std::int64_t unit = is_collective ? planner::traits_of(op.kind).message_bytes_per_unit(op) : 1;
  const std::string length = std::to_string(size / unit) + " " + std::string(to_string(planner::cut_axis(op)));
  return (is_collective ? "collective " : work_text(op) + " ") +
         (size % unit == 0 ? length : std::to_string(size) + " B") +
         (context == planner::Context::CoRun ? ", other lane busy" : "") + ", " + variant;
}

TimeInterval curve_time(const planner::CostCurve& curve, double x) {
  return known_to(std::max(curve.curve_interval(), 1e-9), curve.time_us(x));
}

/// Sizes within both curves' valid ranges, at equal ratios.
std::vector<double> shared_sizes(const planner::CostCurve& a, const planner::CostCurve& b, double largest) {
  const double low = std::max({a.valid_min_x, b.valid_min_x, 1.0}),
               high = std::min({a.valid_max_x, b.valid_max_x, largest});
  std::vector<double> sizes;
  for (int i = 0; low <= high && i < kModelSizes; ++i)
    sizes.push_back(std::round(low * std::pow(high / low, i / (kModelSizes - 1.0))));
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

void compare_curves(const std::string& name, const planner::CostCurve& a, const planner::CostCurve& b, double largest,
                    std::vector<ComparedRow>& rows) {
  if (a.axis != b.axis) return;
  const char* unit = a.axis == planner::CurveAxis::Bytes     ? " B"
                     : a.axis == planner::CurveAxis::Columns ? " columns"
                                                             : " rows";
  for (const double x : shared_sizes(a, b, largest)) {
    if (a.time_us(x) > 0 && b.time_us(x) > 0)
      rows.push_back(compared_row(name + " " + number(x, "%.0f") + unit, curve_time(a, x), curve_time(b, x)));
  }
}

TimeInterval predicted(const planner::Estimate& time) {
  return {time.us, std::clamp(time.low_us, time.us * 1e-3, time.us), std::max(time.high_us, time.us)};
}

/// The measured time. A race gives its 95 % interval, from which the 90 % interval is a fixed share of the logarithms.
TimeInterval measured(const planner::Validation& run) {
  if (!run.spread) return known_to(kUnknownNoise, run.fused_us);
  const auto within = [&](double end_us) {
    return run.fused_us * std::pow(end_us / run.fused_us, planner::kNormal90 / planner::kNormal95);
  };
  return {run.fused_us, std::clamp(within(run.spread->fused_low_us), run.fused_us * 1e-3, run.fused_us),
          std::max(within(run.spread->fused_high_us), run.fused_us)};
}

/// "measured, fused": what was measured of both plans, each at the speed that the machine had in its race.
std::string measured_name(const planner::Plan& a, const planner::Plan& b) {
  const auto schedule = [](const planner::Plan& plan) { return std::string(plan.overlaps() ? "fused" : "serial"); };
  const std::string both = a.overlaps() == b.overlaps() ? schedule(a) : schedule(a) + " and " + schedule(b);
  return "measured, " + both + ", at the speed of each race";
}

/// Errors: InvalidSpec where blocks of one length are different work.
Result<void> check_same_blocks(const planner::OpSpec& a, const planner::OpSpec& b) {
  if (planner::has_same_block_costs(a, b)) return {};
  return Error{
      ErrorCode::InvalidSpec, "B",
      "is of " + b.text() + ", and A of " + a.text() + "; compare what differs in its machine or length alone"};
}

} // namespace

std::string_view to_string(Comparison comparison) noexcept {
  switch (comparison) {
    case Comparison::Better: return "better";
    case Comparison::Worse: return "worse";
    case Comparison::Indistinguishable: return "indistinguishable";
  }
  return "unknown";
}

std::string ratio_text(double ratio) { return number(ratio, "%.3f"); }

ComparedRow compared_row(std::string what, const TimeInterval& a, const TimeInterval& b) {
  ComparedRow row{std::move(what), a.us, b.us, b.us / a.us};
  const double down = std::hypot(std::log(b.us / b.low_us), std::log(a.high_us / a.us));
  const double up = std::hypot(std::log(b.high_us / b.us), std::log(a.us / a.low_us));
  row.low = row.ratio * std::exp(-down);
  row.high = row.ratio * std::exp(up);
  row.verdict = row.high < 1 ? Comparison::Better : row.low > 1 ? Comparison::Worse : Comparison::Indistinguishable;
  return row;
}

Result<std::vector<ComparedRow>> compare_profiles(const planner::Profile& a, const planner::Profile& b) {
  MC2_TRY(check_same_blocks(a.op, b.op));
  const auto ours = times_of(a), theirs = times_of(b);
  std::vector<ComparedRow> rows;
  for (const auto& [key, times] : ours)
    if (const auto other = theirs.find(key); other != theirs.end())
      rows.push_back(compared_row(size_text(a.op, key), median_of(times), median_of(other->second)));
  if (!rows.empty()) return rows;
  return Error{ErrorCode::NotFound, "B", "shares no variant and size with A: " + a.op.text() + " and " + b.op.text()};
}

Result<std::vector<ComparedRow>> compare_models(const planner::CostModel& a, const planner::CostModel& b) {
  MC2_TRY(check_same_blocks(a.op, b.op));
  std::vector<ComparedRow> rows;
  const auto length = static_cast<double>(std::max(planner::cut_axis_length(a.op), planner::cut_axis_length(b.op)));
  const auto bytes = length * static_cast<double>(planner::traits_of(a.op.kind).message_bytes_per_unit(a.op));
  for (const auto& variant : a.variants) {
    const auto other = std::find_if(b.variants.begin(), b.variants.end(),
                                    [&](const auto& theirs) { return theirs.variant == variant.variant; });
    if (other == b.variants.end()) continue;
    compare_curves(work_text(a.op) + ", " + variant.variant.text() + ",", variant.compute.curve, other->compute.curve,
                   length, rows);
    compare_curves("collective, " + variant.variant.text() + ",", variant.communication.curve,
                   other->communication.curve, bytes, rows);
    const auto exactly = [](double us) { return TimeInterval{us, us, us}; };
    if (variant.overhead_us() > 0 && other->overhead_us() > 0)
      rows.push_back(compared_row("fixed cost of a run, " + variant.variant.text(), exactly(variant.overhead_us()),
                                  exactly(other->overhead_us())));
  }
  if (!rows.empty()) return rows;
  return Error{ErrorCode::NotFound, "B", "shares no variant and size with A: " + a.op.text() + " and " + b.op.text()};
}

namespace {

/// The counts of a plan; none if all pairs of ranks send the same full count.
planner::RowCounts unequal_counts(const planner::Plan& plan) {
  const auto is_full = [&](std::int64_t count) { return count == plan.op.m / plan.op.world_size; };
  return std::ranges::all_of(plan.counts, is_full) ? planner::RowCounts() : plan.counts;
}

} // namespace

Result<std::vector<ComparedRow>> compare_plans(const planner::Plan& a, const planner::Plan& b) {
  if (a.op != b.op) return Error{ErrorCode::InvalidSpec, "B", "is of " + b.op.text() + ", and A of " + a.op.text()};
  if (unequal_counts(a) != unequal_counts(b))
    return Error{ErrorCode::InvalidSpec, "B", "is for other counts of rows than A; compare plans for the same ones"};
  std::vector<ComparedRow> rows;
  if (a.makespan.us > 0 && b.makespan.us > 0)
    rows.push_back(compared_row("predicted, " + a.cut.text() + " and " + b.cut.text(), predicted(a.makespan),
                                predicted(b.makespan)));
  if (a.validation && b.validation && a.validation->fused_us > 0 && b.validation->fused_us > 0)
    rows.push_back(compared_row(measured_name(a, b), measured(*a.validation), measured(*b.validation)));
  // A plan has no interval for its uncut parts; their relative interval is taken to be that of its makespan.
  const auto as_well = [](double us, const planner::Plan& plan) {
    const TimeInterval known = predicted(plan.makespan);
    if (!(known.us > 0)) return known_to(kUnknownNoise, us);
    return TimeInterval{us, us * known.low_us / known.us, us * known.high_us / known.us};
  };
  for (const auto& [name, part] : {std::pair("serial, predicted", &planner::Plan::serial_us),
                                   std::pair("matmul alone, predicted", &planner::Plan::compute_us),
                                   std::pair("collective alone, predicted", &planner::Plan::communication_us)})
    if (!rows.empty() && a.*part > 0 && b.*part > 0)
      rows.push_back(compared_row(name, as_well(a.*part, a), as_well(b.*part, b)));
  if (!rows.empty()) return rows;
  return Error{ErrorCode::NotFound, "B",
               "has no time in common with A: one of the plans predicts nothing, and not both were raced"};
}

} // namespace mc2::cli
