#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "mc2/planner/error.hpp"

namespace mc2::planner {

/// What the argument x of a curve counts.
enum class CurveAxis : std::uint8_t { Rows = 1, Bytes = 2 };

[[nodiscard]] std::string_view to_string(CurveAxis axis) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<CurveAxis> parse_curve_axis(std::string_view text);

/// t(x) = alpha_us + beta_us_per_x * x.
struct AffineCurve {
  double alpha_us = 0;
  double beta_us_per_x = 0;
  bool operator==(const AffineCurve&) const = default;
};

/// The published form: quadratic up to a knot, affine beyond it.
///   t(x) = q2 (x/scale)^2 + q1 (x/scale) + q0   for x <= knot
///   t(x) = l1 (x/scale) + l0                    for x >  knot
/// `scale_x` keeps the coefficients readable (2^20 turns bytes into MiB). The two pieces need not meet exactly.
/// Source: the Ascend MC2 recipe, docs/cost_model.md §2.
struct PiecewiseCurve {
  double knot_x = 0;
  double scale_x = 1;
  double q2 = 0, q1 = 0, q0 = 0;
  double l1 = 0, l0 = 0;
  bool operator==(const PiecewiseCurve&) const = default;
};

/// How well a fit describes the samples it came from.
struct FitQuality {
  int point_count = 0;
  double relative_rms = 0;       ///< root mean square of (measured - fitted) / measured
  double relative_worst = 0;     ///< largest absolute relative residual
  double cross_validated_rms = 0; ///< relative rms over points left out in turn
  std::string reason;            ///< why this family was chosen, one sentence
  bool operator==(const FitQuality&) const = default;
};

/// Where a number came from, from the strongest to the weakest. Values are stored: never renumber.
enum class Provenance : std::uint8_t { Measured = 1, Interpolated = 2, Extrapolated = 3, Analytic = 4 };

[[nodiscard]] std::string_view to_string(Provenance provenance) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<Provenance> parse_provenance(std::string_view text);

/// Cost of one block on one lane, in us, as a function of its size. Immutable value; safe to share.
struct CostCurve {
  using Shape = std::variant<AffineCurve, PiecewiseCurve>;

  CurveAxis axis = CurveAxis::Rows;
  Shape shape;
  double valid_min_x = 0; ///< smallest x measured; below it an answer is extrapolated
  double valid_max_x = 0; ///< largest x measured
  /// Half-width of the 90 % interval relative to t(x): the measured time lies in t(x) (1 +- relative_interval).
  double relative_interval = 0;
  bool is_analytic = false; ///< from published constants, not from samples
  FitQuality quality;

  /// Time of a block of size x in us; never negative, and 0 for x <= 0.
  [[nodiscard]] double time_us(double x) const noexcept;

  /// Smallest x >= 0 with time_us(x) >= t: where a block of that cost lies. Monotone in t.
  /// Errors: OutOfRange when the curve does not reach t below `max_x`.
  [[nodiscard]] Result<double> inverse(double t_us, double max_x) const;

  /// Interpolated inside [valid_min_x, valid_max_x], Extrapolated outside, Analytic for an analytic curve.
  [[nodiscard]] Provenance provenance(double x) const noexcept;

  /// "affine" or "piecewise".
  [[nodiscard]] std::string_view family() const noexcept;

  /// The formula with its numbers, e.g. "12.4 us + 0.0231 us/row".
  [[nodiscard]] std::string formula_text() const;

  /// Errors: InvalidSpec naming the field that is not finite, negative where it must not be, or makes the curve
  /// decrease or go negative inside its valid range.
  [[nodiscard]] Result<void> validate() const;

  bool operator==(const CostCurve&) const = default;
};

} // namespace mc2::planner
