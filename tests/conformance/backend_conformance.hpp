#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "mc2/executor/backend.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/verify.hpp"
#include "support/oracle.hpp"

/// What every backend must do, checked against the naive oracle. A backend's test file includes this header and
/// instantiates the suite; it writes no other test of these properties.
namespace mc2::testing {

using executor::Communicator;
using executor::CommunicatorOptions;
using executor::ExecuteOptions;
using executor::Prepared;
using executor::RandomProblem;
using executor::RankBuffers;
using executor::RunMode;
using planner::Cut;
using planner::DType;
using planner::ErrorCode;
using planner::OpSpec;

struct BackendUnderTest {
  std::string name;
  const executor::Backend* backend = nullptr;
  CommunicatorOptions options; ///< world_size is set by each test
};

inline void PrintTo(const BackendUnderTest& backend, std::ostream* out) { *out << backend.name; }

/// A communicator with a problem and a plan bound to it.
struct Bound {
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<RandomProblem> problem;
  std::unique_ptr<Prepared> prepared; ///< last: goes before what it was made from
};

class BackendConformance : public ::testing::TestWithParam<BackendUnderTest> {
 protected:
  static OpSpec op(std::int64_t m, std::int64_t n, std::int64_t k, int world_size, DType dtype = DType::F32) {
    return {
        .kind = planner::OpKind::MatmulAllReduce, .m = m, .n = n, .k = k, .dtype = dtype, .world_size = world_size};
  }

  static const executor::Backend& backend() { return *GetParam().backend; }

  static std::unique_ptr<Communicator> open(int world_size) {
    CommunicatorOptions options = GetParam().options;
    options.world_size = world_size;
    auto communicator = backend().open(options);
    EXPECT_TRUE(communicator.ok());
    return std::move(communicator).value();
  }

  static planner::Plan plan(const OpSpec& spec, const Cut& cut, const Communicator& communicator) {
    planner::Plan made;
    made.op = spec;
    made.cut = cut;
    made.variant = backend().variants(spec).front();
    made.fingerprint = communicator.fingerprint();
    return made;
  }

  static std::unique_ptr<Prepared> prepare(const OpSpec& spec, const Cut& cut, const RandomProblem& problem,
                                           Communicator& communicator) {
    const ExecuteOptions options{.accept_other_fingerprint = false, .prepare = {.allow_independent = true}};
    auto prepared = executor::prepare(plan(spec, cut, communicator), problem.buffers(), communicator, options);
    EXPECT_TRUE(prepared.ok()) << prepared.error().text();
    return std::move(prepared).value();
  }

  static Bound bind(const OpSpec& spec, const Cut& cut) {
    Bound bound;
    bound.communicator = open(spec.world_size);
    bound.problem = std::make_unique<RandomProblem>(spec, 42);
    bound.prepared = prepare(spec, cut, *bound.problem, *bound.communicator);
    return bound;
  }

  /// Every element of every rank near the naive oracle (which no poison is), and all ranks equal to the bit.
  static void expect_right(const OpSpec& spec, const RandomProblem& problem) {
    const auto expected = naive_matmul_all_reduce(spec, problem.buffers());
    const auto own = problem.buffers().front().c;
    const double allowed = allowed_error(spec);
    for (std::int64_t i = 0; i < spec.m * spec.n; ++i) {
      const double error = std::abs(element(spec.dtype, own, i) - expected[static_cast<std::size_t>(i)]);
      ASSERT_LE(error, allowed) << "row " << i / spec.n << ", column " << i % spec.n; // false for NaN
    }
    for (const RankBuffers& rank : problem.buffers()) {
      ASSERT_EQ(std::memcmp(rank.c.data(), own.data(), own.size()), 0) << "ranks differ";
    }
  }

  static bool is_poisoned(const RandomProblem& problem) {
    for (const RankBuffers& rank : problem.buffers()) {
      for (std::size_t i = 0; i < rank.c.size() / 4; ++i) {
        if (!std::isnan(element(DType::F32, rank.c, static_cast<std::int64_t>(i)))) return false;
      }
    }
    return true;
  }

  static void run_and_check(const OpSpec& spec, const Cut& cut, Communicator& communicator) {
    SCOPED_TRACE(spec.text() + " as " + cut.text());
    RandomProblem problem(spec, 7);
    auto prepared = prepare(spec, cut, problem, communicator);
    prepared->run(RunMode::Fused);
    expect_right(spec, problem);
  }

  static void expect_refused(const OpSpec& spec, std::span<const RankBuffers> buffers, ErrorCode code,
                             const std::string& text, const planner::Variant* variant = nullptr) {
    auto communicator = open(2);
    auto made = plan(spec, {{spec.m}}, *communicator);
    if (variant != nullptr) made.variant = *variant;
    const auto refused = executor::prepare(made, buffers, *communicator);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, code);
    EXPECT_THAT(refused.error().text(), ::testing::HasSubstr(text));
  }
};

/// Uncut, equal blocks, short first, short last, and a free list with single rows.
inline std::vector<Cut> cuts_of(std::int64_t m) {
  std::vector<Cut> cuts{{{m}}};
  if (m % 2 == 0) cuts.push_back({{m / 2, m / 2}});
  if (m >= 7) {
    const std::int64_t third = m / 3;
    cuts.push_back({{m - 2 * third, third, third}});
    const std::int64_t longer = third + 1;
    if (m - 2 * longer >= 1) cuts.push_back({{longer, longer, m - 2 * longer}});
    cuts.push_back({{1, 2, m - 4, 1}});
  }
  return cuts;
}

TEST_P(BackendConformance, FusedResultIsTheSumOfProductsForEveryCutAndRankCount) {
  // Ragged and prime sizes, one element, one row, one column, one inner step, and a round shape.
  const std::vector<std::vector<std::int64_t>> shapes{{1, 1, 1},   {7, 5, 3},    {1, 67, 31},  {64, 1, 9},
                                                      {31, 17, 1}, {64, 48, 32}, {97, 53, 101}};
  for (const int world_size : {2, 3, 4, 8}) {
    auto communicator = open(world_size);
    for (const auto& shape : shapes) {
      const OpSpec spec = op(shape[0], shape[1], shape[2], world_size);
      for (const Cut& cut : cuts_of(spec.m)) run_and_check(spec, cut, *communicator);
    }
  }
}

TEST_P(BackendConformance, ShortTypesAccumulateInF32) {
  if (const auto supported = backend().supports(op(97, 53, 101, 2, DType::Bf16)); !supported) {
    GTEST_SKIP() << supported.error().text();
  }
  for (const int world_size : {2, 3}) {
    auto communicator = open(world_size);
    for (const std::int64_t k : {1, 101, 512}) {
      const OpSpec spec = op(97, 53, k, world_size, DType::Bf16);
      for (const Cut& cut : cuts_of(spec.m)) run_and_check(spec, cut, *communicator);
    }
    const OpSpec spec = op(64, 32, 2048, world_size, DType::Bf16);
    RandomProblem problem(spec, 3);
    prepare(spec, {{48, 16}}, problem, *communicator)->run(RunMode::Fused);
    const auto found = executor::verify_result(spec, problem.buffers(), {{48, 16}}, 1);
    EXPECT_TRUE(found.ok()) << found.error().text(); // far tighter than the naive bound at this k
  }
}

TEST_P(BackendConformance, LargerProblemPassesTheOracleOfVerify) {
  const OpSpec spec = op(389, 257, 131, 3);
  auto bound = bind(spec, {{5, 128, 128, 128}});
  bound.prepared->run(RunMode::Fused);
  const auto found = executor::verify_result(spec, bound.problem->buffers(), {{5, 128, 128, 128}}, 1);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found.value().element_count, 3 * 389 * 257);
}

TEST_P(BackendConformance, EveryRunReadsANewAndWritesAllOfC) {
  const OpSpec spec = op(45, 23, 19, 2);
  auto bound = bind(spec, {{13, 32}});
  for (std::uint64_t run = 0; run < 20; ++run) {
    bound.problem->refill_a(100 + run);
    bound.problem->poison();
    bound.prepared->run(RunMode::Fused);
    expect_right(spec, *bound.problem);
  }
}

TEST_P(BackendConformance, PlansOnOneCommunicatorDoNotDisturbEachOther) {
  auto communicator = open(3);
  const OpSpec small = op(10, 6, 4, 3);
  const OpSpec large = op(60, 40, 20, 3);
  RandomProblem small_problem(small, 1);
  RandomProblem large_problem(large, 2);
  auto small_prepared = prepare(small, {{4, 6}}, small_problem, *communicator);
  auto large_prepared = prepare(large, {{20, 20, 20}}, large_problem, *communicator);
  for (int i = 0; i < 3; ++i) {
    small_problem.poison();
    large_problem.poison();
    large_prepared->run(RunMode::Fused);
    small_prepared->run(RunMode::Fused);
    expect_right(small, small_problem);
    expect_right(large, large_problem);
  }
}

TEST_P(BackendConformance, ComputeOnlyLeavesCAndItsPartialsSumToTheResult) {
  const OpSpec spec = op(50, 20, 30, 2);
  auto bound = bind(spec, {{10, 40}});
  const auto& record = bound.prepared->run(RunMode::ComputeOnly);
  EXPECT_TRUE(is_poisoned(*bound.problem));
  EXPECT_EQ(record.ranks[0].communication[1].end.count(), 0);
  EXPECT_GT(record.ranks[0].compute[1].end.count(), 0);
  bound.prepared->run(RunMode::CommunicationOnly);
  expect_right(spec, *bound.problem);
}

TEST_P(BackendConformance, CommunicationOnlyRepeatsTheSumOfTheLastProducts) {
  const OpSpec spec = op(50, 20, 30, 4);
  auto bound = bind(spec, {{10, 40}});
  bound.prepared->run(RunMode::Fused);
  bound.problem->poison();
  const auto& record = bound.prepared->run(RunMode::CommunicationOnly);
  expect_right(spec, *bound.problem);
  EXPECT_EQ(record.ranks[0].compute[1].end.count(), 0);
  EXPECT_GT(record.ranks[0].communication[1].end.count(), 0);
}

TEST_P(BackendConformance, IndependentRunsBothLanesAndLeavesTheNextFusedRunRight) {
  const OpSpec spec = op(50, 20, 30, 2);
  auto bound = bind(spec, {{10, 40}});
  const auto& record = bound.prepared->run(RunMode::Independent);
  EXPECT_GT(record.ranks[1].compute[1].end.count(), 0);
  EXPECT_GT(record.ranks[1].communication[1].end.count(), 0);
  bound.problem->poison();
  bound.prepared->run(RunMode::Fused);
  expect_right(spec, *bound.problem);
}

TEST_P(BackendConformance, PartialsOfAFusedRunSumToC) {
  const OpSpec spec = op(33, 21, 17, 3);
  auto bound = bind(spec, {{11, 22}});
  bound.prepared->run(RunMode::Fused);
  const auto found = executor::verify_exchange(spec, bound.prepared->intermediates(), bound.problem->buffers());
  EXPECT_TRUE(found.ok()) << found.error().text();
}

TEST_P(BackendConformance, RecordedTimesFollowTheOrderOfTheLanes) {
  const OpSpec spec = op(60, 20, 30, 2);
  auto bound = bind(spec, {{20, 20, 20}});
  const auto& record = bound.prepared->run(RunMode::Fused);
  ASSERT_EQ(record.ranks.size(), 2U);
  auto first = record.ranks[0].compute[0].start;
  auto last = record.ranks[0].communication[2].end;
  for (const auto& rank : record.ranks) {
    ASSERT_EQ(rank.compute.size(), 3U);
    ASSERT_EQ(rank.communication.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LE(rank.compute[i].start, rank.compute[i].end);
      EXPECT_LE(rank.communication[i].start, rank.communication[i].end);
      EXPECT_GE(rank.communication[i].start, rank.compute[i].end);
      if (i == 0) continue;
      EXPECT_GE(rank.compute[i].start, rank.compute[i - 1].end);
      EXPECT_GE(rank.communication[i].start, rank.communication[i - 1].end);
    }
    first = std::min(first, rank.compute[0].start);
    last = std::max(last, rank.communication[2].end);
  }
  EXPECT_EQ(record.makespan, last - first);
}

TEST_P(BackendConformance, FingerprintIsTheSameEveryTimeAndSaysWhatIsEmulated) {
  auto communicator = open(2);
  CommunicatorOptions options = GetParam().options;
  options.world_size = 2;
  EXPECT_EQ(communicator->fingerprint(), backend().fingerprint(options));
  EXPECT_EQ(communicator->fingerprint(), open(2)->fingerprint());
  EXPECT_EQ(communicator->fingerprint().is_emulated(), options.link.is_emulated());
  EXPECT_NE(communicator->fingerprint(), open(3)->fingerprint());
}

TEST_P(BackendConformance, RefusesAPlanOfAnotherMachineUnlessToldNotTo) {
  auto communicator = open(2);
  const OpSpec spec = op(8, 4, 2, 2);
  const RandomProblem problem(spec, 1);
  auto foreign = plan(spec, {{8}}, *communicator);
  foreign.fingerprint.fields["cpu_model"] = "another CPU";
  const auto refused = executor::prepare(foreign, problem.buffers(), *communicator);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Stale);
  EXPECT_THAT(refused.error().text(), ::testing::HasSubstr("another CPU"));
  EXPECT_TRUE(
      executor::prepare(foreign, problem.buffers(), *communicator, {.accept_other_fingerprint = true, .prepare = {}})
          .ok());
}

TEST_P(BackendConformance, RefusesAnotherWorldSize) {
  const OpSpec spec = op(8, 4, 2, 3);
  const RandomProblem problem(spec, 1);
  expect_refused(spec, problem.buffers(), ErrorCode::InvalidSpec, "world_size");
}

TEST_P(BackendConformance, RefusesBlocksThatDoNotSumToTheCutAxis) {
  auto communicator = open(2);
  const OpSpec spec = op(8, 4, 2, 2);
  const RandomProblem problem(spec, 1);
  const auto refused = executor::prepare(plan(spec, {{3, 4}}, *communicator), problem.buffers(), *communicator);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
}

TEST_P(BackendConformance, RefusesStagesThatLeaveRowsOut) {
  auto communicator = open(2);
  const OpSpec spec = op(8, 4, 2, 2);
  const RandomProblem problem(spec, 1);
  const executor::StageList holes{spec, planner::Lane::Compute, {{0, 4}, {3, 4}}};
  const auto refused = communicator->prepare(holes, backend().variants(spec).front(), problem.buffers(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
}

TEST_P(BackendConformance, RefusesWrongBuffersNamingRankAndMatrix) {
  const OpSpec spec = op(8, 4, 2, 2);
  const RandomProblem problem(spec, 1);
  const std::vector<RankBuffers> good(problem.buffers().begin(), problem.buffers().end());
  expect_refused(spec, std::span(good).first(1), ErrorCode::InvalidSpec, "1 sets of buffers");
  auto bad = good;
  bad[1].a = bad[1].a.first(bad[1].a.size() - 4);
  expect_refused(spec, bad, ErrorCode::InvalidSpec, "rank 1 A");
  bad = good;
  bad[0].c = bad[1].c;
  expect_refused(spec, bad, ErrorCode::InvalidSpec, "overlaps");
  std::vector<std::byte> unaligned(good[0].b.size() + 1);
  bad = good;
  bad[0].b = std::span<const std::byte>(unaligned).subspan(1);
  expect_refused(spec, bad, ErrorCode::InvalidSpec, "rank 0 B is not aligned");
  bad = good;
  bad[0].b = bad[1].b; // both only read
  auto communicator = open(2);
  EXPECT_TRUE(executor::prepare(plan(spec, {{8}}, *communicator), bad, *communicator).ok());
}

TEST_P(BackendConformance, RefusesUnknownVariants) {
  const OpSpec spec = op(8, 4, 2, 2);
  const RandomProblem problem(spec, 1);
  const planner::Variant unknown{"no_such_variant", {}};
  expect_refused(spec, problem.buffers(), ErrorCode::UnknownName, "no_such_variant", &unknown);
  planner::Variant overset = backend().variants(spec).front();
  overset.fields["no_such_setting"] = "1";
  expect_refused(spec, problem.buffers(), ErrorCode::InvalidSpec, "no_such_setting", &overset);
}

TEST_P(BackendConformance, RefusesIllegalOperatorsAndOptions) {
  EXPECT_EQ(backend().supports(op(0, 4, 2, 2)).error().code, ErrorCode::InvalidSpec);
  EXPECT_EQ(backend().supports(op(8, 4, 2, 1)).error().code, ErrorCode::InvalidSpec);
  CommunicatorOptions options = GetParam().options;
  options.world_size = 0;
  EXPECT_EQ(backend().open(options).error().code, ErrorCode::InvalidSpec);
  options.world_size = 2;
  options.deadline = std::chrono::milliseconds{0};
  EXPECT_EQ(backend().open(options).error().code, ErrorCode::InvalidSpec);
}

TEST_P(BackendConformance, RefusesWhatExceedsMemoryBeforeAllocating) {
  // A, B and C of 2^40 bytes each; no machine that runs this test has them.
  const auto refused = backend().supports(op(1 << 19, 1 << 19, 1 << 19, 2));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("available"));
}

} // namespace mc2::testing
