#include "peer_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace mc2::cli::peer_page_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr planner::OpKind kKind = planner::OpKind::MatmulReduceScatter;

/// Serial takes compute + communication, the kept plan `mc2_us`, in each of 21 pairs.
PeerRace shape(double compute_us, double communication_us, double mc2_us) {
  PeerRace result;
  result.op = {kKind, 1024, 64, 64, planner::DType::Bf16, 2};
  result.plan.cut = {{256, 256}};
  result.plan.variant = {"direct", {}};
  const auto times = [](double us) { return std::vector<double>(21, us); };
  result.race.serial_variant = {"direct", {}};
  result.race.compute_us = times(compute_us);
  result.race.communication_us = times(communication_us);
  result.race.contenders = {{result.plan.cut, result.plan.variant, times(mc2_us), times(compute_us + communication_us),
                             times(compute_us), times(communication_us)}};
  result.prediction = {0, mc2_us};
  return result;
}

void add_form(PeerRace& race, const std::string& name, double us) {
  race.torch.forms.push_back({name, "", 0.1});
  race.torch.form_us[name] = std::vector<double>(7, us);
  race.torch.mc2_us = std::vector<double>(7, race.mc2_us());
}

TEST(PeerSummary, CountsOnlyPromisingShapesInTheMeans) {
  // 100 + 100 in 125: 1.6x, efficiency (200 - 125) / (200 - 100) = 0.75. 100 + 300 in 350: ideal benefit 100 / 400,
  // 8/7x, efficiency 50 / 100 = 0.5. 1000 + 100: ideal benefit 1/11, below 15 %, and the worst.
  const std::vector<PeerRace> shapes{shape(100, 100, 125), shape(100, 300, 350), shape(1000, 100, 1100 / 0.99)};
  const PeerSummary summary = summarize(shapes);
  EXPECT_EQ(summary.shape_count, 3);
  EXPECT_EQ(summary.promising_count, 2);
  EXPECT_NEAR(summary.speedup_geomean, std::sqrt(1.6 * 8 / 7), 1e-12);
  EXPECT_NEAR(summary.efficiency_geomean, std::sqrt(0.75 * 0.5), 1e-12);
  EXPECT_NEAR(summary.worst_speedup, 0.99, 1e-12);
  EXPECT_EQ(summary.torch_count, 0);
}

TEST(PeerSummary, TakesErrorsBySize) {
  std::vector<PeerRace> shapes(3, shape(100, 100, 100));
  shapes[0].prediction = {102, 90};
  shapes[1].prediction = {102, 104};
  shapes[2].prediction = {97, 100};
  shapes.push_back(shape(100, 100, 100));
  shapes[3].prediction = {};                     // the samples could not be fitted
  const PeerSummary summary = summarize(shapes); // 10 %, 4 %, 0
  EXPECT_NEAR(summary.prediction_error_median, 0.04, 1e-12);
  EXPECT_NEAR(summary.prediction_error_worst, 0.1, 1e-12);
  EXPECT_NEAR(summary.tuned_error_median, 0.02, 1e-12);
  EXPECT_NEAR(summary.tuned_error_worst, 0.03, 1e-12);
}

TEST(PeerSummary, LeavesOutShapesThatFailed) {
  std::vector<PeerRace> shapes{shape(100, 100, 125), {}};
  shapes[1].op = shapes[0].op;
  shapes[1].error = Error{ErrorCode::Mismatch, "c", "wrong"};
  EXPECT_EQ(summarize(shapes).shape_count, 1);
  EXPECT_EQ(summarize(std::span(shapes).subspan(1)).shape_count, 0);
}

TEST(PeerTimes, ThePeerIsTheBetterFusedForm) {
  PeerRace race = shape(100, 100, 100);
  add_form(race, "fused_eager", 150);
  add_form(race, "fused_graph", 110);
  add_form(race, "unfused_graph", 90);
  EXPECT_EQ(race.torch.peer(), "fused_graph");
  EXPECT_NEAR(race.torch.ratio("fused_graph").value, 1.1, 1e-12);
  EXPECT_EQ(race.torch.fastest(""), "unfused_graph");
  PeerRace unfused = shape(100, 100, 100);
  add_form(unfused, "unfused_eager", 120);
  EXPECT_EQ(unfused.torch.peer(), "unfused_eager"); // a kind that PyTorch does not fuse
  EXPECT_EQ(shape(1, 1, 1).torch.peer(), "");
}

TEST(PeerPage, HoldsEveryFigureAndReason) {
  PeerRun run;
  run.command = "mc2-bench peers --json x";
  run.shapes = {shape(100, 100, 125), shape(100, 300, 400), {}};
  add_form(run.shapes[0], "fused_graph", 150);
  run.shapes[0].torch.forms.push_back({"fused_eager", "not built", 0});
  run.shapes[1].plan.schedule = planner::Schedule::Serial;
  run.shapes[1].torch.failure = "torch: gone";
  run.shapes[2].op = run.shapes[0].op;
  run.shapes[2].error = Error{ErrorCode::Mismatch, "c", "row 3 is wrong"};
  run.left_out = {run.shapes[0].op};
  const std::string page = peer_page(run);
  for (const char* part : {"mc2-bench peers --json x", "matmul_reduce_scatter\n", "1.600x", "75.0 %", "do not cut",
                           "1.200x", "torch fused_eager: not built", "torch: gone", "row 3 is wrong", "left out\n"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_THAT(page, Not(HasSubstr("matmul_all_reduce\n")));
}

TEST(PeerDocument, IsWrittenForShapesThatFailedToo) {
  PeerRun run;
  run.shapes = {{}};
  run.shapes[0].op = {kKind, 1024, 64, 64, planner::DType::Bf16, 2};
  run.shapes[0].error = Error{ErrorCode::Mismatch, "c", "row 3 is \xff wrong"};
  EXPECT_THAT(peer_document(run), HasSubstr("row 3 is"));
}

} // namespace
} // namespace mc2::cli::peer_page_test
