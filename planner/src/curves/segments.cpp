#include "mc2/planner/cost_curve.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "curves/slope.hpp"
#include "curves/x_text.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

double piece_us(const CurvePiece& piece, double u) noexcept { return (piece.q2 * u + piece.q1) * u + piece.q0; }

std::string piece_field(std::size_t index, const char* field) {
  return "pieces[" + std::to_string(index) + "]." + field;
}

Error field_error(std::string field, std::string message) {
  return {ErrorCode::InvalidSpec, std::move(field), std::move(message)};
}

Result<void> validate_knots(const SegmentsCurve& curve) {
  if (!std::isfinite(curve.scale_x) || curve.scale_x <= 0)
    return field_error("scale_x", "is " + number_text(curve.scale_x) + "; must be finite and > 0");
  if (curve.knots_x.size() > kMaxCurveKnots)
    return field_error("knots_x", "has " + std::to_string(curve.knots_x.size()) + " knots; at most " +
                                      std::to_string(kMaxCurveKnots) + " are allowed");
  if (curve.pieces.size() != curve.knots_x.size() + 1)
    return field_error("pieces", "has " + std::to_string(curve.pieces.size()) +
                                     " entries; must have one more than the " + std::to_string(curve.knots_x.size()) +
                                     " of knots_x");
  double previous = 0;
  for (std::size_t i = 0; i < curve.knots_x.size(); ++i) {
    const double knot = curve.knots_x[i];
    if (!(knot > previous && knot <= kMaxKnotX))
      return field_error("knots_x[" + std::to_string(i) + "]", "is " + number_text(knot) + "; must be above " +
                                                                   number_text(previous) + " and at most " +
                                                                   number_text(kMaxKnotX));
    previous = knot;
  }
  return {};
}

/// Range of one piece in units of scale_x; the last piece has no end, so its end_u is its begin_u.
struct PieceRange {
  double begin_u;
  double end_u;
  bool is_last;
};

Result<void> validate_piece(const CurvePiece& piece, std::size_t index, const PieceRange& range) {
  for (const auto& [field, value] : {std::pair{"q2", piece.q2}, std::pair{"q1", piece.q1}, std::pair{"q0", piece.q0}})
    if (!std::isfinite(value)) return field_error(piece_field(index, field), "is not a finite number");
  if (range.is_last && piece.q2 < 0)
    return field_error(piece_field(index, "q2"), "is negative; the last piece has no end, so its cost would fall");
  // A quadratic is monotone on a range when its slope has one sign at both ends.
  if (falls(piece.q2, piece.q1, range.begin_u))
    return field_error(piece_field(index, "q1"), "makes the piece fall at its start; cost must not fall with size");
  if (!range.is_last && falls(piece.q2, piece.q1, range.end_u))
    return field_error(piece_field(index, "q2"), "makes the piece fall before its end; cost must not fall with size");
  const double begin_us = piece_us(piece, range.begin_u);
  if (!(begin_us >= 0)) return field_error(piece_field(index, "q0"), "makes the cost negative");
  if (!std::isfinite(begin_us + piece_us(piece, range.end_u)))
    return field_error(piece_field(index, "q2"), "makes the cost infinite");
  return {};
}

} // namespace

double SegmentsCurve::time_us(double x) const noexcept {
  const auto knot = std::lower_bound(knots_x.begin(), knots_x.end(), x);
  const auto index = static_cast<std::size_t>(knot - knots_x.begin());
  return index < pieces.size() ? piece_us(pieces[index], x / scale_x) : 0;
}

std::string SegmentsCurve::formula_text(CurveAxis axis) const {
  const XText x(axis, scale_x);
  std::string text = "x in" + x.scaled_unit() + ": ";
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const CurvePiece& piece = pieces[i];
    if (piece.q2 != 0) text += number_text(piece.q2) + " x^2 + ";
    if (piece.q2 != 0 || piece.q1 != 0) text += number_text(piece.q1) + " x + ";
    text += number_text(piece.q0) + " us";
    if (i < knots_x.size()) text += " up to " + x.of(knots_x[i]) + ", then ";
  }
  return text;
}

Result<void> SegmentsCurve::validate(double /*min_x*/, double /*max_x*/) const {
  MC2_TRY(validate_knots(*this));
  double end_us = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool is_last = i == knots_x.size();
    const double begin_u = i == 0 ? 0 : knots_x[i - 1] / scale_x;
    const PieceRange range{begin_u, is_last ? begin_u : knots_x[i] / scale_x, is_last};
    MC2_TRY(validate_piece(pieces[i], i, range));
    const double begin_us = piece_us(pieces[i], range.begin_u);
    if (begin_us < end_us * (1 - kMaxKnotFall)) return field_error(piece_field(i, "q0"), fall_text(end_us, begin_us));
    end_us = piece_us(pieces[i], range.end_u);
  }
  return {};
}

std::span<const double> SegmentsCurve::fall_points() const noexcept { return knots_x; }

void SegmentsCurve::scale_times(double factor) noexcept {
  for (CurvePiece& piece : pieces) {
    piece.q2 *= factor;
    piece.q1 *= factor;
    piece.q0 *= factor;
  }
}

void SegmentsCurve::scale_rows(const SizeRatios& ratios) {
  scale_x /= ratios.flops();
  for (double& knot : knots_x) knot /= ratios.flops();
}

} // namespace mc2::planner
