#include "mc2/profiler/fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "fit/cross_validation.hpp"
#include "fit/family.hpp"
#include "fit/points.hpp"
#include "fit/robust.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

using planner::CostCurve;
using planner::CurveAxis;

constexpr int kFewestPoints = 3; ///< distinct sizes; richer families need 6 to 12
constexpr double kClockError = 0.001;
/// A low quantile of n normal values has 1.36 times the standard error of their mean (a median: 1.25).
constexpr double kQuantileError = 1.36;
constexpr double kNoiseMargin = 1.5;

/// A richer family's error is at most this share of the simpler one's.
constexpr double kRicherGain = 0.8;
/// A family whose error is at most this share of affine's needs no t test. Where a misfit shows at few sizes only, the
/// differences vary too much for the test.
constexpr double kPlainGain = 0.5;
/// Additional factor on kRicherGain for interpolation, which carries the noise of every sample into the plan.
constexpr double kLastResortGain = 0.75;

struct Candidate {
  const fit::Family* family = nullptr;
  CostCurve curve;
  fit::CrossValidation validation;
};

CostCurve make_curve(const CostCurve::Shape& shape, CurveAxis axis, std::span<const FitPoint> points) {
  CostCurve curve;
  curve.axis = axis;
  curve.shape = shape;
  curve.valid_min_x = points.front().x;
  curve.valid_max_x = points.back().x;
  return curve;
}

bool can_carry(std::span<const FitPoint> points, const fit::Family& family) {
  return static_cast<int>(points.size()) >= family.min_point_count;
}

fit::FamilyInput make_input(std::span<const FitPoint> points, CurveAxis axis, const FitOptions& options) {
  return {points, axis, options.robust_scale};
}

/// Points to fit and points to leave out.
struct Split {
  std::vector<FitPoint> kept;
  std::vector<FitPoint> left_out;

  void leave_out(const std::vector<bool>& marks) {
    std::vector<FitPoint> rest;
    for (std::size_t i = 0; i < marks.size(); ++i) (marks[i] ? left_out : rest).push_back(kept[i]);
    kept = std::move(rest);
  }
};

/// Marks the points that no family explains: they are wrong, whatever the right family is. Marks none when they are
/// more than kMaxOutlierShare of the points.
std::vector<bool> find_unexplained(std::span<const FitPoint> points, CurveAxis axis, const FitOptions& options) {
  std::vector<bool> unexplained(points.size(), true);
  for (const fit::Family& family : fit::families()) {
    if (family.is_last_resort() || !can_carry(points, family)) continue;
    const auto shape = family.fit(make_input(points, axis, options));
    if (!shape) continue;
    const CostCurve curve = make_curve(*shape, axis, points);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double error = fit::ratio_error(curve.time_us(points[i].x), points[i].time_us);
      if (fit::is_inlier(error, options.robust_scale)) unexplained[i] = false;
    }
  }
  const auto count = static_cast<double>(std::count(unexplained.begin(), unexplained.end(), true));
  if (count > fit::kMaxOutlierShare * static_cast<double>(points.size())) unexplained.assign(points.size(), false);
  return unexplained;
}

/// Leaves out contradicting and unexplained points, together at most one in five.
Split split_points(std::vector<FitPoint> points, CurveAxis axis, const FitOptions& options) {
  const auto limit = static_cast<std::size_t>(fit::kMaxOutlierShare * static_cast<double>(points.size()));
  Split split{std::move(points), {}};
  split.leave_out(fit::find_contradicting(split.kept));
  const std::vector<bool> unexplained = find_unexplained(split.kept, axis, options);
  const auto count = static_cast<std::size_t>(std::count(unexplained.begin(), unexplained.end(), true));
  if (split.left_out.size() + count <= limit) split.leave_out(unexplained);
  return split;
}

std::vector<Candidate> fit_families(std::span<const FitPoint> points, CurveAxis axis, const FitOptions& options) {
  std::vector<Candidate> candidates;
  for (const fit::Family& family : fit::families()) {
    if (!can_carry(points, family)) continue;
    const fit::FamilyInput input = make_input(points, axis, options);
    const auto shape = family.fit(input);
    if (!shape) continue;
    const CostCurve curve = make_curve(*shape, axis, points);
    auto validation = fit::cross_validate(family, input, curve);
    if (validation && std::isfinite(validation->rms) && curve.validate())
      candidates.push_back({&family, curve, std::move(*validation)});
  }
  return candidates;
}

/// Error below which a misfit cannot be told from the noise of the points, so that no richer family is needed.
double noise_floor(std::span<const FitPoint> points) {
  std::vector<double> errors;
  for (const FitPoint& point : points) {
    errors.push_back(kQuantileError * point.relative_spread / std::sqrt(std::max(point.sample_count, 1)));
  }
  return std::max(kNoiseMargin * quantile(errors, 0.5), kClockError);
}

/// Whether the errors of the richer family are smaller by more than chance explains: the cross-validated paired t test,
/// one-sided. The level is 1 %, because folds share their data, which makes the test optimistic (Dietterich, Neural
/// Computation 10, 1998), and because each family has several richer ones. The test compares absolute errors rather
/// than squares, so that one bad fold does not decide.
bool has_evidence(const Candidate& richer, const Candidate& simpler) {
  const auto& rich = richer.validation.errors;
  const auto& simple = simpler.validation.errors;
  const std::size_t count = std::min(rich.size(), simple.size()); // a last resort has no ends, which come first
  if (count < 2) return false;
  std::vector<double> gains;
  for (std::size_t i = 1; i <= count; ++i) gains.push_back(simple[simple.size() - i] - rich[rich.size() - i]);
  const double n = static_cast<double>(count);
  const double mean = std::accumulate(gains.begin(), gains.end(), 0.0) / n;
  double square_sum = 0;
  for (const double gain : gains) square_sum += (gain - mean) * (gain - mean);
  return mean > fit::student_t99(static_cast<int>(count) - 1) * std::sqrt(square_sum / (n - 1) / n);
}

/// Whether a richer family clearly beats a simpler one. Against the simplest family, a smaller error alone is not
/// enough: structure needs has_evidence() or an error of at most kPlainGain. Between richer families the errors alone
/// decide.
bool is_clearly_better(const Candidate& richer, const Candidate& simpler, double floor) {
  const double simple_rms = simpler.validation.rms * (richer.family->is_last_resort() ? kLastResortGain : 1);
  if (simpler.validation.rms <= floor || richer.validation.rms > kRicherGain * simple_rms) return false;
  const bool is_simplest = simpler.family == &fit::families().front();
  return !is_simplest || richer.validation.rms <= kPlainGain * simple_rms || has_evidence(richer, simpler);
}

/// Index of the simplest family that no richer one clearly beats. A last resort must beat all others.
std::size_t choose(std::span<const Candidate> candidates, double floor) {
  const auto beaten_by = [&](std::size_t simpler, bool is_last_resort) {
    for (std::size_t i = simpler + 1; i < candidates.size(); ++i) {
      if (candidates[i].family->is_last_resort() == is_last_resort &&
          is_clearly_better(candidates[i], candidates[simpler], floor))
        return true;
    }
    return false;
  };
  std::size_t chosen = 0;
  while (beaten_by(chosen, false)) ++chosen;
  const std::size_t last = candidates.size() - 1;
  if (!candidates[last].family->is_last_resort()) return chosen;
  for (std::size_t i = 0; i < last; ++i)
    if (!beaten_by(i, true)) return chosen;
  return last;
}

std::string error_text(const Candidate& candidate) { return percent_text(candidate.validation.rms, 2); }

std::string rivals_text(std::span<const Candidate> candidates, std::size_t chosen) {
  std::string text;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i == chosen) continue;
    text += text.empty() ? " against " : ", ";
    text += error_text(candidates[i]) + " for " + std::string(candidates[i].family->name);
  }
  return text;
}

/// Why the chosen family won, for example for its simplicity or its error.
std::string why_text(std::span<const Candidate> candidates, std::size_t chosen, double floor) {
  if (candidates.size() == 1) return "; no other family could be fitted";
  if (candidates[chosen].family->is_last_resort()) return "; chosen because every other family is clearly worse";
  if (candidates[chosen].validation.rms <= floor)
    return "; chosen as the simplest within the noise of the samples (" + percent_text(floor, 2) + ")";
  const auto has_smaller_error = [&](const Candidate& other) {
    return other.validation.rms < candidates[chosen].validation.rms;
  };
  if (std::any_of(candidates.begin(), candidates.end(), has_smaller_error))
    return "; chosen as the simplest that none clearly beats";
  return "; chosen for the smallest error";
}

std::string reason_text(std::span<const Candidate> candidates, std::size_t chosen, double floor,
                        std::size_t point_count, std::span<const FitPoint> left_out) {
  std::string text = std::string(candidates[chosen].family->name) + ": cross-validated error " +
                     error_text(candidates[chosen]) + rivals_text(candidates, chosen) + " over " +
                     std::to_string(point_count) + " sizes" + why_text(candidates, chosen, floor);
  for (const fit::Family& family : fit::families()) {
    if (static_cast<int>(point_count) < family.min_point_count) {
      text += ", too few for " + std::string(family.name) + " (" + std::to_string(family.min_point_count) + ")";
    }
  }
  for (const FitPoint& point : left_out) text += ", left out size " + number_text(point.x) + " as an outlier";
  return text;
}

CostCurve describe(Candidate candidate, std::span<const FitPoint> points, std::string reason) {
  CostCurve curve = std::move(candidate.curve);
  const std::vector<double> residuals = fit::relative_residuals(curve, points);
  curve.quality.point_count = static_cast<int>(points.size());
  curve.quality.relative_rms = fit::root_mean_square(residuals);
  for (const double residual : residuals) {
    curve.quality.relative_worst = std::max(curve.quality.relative_worst, std::abs(residual));
  }
  curve.quality.cross_validated_rms = candidate.validation.rms;
  curve.quality.reason = std::move(reason);
  curve.relative_interval =
      fit::relative_interval(residuals, candidate.family->parameter_count, candidate.validation.rms, points);
  return curve;
}

} // namespace

Result<void> FitOptions::validate() const {
  if (!(quantile >= 0 && quantile <= 1)) return Error{ErrorCode::InvalidSpec, "quantile", "must be between 0 and 1"};
  if (!(robust_scale > 0) || !std::isfinite(robust_scale)) {
    return Error{ErrorCode::InvalidSpec, "robust_scale", "must be above 0"};
  }
  return {};
}

Result<CostCurve> meet_points(std::span<const FitPoint> points, CurveAxis axis) {
  MC2_ASSIGN(const std::vector<FitPoint> distinct, fit::prepare_points(points, 1));
  if (distinct.size() > 2) return Error{ErrorCode::CannotFit, "points", "more than two sizes; fit a curve to them"};
  const FitPoint& first = distinct.front();
  const FitPoint& last = distinct.back();
  const double proportional = last.time_us / last.x;
  // Through both points, unless that would fall with size or be negative at size 0.
  const double slope = distinct.size() < 2 ? proportional : (last.time_us - first.time_us) / (last.x - first.x);
  const double us_per_unit = std::clamp(slope, 0.0, proportional);
  Candidate met{&fit::families().front(), {}, {}};
  met.curve = make_curve(planner::AffineCurve{last.time_us - us_per_unit * last.x, us_per_unit}, axis, distinct);
  return describe(std::move(met), distinct,
                  "affine through " + std::to_string(distinct.size()) + (distinct.size() == 1 ? " size" : " sizes") +
                      ": the operator has no more block lengths");
}

Result<CostCurve> fit_curve(std::span<const FitPoint> points, CurveAxis axis, const FitOptions& options) {
  MC2_TRY(options.validate());
  MC2_ASSIGN(const auto prepared, fit::prepare_points(points, kFewestPoints));

  const auto [kept, left_out] = split_points(prepared, axis, options);
  MC2_TRY(fit::check_growth(kept));

  std::vector<Candidate> candidates = fit_families(kept, axis, options);
  if (candidates.empty()) {
    return Error{ErrorCode::CannotFit, "points",
                 "no family of curves converged on these " + std::to_string(kept.size()) + " sizes"};
  }
  const double floor = noise_floor(kept);
  const std::size_t chosen = choose(candidates, floor);
  std::string reason = reason_text(candidates, chosen, floor, kept.size(), left_out);
  return describe(std::move(candidates[chosen]), kept, std::move(reason));
}

} // namespace mc2::profiler
