#include "backends/host/mechanisms/mechanism.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "backends/host/host_backend.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/collective.hpp"
#include "support/operators.hpp"
#include "support/prepare.hpp"

namespace mc2::executor::host::mechanisms_test {
namespace {

using planner::Cut;
using planner::OpKind;
using planner::OpSpec;
using planner::Variant;
using ::testing::AllOf;
using ::testing::HasSubstr;

OpSpec op_of(OpKind kind, std::int64_t m, std::int64_t n, int world_size) {
  return testing::completed(
      {.kind = kind, .m = m, .n = n, .k = 24, .dtype = planner::DType::F32, .world_size = world_size});
}

std::unique_ptr<Communicator> open(int world_size) {
  return host_backend().open(testing::host_options(world_size)).value();
}

/// The variants that the backend proposes, and some with settings other than the defaults.
std::vector<Variant> variants_of(const OpSpec& op) {
  auto variants = host_variants(op, {});
  if (op.kind == OpKind::MatmulAllReduce) variants.push_back({"two_shot", {{"order", "rank"}}});
  if (planner::sums_over_ranks(op.kind)) {
    variants.push_back({"ring", {{"lanes", "1"}}});
    variants.push_back({"ring", {{"lanes", "5"}}});
  }
  return variants;
}

void expect_right(const OpSpec& op, const RandomProblem& problem, const Cut& cut) {
  const auto found = verify_result(op, problem.buffers(), cut, 1);
  EXPECT_TRUE(found.ok()) << found.error().text();
}

/// Checks the result of fused and serial runs, and of the lanes run alone one after the other. Independent runs come in
/// between. Every checked run has new numbers.
void run_every_mode(const OpSpec& op, const Cut& cut, const Variant& variant, Communicator& communicator) {
  SCOPED_TRACE(op.text() + " as " + cut.text() + " with " + variant.text());
  RandomProblem problem(op, 3);
  const auto prepared =
      testing::prepare_cut(communicator, op, cut, variant, problem.buffers(), {.allow_independent = true}).value();
  std::uint64_t seed = 10;
  const auto renew = [&] {
    problem.refill_a(++seed);
    problem.poison();
  };
  for (const RunMode mode : {RunMode::Fused, RunMode::Serial, RunMode::Fused}) {
    renew();
    prepared->run(mode);
    expect_right(op, problem, cut);
    prepared->run(RunMode::Independent);
  }
  renew();
  const bool computes_first = planner::traits_of(op.kind).first_lane == planner::Lane::Compute;
  prepared->run(computes_first ? RunMode::ComputeOnly : RunMode::CommunicationOnly);
  prepared->run(computes_first ? RunMode::CommunicationOnly : RunMode::ComputeOnly);
  expect_right(op, problem, cut);
}

TEST(Mechanisms, AreRightInEveryModeForBlocksOfManySlices) {
  // In kinds without shards each of the two blocks has 100800 elements: 2 windows of two_shot at 2 ranks, 7 slices of
  // the ring and of push, 25 chunks of low_latency. The last window, slice and chunk are shorter than the others.
  for (const int world_size : {2, 3, 4}) {
    auto communicator = open(world_size);
    for (const auto& traits : planner::op_registry()) {
      const OpSpec op = op_of(traits.kind, 480, 420, world_size);
      const std::int64_t rows = traits.cut_axis_length(op);
      for (const Variant& variant : variants_of(op))
        run_every_mode(op, {{rows / 2, rows - rows / 2}}, variant, *communicator);
    }
  }
}

TEST(Mechanisms, OfOneCommunicatorDoNotDisturbEachOther) {
  auto communicator = open(3);
  const OpSpec op = op_of(OpKind::MatmulAllReduce, 80, 50, 3);
  const Cut cut{{20, 60}};
  std::vector<std::unique_ptr<RandomProblem>> problems;
  std::vector<std::unique_ptr<Prepared>> prepared;
  for (const Variant& variant : variants_of(op)) {
    problems.push_back(std::make_unique<RandomProblem>(op, problems.size()));
    prepared.push_back(testing::prepare_cut(*communicator, op, cut, variant, problems.back()->buffers(), {}).value());
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < prepared.size(); ++i) {
      problems[i]->poison();
      prepared[i]->run(RunMode::Fused);
      expect_right(op, *problems[i], cut);
    }
  }
}

TEST(Mechanisms, ManyShortRunsWrapTheirBuffers) {
  // 300 runs of 4 blocks use far more slices than any buffer has slots.
  auto communicator = open(2);
  const OpSpec op = op_of(OpKind::MatmulAllReduce, 68, 3, 2);
  const Cut cut{{2, 2, 2, 62}};
  for (const Variant& variant : variants_of(op)) {
    RandomProblem problem(op, 4);
    const auto prepared = testing::prepare_cut(*communicator, op, cut, variant, problem.buffers(), {}).value();
    for (std::uint64_t run = 0; run < 300; ++run) {
      if (run % 100 == 0) problem.refill_a(run);
      prepared->run(RunMode::Fused);
    }
    expect_right(op, problem, cut);
  }
}

TEST(Mechanisms, SumShortTypesInF32) {
  OpSpec op = op_of(OpKind::MatmulAllReduce, 66, 33, 4);
  op.dtype = planner::DType::Bf16;
  op.k = 512;
  if (const auto supported = host_backend().supports(op); !supported) GTEST_SKIP() << supported.error().text();
  auto communicator = open(4);
  for (const Variant& variant : variants_of(op)) run_every_mode(op, {{31, 35}}, variant, *communicator);
}

/// The times when rank 0's matmul of the only block starts, and when the block's last piece arrives. The link takes
/// 80 x 24 x 4 bytes x 8 / 3 Mbit/s = 20.5 ms for each of 3 pieces.
std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds> start_and_delivery(const Variant& variant) {
  const auto communicator = host_backend().open(testing::host_options(4, "3Mbit", "1Gflops")).value();
  const OpSpec op = op_of(OpKind::AllGatherMatmul, 320, 8, 4);
  const RandomProblem problem(op, 3);
  const auto prepared = testing::prepare_cut(*communicator, op, {{80}}, variant, problem.buffers(), {}).value();
  const RankTimes& times = prepared->run(RunMode::Fused).ranks.front();
  return {times.compute.front().start, times.communication.front().end};
}

TEST(Mechanisms, MatmulStartsOnAPieceWhenItHasCome) {
  const auto [whole_start, whole_delivery] = start_and_delivery({"direct", {}});
  EXPECT_GE(whole_start, whole_delivery);
  // The virtual device starts when its data is ready, however late its thread wakes: after 20 ms rather than 61 ms.
  const auto [sliced_start, sliced_delivery] = start_and_delivery({"direct", {{"slices", "3"}}});
  EXPECT_LT(sliced_start, sliced_delivery);
}

TEST(HostVariants, AreThoseThatTheKindAndTheLinkAllow) {
  const auto names = [](OpKind kind, const char* link) {
    std::string text;
    for (const Variant& variant : host_variants(op_of(kind, 80, 8, 2), parse_link(link).value()))
      text += variant.text() + " ";
    return text;
  };
  EXPECT_EQ(names(OpKind::MatmulAllReduce, "shm"), "direct two_shot low_latency ring push push(initiator=proxy) ");
  EXPECT_EQ(names(OpKind::MatmulReduceScatter, "shm"), "direct low_latency ring push push(initiator=proxy) ");
  EXPECT_EQ(names(OpKind::AllGatherMatmul, "shm"), "direct low_latency push push(initiator=proxy) ");
  EXPECT_EQ(names(OpKind::MatmulAllReduce, "1Gbit"), "direct ");
  EXPECT_EQ(names(OpKind::MatmulAllReduce, "tcp:1Gbit"), "direct ");
}

TEST(HostVariants, HandOverPeerByPeerWhereAMatmulWaitsForSeveral) {
  const auto has_slices = [](OpKind kind, int world_size, const char* link) {
    const auto all = host_variants(op_of(kind, 80, 8, world_size), parse_link(link).value());
    const Variant sliced{"direct", {{"slices", std::to_string(world_size - 1)}}};
    return std::ranges::find(all, sliced) != all.end();
  };
  for (const OpKind kind : {OpKind::AllGatherMatmul, OpKind::AllToAllMatmul}) {
    EXPECT_TRUE(has_slices(kind, 4, "shm"));
    EXPECT_TRUE(has_slices(kind, 3, "1Gbit"));
    EXPECT_FALSE(has_slices(kind, 2, "1Gbit")) << "one peer's piece is the whole block";
    EXPECT_FALSE(has_slices(kind, 4, "tcp:1Gbit"));
  }
  EXPECT_FALSE(has_slices(OpKind::MatmulAllReduce, 4, "shm"));
}

std::string refusal(OpKind kind, const char* link, const char* variant, ErrorCode code, int world_size = 2) {
  const auto read =
      read_variant(op_of(kind, 80, 8, world_size), parse_link(link).value(), planner::parse_variant(variant));
  if (read) return "accepted";
  EXPECT_EQ(read.error().code, code) << variant;
  return read.error().message;
}

TEST(HostVariants, RefuseWhatTheyCannotCarryNamingWhatThereIs) {
  const auto all_reduce = OpKind::MatmulAllReduce;
  EXPECT_THAT(refusal(all_reduce, "1Gbit", "push", ErrorCode::Unsupported), HasSubstr("needs the link shm, not 1Gbit"));
  EXPECT_THAT(refusal(OpKind::AllGatherMatmul, "shm", "two_shot", ErrorCode::Unsupported),
              AllOf(HasSubstr("runs matmul_all_reduce"),
                    HasSubstr(", not all_gather_matmul; here there are: direct, low_latency, push")));
  EXPECT_THAT(refusal(OpKind::MatmulAllToAll, "shm", "ring", ErrorCode::Unsupported), HasSubstr("kinds that sum"));
  EXPECT_THAT(refusal(all_reduce, "shm", "nope", ErrorCode::UnknownName), HasSubstr("it has: direct, two_shot"));
  EXPECT_THAT(refusal(all_reduce, "shm", "push(order=rank)", ErrorCode::InvalidSpec), HasSubstr("it has: initiator"));
  EXPECT_THAT(refusal(all_reduce, "shm", "push(initiator=x)", ErrorCode::InvalidSpec), HasSubstr("legal: self, proxy"));
  for (const char* lanes : {"0", "17", "x", "1x", "-1", "99999999999999999999"}) {
    const std::string variant = std::string("ring(lanes=") + lanes + ")";
    EXPECT_THAT(refusal(all_reduce, "shm", variant.c_str(), ErrorCode::InvalidSpec), HasSubstr("legal: 1 to 16"));
  }
  for (const char* variant : {"direct(slices=1)", "direct(slices=x)", "direct(slices=4)"}) {
    EXPECT_THAT(refusal(OpKind::AllGatherMatmul, "shm", variant, ErrorCode::InvalidSpec, 4),
                HasSubstr("legal: 3, one for each peer"));
  }
  EXPECT_THAT(refusal(all_reduce, "shm", "direct(slices=3)", ErrorCode::Unsupported, 4),
              HasSubstr("for kinds that communicate first"));
  EXPECT_THAT(refusal(OpKind::AllGatherMatmul, "tcp:1Gbit", "direct(slices=3)", ErrorCode::Unsupported, 4),
              HasSubstr("over shm or an emulated link"));
}

} // namespace
} // namespace mc2::executor::host::mechanisms_test
