#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// What the argument x of a curve counts.
enum class CurveAxis : std::uint8_t { Rows = 1, Bytes = 2, Columns = 3 };

[[nodiscard]] std::string_view to_string(CurveAxis axis) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<CurveAxis> parse_curve_axis(std::string_view text);

/// Ratios of the sizes that a block's cost depends on, target over source. Where columns are cut, n is 1, because n is
/// then only the length of the cut axis.
struct SizeRatios {
  double n = 1;
  double k = 1;
  [[nodiscard]] double flops() const noexcept { return n * k; }
};

// A family of curves is a type with these members, and an alternative of CostCurve::Shape:
//   kFamily, parameters()  names of the family and of its parameters in documents
//   time_us(x)             time of a block of size x > 0; CostCurve raises a negative one to 0
//   formula_text(axis)     the formula with its numbers
//   validate(min, max)     errors: InvalidSpec, as CostCurve::validate()
//   fall_points()          the only sizes at which the curve may fall: just beyond one, a block may cost less
//   scale_times(factor)    multiplies every time
//   scale_rows(ratios)     makes each row cost flops() times as much

/// t(x) = alpha_us + beta_us_per_x * x.
struct AffineCurve {
  static constexpr std::string_view kFamily = "affine";
  double alpha_us = 0;
  double beta_us_per_x = 0;
  static constexpr auto parameters() {
    return std::make_tuple(std::pair{"alpha_us", &AffineCurve::alpha_us},
                           std::pair{"beta_us_per_x", &AffineCurve::beta_us_per_x});
  }

  [[nodiscard]] double time_us(double x) const noexcept;
  [[nodiscard]] std::string formula_text(CurveAxis axis) const;
  [[nodiscard]] Result<void> validate(double min_x, double max_x) const;
  [[nodiscard]] std::span<const double> fall_points() const noexcept;
  void scale_times(double factor) noexcept;
  void scale_rows(const SizeRatios& ratios);
  bool operator==(const AffineCurve&) const = default;
};

/// The published form: quadratic up to a knot, affine beyond it.
///   t(x) = q2 (x/scale)^2 + q1 (x/scale) + q0   for x <= knot
///   t(x) = l1 (x/scale) + l0                    for x >  knot
/// `scale_x` keeps the coefficients readable (2^20 turns bytes into MiB). The two pieces need not meet exactly; the
/// cost may drop by kMaxKnotFall there. Source: the Ascend MC2 recipe, docs/cost_model.md §2.
struct PiecewiseCurve {
  static constexpr std::string_view kFamily = "piecewise";
  double knot_x = 0;
  double scale_x = 1;
  double q2 = 0, q1 = 0, q0 = 0;
  double l1 = 0, l0 = 0;
  static constexpr auto parameters() {
    return std::make_tuple(std::pair{"knot_x", &PiecewiseCurve::knot_x}, std::pair{"scale_x", &PiecewiseCurve::scale_x},
                           std::pair{"q2", &PiecewiseCurve::q2}, std::pair{"q1", &PiecewiseCurve::q1},
                           std::pair{"q0", &PiecewiseCurve::q0}, std::pair{"l1", &PiecewiseCurve::l1},
                           std::pair{"l0", &PiecewiseCurve::l0});
  }

  [[nodiscard]] double time_us(double x) const noexcept;
  [[nodiscard]] std::string formula_text(CurveAxis axis) const;
  [[nodiscard]] Result<void> validate(double min_x, double max_x) const;
  [[nodiscard]] std::span<const double> fall_points() const noexcept;
  void scale_times(double factor) noexcept;
  void scale_rows(const SizeRatios& ratios);
  bool operator==(const PiecewiseCurve&) const = default;
};

/// No family may have more knots; real curves need a handful.
inline constexpr std::size_t kMaxCurveKnots = 256;

/// A piece may start this much below the end of the one before it. Published curves join regressions of neighbouring
/// ranges, and libraries change algorithm at a size, so a slightly larger message can truly be cheaper: the
/// production Ascend curve drops by 8.6 % at 1/16 MiB. A larger drop is a mistake in the document.
inline constexpr double kMaxKnotFall = 0.10;

/// One piece of a SegmentsCurve, u = x / scale_x:  q2 u^2 + q1 u + q0, us.
struct CurvePiece {
  double q2 = 0, q1 = 0, q0 = 0;
  static constexpr auto parameters() {
    return std::make_tuple(std::pair{"q2", &CurvePiece::q2}, std::pair{"q1", &CurvePiece::q1},
                           std::pair{"q0", &CurvePiece::q0});
  }
  bool operator==(const CurvePiece&) const = default;
};

/// A curve with several knots. pieces[i] holds for knots_x[i-1] < x <= knots_x[i]; the first piece starts at 0 and the
/// last one has no end. knots_x ascend, and pieces has one entry more than knots_x. Pieces rise or stay level; at a
/// knot the cost may jump up by any amount, or down by kMaxKnotFall. Example: max(128, rows) c, a matmul whose cost has
/// a floor, is knots_x {128} and pieces {{0, 0, 128 c}, {0, c, 0}}. time_us() finds the piece by binary search.
struct SegmentsCurve {
  static constexpr std::string_view kFamily = "segments";
  double scale_x = 1; ///< keeps the coefficients readable: 2^20 turns bytes into MiB
  std::vector<double> knots_x;
  std::vector<CurvePiece> pieces;
  static constexpr auto parameters() {
    return std::make_tuple(std::pair{"scale_x", &SegmentsCurve::scale_x}, std::pair{"knots_x", &SegmentsCurve::knots_x},
                           std::pair{"pieces", &SegmentsCurve::pieces});
  }

  [[nodiscard]] double time_us(double x) const noexcept;
  [[nodiscard]] std::string formula_text(CurveAxis axis) const;
  [[nodiscard]] Result<void> validate(double min_x, double max_x) const;
  [[nodiscard]] std::span<const double> fall_points() const noexcept;
  void scale_times(double factor) noexcept;
  void scale_rows(const SizeRatios& ratios);
  bool operator==(const SegmentsCurve&) const = default;
};

/// Tile and wave quantisation on an affine base: t(x) = alpha_us + beta_us_per_x x + step_us ceil(x / period_x).
/// A matmul of x rows has ceil(x / tile_rows) ceil(n / tile_columns) tiles, executed unit_count at a time; a wave
/// therefore holds period_x = tile_rows unit_count / ceil(n / tile_columns) rows. The formula is exact at multiples of
/// tile_rows; between two multiples it is off by the unfilled part of a tile. Source: docs/cost_model.md §2.
struct StaircaseCurve {
  static constexpr std::string_view kFamily = "staircase";
  double alpha_us = 0;
  double beta_us_per_x = 0;
  double step_us = 0;        ///< cost of each wave begun
  double period_x = 1;       ///< x per wave, >= 1
  std::string period_source; ///< how the period was found, e.g. "fitted" or "132 units, tiles of 128 x 256, n = 8192"
  static constexpr auto parameters() {
    return std::make_tuple(
        std::pair{"alpha_us", &StaircaseCurve::alpha_us}, std::pair{"beta_us_per_x", &StaircaseCurve::beta_us_per_x},
        std::pair{"step_us", &StaircaseCurve::step_us}, std::pair{"period_x", &StaircaseCurve::period_x},
        std::pair{"period_source", &StaircaseCurve::period_source});
  }

  [[nodiscard]] double time_us(double x) const noexcept;
  [[nodiscard]] std::string formula_text(CurveAxis axis) const;
  [[nodiscard]] Result<void> validate(double min_x, double max_x) const;
  [[nodiscard]] std::span<const double> fall_points() const noexcept;
  void scale_times(double factor) noexcept;
  void scale_rows(const SizeRatios& ratios);
  bool operator==(const StaircaseCurve&) const = default;
};

/// Number of waves that a size x begins: ceil(x / period_x). A size that exceeds a multiple of the period by a relative
/// 1e-12 or less begins no further wave.
[[nodiscard]] double wave_count(double x, double period_x) noexcept;

/// A size with its time.
struct CurveKnot {
  double x = 0;
  double time_us = 0;
  static constexpr auto parameters() {
    return std::make_tuple(std::pair{"x", &CurveKnot::x}, std::pair{"time_us", &CurveKnot::time_us});
  }
  bool operator==(const CurveKnot&) const = default;
};

/// Monotone cubic interpolation. The curve passes through every knot and is level between two knots of equal time. It
/// continues along the end secants beyond the end knots, never below 0. There are at least 2 knots; they ascend in x
/// and do not fall in time. Source: Fritsch and Carlson, SIAM J. Numer. Anal. 17, 1980; slopes by the weighted harmonic
/// mean of Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5, 1984 (PCHIP); end slopes are the end secants.
struct InterpolatedCurve {
  static constexpr std::string_view kFamily = "interpolated";
  std::vector<CurveKnot> knots;
  static constexpr auto parameters() { return std::make_tuple(std::pair{"knots", &InterpolatedCurve::knots}); }

  [[nodiscard]] double time_us(double x) const noexcept;
  [[nodiscard]] std::string formula_text(CurveAxis axis) const;
  [[nodiscard]] Result<void> validate(double min_x, double max_x) const;
  [[nodiscard]] std::span<const double> fall_points() const noexcept;
  void scale_times(double factor) noexcept;
  void scale_rows(const SizeRatios& ratios);
  bool operator==(const InterpolatedCurve&) const = default;
};

/// How well a fit describes the samples it came from.
struct FitQuality {
  int point_count = 0;
  double relative_rms = 0;        ///< root mean square of (measured - fitted) / measured
  double relative_worst = 0;      ///< largest absolute relative residual
  double cross_validated_rms = 0; ///< relative rms over points left out in turn
  std::string reason;             ///< why this family was chosen, one sentence
  bool operator==(const FitQuality&) const = default;
};

/// Where a number came from, from the strongest to the weakest. Values are stored: never renumber.
enum class Provenance : std::uint8_t { Measured = 1, Interpolated = 2, Extrapolated = 3, Analytic = 4 };

[[nodiscard]] std::string_view to_string(Provenance provenance) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<Provenance> parse_provenance(std::string_view text);

/// Largest CostCurve::relative_interval. Fits to a few noisy sizes reach about ten. A topology's own interval has the
/// stricter limit kMaxRelativeInterval.
inline constexpr double kMaxCurveInterval = 1000;
/// The relative interval of two independent errors together, at most as wide as a curve's may be.
[[nodiscard]] double joined_interval(double one, double other) noexcept;

/// Cost of one block on one lane, in us, as a function of its size. Immutable value; safe to share.
struct CostCurve {
  using Shape = std::variant<AffineCurve, PiecewiseCurve, SegmentsCurve, StaircaseCurve, InterpolatedCurve>;

  CurveAxis axis = CurveAxis::Rows;
  Shape shape;
  double valid_min_x = 0; ///< smallest x measured; below it an answer is extrapolated
  double valid_max_x = 0; ///< largest x measured
  /// Half-width of the 90 % interval relative to t(x): the measured time lies in t(x) (1 +- relative_interval). At most
  /// kMaxCurveInterval.
  double relative_interval = 0;
  bool is_analytic = false; ///< computed from published constants, not fitted to samples
  FitQuality quality;

  /// Time of a block of size x in us; never negative, and 0 for x <= 0. Allocates nothing.
  [[nodiscard]] double time_us(double x) const noexcept;

  /// Smallest x >= 0 with time_us(x) >= t_us, within a relative 1e-12: the size of a block that costs t_us. The result
  /// is monotone in t_us. For a time inside a jump of the curve it is the first size beyond the jump.
  /// Errors: OutOfRange when the curve does not reach t_us up to `max_x`.
  [[nodiscard]] Result<double> inverse(double t_us, double max_x) const;

  /// Interpolated inside [valid_min_x, valid_max_x], Extrapolated outside, Analytic for an analytic curve.
  [[nodiscard]] Provenance provenance(double x) const noexcept;

  /// kFamily of the shape, e.g. "affine".
  [[nodiscard]] std::string_view family() const noexcept;

  /// Half-width of the 90 % interval of the curve itself, relative to t(x). Unlike relative_interval, it leaves out the
  /// spread of single timings. It is kNormal90 times the larger of quality.relative_rms and
  /// quality.cross_validated_rms, at most relative_interval. For a curve that was not fitted it is relative_interval.
  [[nodiscard]] double curve_interval() const noexcept;

  /// The formula with its numbers, e.g. "12.4 us + 0.0231 us/row".
  [[nodiscard]] std::string formula_text() const;

  /// Errors: InvalidSpec naming a field that is not finite, negative where it must not be, out of order or too long, an
  /// interval above kMaxCurveInterval, or the field that makes the curve fall (at a knot: by more than kMaxKnotFall),
  /// go negative or leave the range of a double inside its valid range.
  [[nodiscard]] Result<void> validate() const;

  bool operator==(const CostCurve&) const = default;
};

} // namespace mc2::planner

#pragma GCC visibility pop
