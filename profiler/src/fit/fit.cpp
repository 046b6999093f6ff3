#include "mc2/profiler/fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "fit/cross_validation.hpp"
#include "fit/family.hpp"
#include "fit/points.hpp"
#include "fit/robust.hpp"
#include "mc2/profiler/statistics.hpp"
#include "text.hpp"

namespace mc2::profiler {
namespace {

using planner::CostCurve;
using planner::CurveAxis;
using planner::Error;
using planner::ErrorCode;
using planner::Result;

constexpr double kClockError = 0.001;
/// A low quantile of n normal values has 1.36 times the standard error of their mean (a median: 1.25).
constexpr double kQuantileError = 1.36;
constexpr double kNoiseMargin = 1.5;

constexpr double kMaxOutlierShare = 0.2;

struct Candidate {
  const fit::Family* family = nullptr;
  CostCurve curve;
  double cross_validated_rms = 0;
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

/// Marks the points that no family explains: they are wrong, whatever the right family is. None when they are too
/// many for that.
std::vector<bool> find_unexplained(std::span<const FitPoint> points, CurveAxis axis, const FitOptions& options) {
  std::vector<bool> unexplained(points.size(), true);
  for (const fit::Family& family : fit::families()) {
    if (!can_carry(points, family)) continue;
    const auto shape = family.fit({points, axis, options.robust_scale});
    if (!shape) continue;
    const CostCurve curve = make_curve(*shape, axis, points);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double error = fit::ratio_error(curve.time_us(points[i].x), points[i].time_us);
      if (fit::is_inlier(error, options.robust_scale)) unexplained[i] = false;
    }
  }
  const auto count = static_cast<double>(std::count(unexplained.begin(), unexplained.end(), true));
  if (count > kMaxOutlierShare * static_cast<double>(points.size())) unexplained.assign(points.size(), false);
  return unexplained;
}

/// At most one point in five is left out, by both rules together.
Split split_points(std::vector<FitPoint> points, CurveAxis axis, const FitOptions& options) {
  const auto limit = static_cast<std::size_t>(kMaxOutlierShare * static_cast<double>(points.size()));
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
    const fit::FamilyInput input{points, axis, options.robust_scale};
    const auto shape = family.fit(input);
    if (!shape) continue;
    const CostCurve curve = make_curve(*shape, axis, points);
    const auto rms = fit::cross_validated_rms(family, input, curve);
    if (rms && std::isfinite(*rms) && curve.validate()) candidates.push_back({&family, curve, *rms});
  }
  return candidates;
}

/// Error below which a misfit cannot be told from the noise of the points, so that no richer family is called for.
double noise_floor(std::span<const FitPoint> points) {
  std::vector<double> errors;
  for (const FitPoint& point : points) {
    errors.push_back(kQuantileError * point.relative_spread / std::sqrt(std::max(point.sample_count, 1)));
  }
  return std::max(kNoiseMargin * quantile(errors, 0.5), kClockError);
}

std::size_t choose(std::span<const Candidate> candidates, double gain, double floor) {
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const double simpler_rms = candidates[chosen].cross_validated_rms;
    if (simpler_rms > floor && candidates[i].cross_validated_rms <= gain * simpler_rms) chosen = i;
  }
  return chosen;
}

std::string rivals_text(std::span<const Candidate> candidates, std::size_t chosen) {
  std::string text;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i == chosen) continue;
    text += text.empty() ? " against " : " and ";
    text += percent_text(candidates[i].cross_validated_rms) + " for " + std::string(candidates[i].family->name);
  }
  return text;
}

std::string reason_text(std::span<const Candidate> candidates, std::size_t chosen, std::size_t point_count,
                        std::span<const FitPoint> left_out) {
  std::string text = std::string(candidates[chosen].family->name) + ": cross-validated error " +
                     percent_text(candidates[chosen].cross_validated_rms) + rivals_text(candidates, chosen) +
                     " over " + std::to_string(point_count) + " sizes";
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
  curve.quality.cross_validated_rms = candidate.cross_validated_rms;
  curve.quality.reason = std::move(reason);
  curve.relative_interval =
      fit::relative_interval(residuals, candidate.family->parameter_count, candidate.cross_validated_rms, points);
  return curve;
}

} // namespace

Result<void> FitOptions::validate() const {
  if (!(quantile >= 0 && quantile <= 1)) return Error{ErrorCode::InvalidSpec, "quantile", "must be between 0 and 1"};
  if (!(robust_scale > 0) || !std::isfinite(robust_scale)) {
    return Error{ErrorCode::InvalidSpec, "robust_scale", "must be above 0"};
  }
  if (min_point_count < 3) return Error{ErrorCode::InvalidSpec, "min_point_count", "must be at least 3"};
  if (!(cross_validation_gain > 0 && cross_validation_gain <= 1)) {
    return Error{ErrorCode::InvalidSpec, "cross_validation_gain", "must be above 0 and at most 1"};
  }
  return {};
}

Result<CostCurve> meet_points(std::span<const FitPoint> points, CurveAxis axis) {
  const auto prepared = fit::prepare_points(points, 1);
  if (!prepared) return prepared.error();
  const std::vector<FitPoint>& distinct = prepared.value();
  if (distinct.size() > 2) return Error{ErrorCode::CannotFit, "points", "more than two sizes; fit a curve to them"};
  const FitPoint& first = distinct.front();
  const FitPoint& last = distinct.back();
  const double proportional = last.time_us / last.x;
  // Through both points, unless that would fall with size or be negative at size 0.
  const double slope = distinct.size() < 2 ? proportional : (last.time_us - first.time_us) / (last.x - first.x);
  const double us_per_unit = std::clamp(slope, 0.0, proportional);
  Candidate met{&fit::families().front(), {}, 0};
  met.curve = make_curve(planner::AffineCurve{last.time_us - us_per_unit * last.x, us_per_unit}, axis, distinct);
  return describe(std::move(met), distinct,
                  "affine through " + std::to_string(distinct.size()) +
                      (distinct.size() == 1 ? " size" : " sizes") + ": the operator has no more block lengths");
}

Result<CostCurve> fit_curve(std::span<const FitPoint> points, CurveAxis axis, const FitOptions& options) {
  if (auto valid = options.validate(); !valid) return valid.error();
  const auto prepared = fit::prepare_points(points, options.min_point_count);
  if (!prepared) return prepared.error();

  const auto [kept, left_out] = split_points(prepared.value(), axis, options);
  if (auto grows = fit::check_growth(kept); !grows) return grows.error();

  std::vector<Candidate> candidates = fit_families(kept, axis, options);
  if (candidates.empty()) {
    return Error{ErrorCode::CannotFit, "points",
                 "no family of curves converged on these " + std::to_string(kept.size()) + " sizes"};
  }
  const std::size_t chosen = choose(candidates, options.cross_validation_gain, noise_floor(kept));
  std::string reason = reason_text(candidates, chosen, kept.size(), left_out);
  return describe(std::move(candidates[chosen]), kept, std::move(reason));
}

} // namespace mc2::profiler
