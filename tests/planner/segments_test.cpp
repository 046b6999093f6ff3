#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::planner::segments_test {
namespace {

CostCurve curve_of(SegmentsCurve shape, CurveAxis axis = CurveAxis::Rows) {
  CostCurve curve;
  curve.axis = axis;
  curve.shape = std::move(shape);
  curve.valid_max_x = 1e9;
  return curve;
}

/// The all-reduce of the production Ascend planner, us over MiB: 18 up to 1/16; -0.9698202 x^2 + 27.0622573 x
/// + 14.769 up to 8; 13.58491263 x + 61.508333 beyond.
CostCurve production() {
  return curve_of({kBytesPerMib,
                   {kBytesPerMib / 16, 8 * kBytesPerMib},
                   {{0, 0, 18}, {-0.9698202, 27.0622573, 14.769}, {0, 13.58491263, 61.508333}}},
                  CurveAxis::Bytes);
}

/// max(128, rows) * 0.2 us.
CostCurve floored_matmul() { return curve_of({1, {128}, {{0, 0, 25.6}, {0, 0.2, 0}}}); }

TEST(Segments, TakesThePieceThatTheSizeLiesIn) {
  const CostCurve curve = production();
  EXPECT_DOUBLE_EQ(curve.time_us(1), 18);
  EXPECT_DOUBLE_EQ(curve.time_us(kBytesPerMib / 16), 18);        // a knot belongs to the piece before it
  EXPECT_NEAR(curve.time_us(6 * kBytesPerMib), 142.229, 0.001);  // -34.914 + 162.374 + 14.769
  EXPECT_NEAR(curve.time_us(64 * kBytesPerMib), 930.943, 0.001); // 869.434 + 61.508
  EXPECT_EQ(curve.time_us(0), 0);
}

TEST(Segments, ExpressesTheFloorOfAMatmul) {
  const CostCurve curve = floored_matmul();
  EXPECT_TRUE(curve.validate().ok());
  for (const double rows : {1.0, 127.0, 128.0, 129.0, 4096.0})
    EXPECT_DOUBLE_EQ(curve.time_us(rows), std::max(128.0, rows) * 0.2) << rows;
}

TEST(Segments, NeedsNoKnot) {
  const CostCurve curve = curve_of({1, {}, {{0, 2, 1}}});
  EXPECT_TRUE(curve.validate().ok());
  EXPECT_DOUBLE_EQ(curve.time_us(10), 21);
  EXPECT_NEAR(curve.inverse(21, 100).value(), 10, 1e-9);
}

TEST(Segments, AcceptsTheProductionCurveThoughItDropsAtAKnot) {
  const CostCurve curve = production();
  EXPECT_TRUE(curve.validate().ok());
  // Just beyond 1/16 MiB: -0.00379 + 1.69139 + 14.769 = 16.4566 us, 8.57 % below 18.
  EXPECT_NEAR(curve.time_us(kBytesPerMib / 16 * 1.000001), 16.4566, 1e-3);
}

TEST(Segments, InverseIsTheFirstSizeOfThatCostDespiteADrop) {
  const CostCurve curve = production();
  // 17 us: every message up to 1/16 MiB takes 18 us, so the smallest message takes as long already.
  EXPECT_LT(curve.inverse(17, 1e9).value(), 1e-9);
  EXPECT_LT(curve.inverse(18, 1e9).value(), 1e-9);
  // 19 us: on the quadratic, x = (27.0622573 - sqrt(27.0622573^2 - 4 * 0.9698202 * 4.231)) / (2 * 0.9698202)
  const double root = (27.0622573 - std::sqrt(27.0622573 * 27.0622573 - 4 * 0.9698202 * 4.231)) / (2 * 0.9698202);
  EXPECT_NEAR(curve.inverse(19, 1e9).value() / kBytesPerMib, root, 1e-9);
  // Of messages up to 0.07 MiB, the first that takes 17.5 us lies in the first piece, though 0.07 MiB takes only 16.66
  // us.
  EXPECT_LT(curve.inverse(17.5, 0.07 * kBytesPerMib).value(), 1e-9);
}

TEST(Segments, InverseOfATimeInsideAJumpIsTheKnot) {
  const CostCurve curve = curve_of({1, {10}, {{0, 1, 0}, {0, 1, 50}}}); // 10 at 10, 60 beyond
  const double x = curve.inverse(30, 100).value();
  EXPECT_GT(x, 10);
  EXPECT_NEAR(x, 10, 1e-9);
}

TEST(Segments, InverseRefusesATimeThatNoBlockReaches) {
  EXPECT_EQ(floored_matmul().inverse(1000, 4096).error().code, ErrorCode::OutOfRange); // 4096 rows cost 819.2
  EXPECT_EQ(floored_matmul().inverse(std::nan(""), 4096).error().code, ErrorCode::OutOfRange);
}

TEST(Segments, ScalingMultipliesEveryPiece) {
  const CostCurve curve = production();
  for (const double mib : {0.01, 0.0625, 3.0, 8.0, 64.0})
    EXPECT_DOUBLE_EQ(scaled(curve, 1.5).time_us(mib * kBytesPerMib), 1.5 * curve.time_us(mib * kBytesPerMib)) << mib;
}

TEST(Segments, FormulaNamesEveryPiece) {
  EXPECT_EQ(production().formula_text(),
            "x in MiB: 18 us up to 0.0625 MiB, then -0.9698 x^2 + 27.06 x + 14.77 us up to 8 MiB, then 13.58 x + "
            "61.51 us");
  EXPECT_EQ(floored_matmul().formula_text(), "x in rows: 25.6 us up to 128 rows, then 0.2 x + 0 us");
}

struct Wrong {
  SegmentsCurve shape;
  std::string field;
};

TEST(Segments, RefusesWhatIsNoCurveNamingTheField) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const std::vector<Wrong> wrongs{
      {{0, {}, {{0, 1, 1}}}, "scale_x"},
      {{nan, {}, {{0, 1, 1}}}, "scale_x"},
      {{1, {}, {}}, "pieces"},
      {{1, {5}, {{0, 1, 1}}}, "pieces"},
      {{1, {5, 5}, {{0, 1, 1}, {0, 1, 1}, {0, 1, 1}}}, "knots_x[1]"},
      {{1, {5, 4}, {{0, 1, 1}, {0, 1, 1}, {0, 1, 1}}}, "knots_x[1]"},
      {{1, {0}, {{0, 1, 1}, {0, 1, 1}}}, "knots_x[0]"},
      {{1, {nan}, {{0, 1, 1}, {0, 1, 1}}}, "knots_x[0]"},
      {{1, {infinity}, {{0, 1, 1}, {0, 1, 1}}}, "knots_x[0]"},
      {{1, {5}, {{0, nan, 1}, {0, 1, 1}}}, "pieces[0].q1"},
      {{1, {5}, {{0, -1, 100}, {0, 1, 100}}}, "pieces[0].q1"},
      {{1, {5}, {{-1, 5, 1}, {0, 1, 20}}}, "pieces[0].q2"},      // slope 5 - 10 at 5
      {{1, {5}, {{0, 1, -1}, {0, 1, 1}}}, "pieces[0].q0"},       // -1 us at 0
      {{1, {5}, {{0, 1, 1}, {-1e-9, 5, 1}}}, "pieces[1].q2"},    // the last piece falls in the end
      {{1, {100}, {{0, 0, 100}, {0, 0, 89}}}, "pieces[1].q0"},   // a drop of 11 %
      {{1, {1e18}, {{1e300, 1, 1}, {0, 1, 1}}}, "pieces[0].q2"}, // 1e336 us at the knot
  };
  for (const auto& [shape, field] : wrongs) {
    const auto valid = curve_of(shape).validate();
    ASSERT_FALSE(valid) << field;
    EXPECT_EQ(valid.error().field, field) << valid.error().text();
  }
  EXPECT_TRUE(curve_of({1, {100}, {{0, 0, 100}, {0, 0, 91}}}).validate().ok());
}

TEST(Segments, RefusesTooManyKnots) {
  SegmentsCurve shape{1, {}, {{0, 1, 0}}};
  for (int i = 1; i <= 256; ++i) {
    shape.knots_x.push_back(i);
    shape.pieces.push_back({0, 1, 0});
  }
  EXPECT_TRUE(curve_of(shape).validate().ok());
  shape.knots_x.push_back(257);
  shape.pieces.push_back({0, 1, 0});
  EXPECT_EQ(curve_of(shape).validate().error().field, "knots_x");
}

} // namespace
} // namespace mc2::planner::segments_test
