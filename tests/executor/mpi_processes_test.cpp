#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>

#include "backends/mpi/agreement.hpp"
#include "backends/mpi/mpi_backend.hpp"
#include "backends/mpi/mpi_checks.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/verify.hpp"
#include "stage.hpp"
#include "support/counts.hpp"
#include "support/leak_check.hpp"
#include "support/operators.hpp"
#include "support/oracle.hpp"

/// Replaces MPI's function: every rank seems to be on a node of its own. Open MPI 4.1.6 says so for hosts that its host
/// list names differently than they name themselves.
extern "C" int MPI_Comm_split_type(MPI_Comm /*comm*/, int /*type*/, int /*key*/, MPI_Info /*info*/, MPI_Comm* node) {
  return MPI_Comm_dup(MPI_COMM_SELF, node);
}

/// `mpirun -np N` starts the program. Every process runs every test, as a program that brings its own matrices does.
namespace mc2::testing {
namespace {

using executor::Communicator;
using executor::CommunicatorOptions;
using executor::RandomProblem;
using executor::RankBuffers;
using executor::RunMode;
using executor::mpi::Agreement;
using executor::mpi::check_prepared_memory;
using executor::mpi::mpi_backend;
using executor::mpi::World;
using planner::Cut;
using planner::DType;
using planner::OpKind;
using planner::OpSpec;

class LeakCheck final : public ::testing::Environment {
 public:
  void TearDown() override { check_leaks_now(); }
};
[[maybe_unused]] const auto* const kLeakCheck = ::testing::AddGlobalTestEnvironment(new LeakCheck);

class MpiProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto found = mpi_backend().availability(); !found.is_available) GTEST_SKIP() << found.reason;
    options_.world_size = World::get().size();
    rank_ = World::get().rank();
    communicator_ = mpi_backend().open(options_).value();
  }

  [[nodiscard]] OpSpec spec_of(OpKind kind, std::int64_t n = 24) const {
    return completed({.kind = kind,
                      .m = 40 * options_.world_size,
                      .n = n,
                      .k = 33,
                      .dtype = DType::F32,
                      .world_size = options_.world_size});
  }

  /// One operator of every kind; kinds with a matmul also with the whole epilogue in f32 and i8; and few rows.
  [[nodiscard]] std::vector<OpSpec> specs() const {
    std::vector<OpSpec> all;
    for (const auto& traits : planner::op_registry()) {
      all.push_back(spec_of(traits.kind));
      if (traits.work != planner::Work::Matmul) continue;
      for (const DType dtype : {DType::F32, DType::I8}) {
        all.push_back(spec_of(traits.kind));
        all.back().dtype = dtype;
        all.back().epilogue = {.has_bias = true, .has_residual = true};
        if (traits.sums()) all.back().epilogue.norm = planner::Norm::Rms;
      }
    }
    all.push_back(spec_of(OpKind::MatmulAllReduce, 72));
    all.back().m = 5;
    all.push_back(all.back());
    all.back().epilogue.norm = planner::Norm::Rms;
    return all;
  }

  [[nodiscard]] auto prepare(const OpSpec& spec, const Cut& cut, const RankBuffers& own,
                             const planner::Variant& variant = {"blocking", {}}, bool allow_independent = false) {
    planner::Plan plan;
    plan.op = spec;
    plan.cut = cut;
    plan.variant = variant;
    plan.fingerprint = communicator_->fingerprint();
    return executor::prepare(plan, {&own, 1}, *communicator_,
                             {.accept_other_fingerprint = false, .prepare = {.allow_independent = allow_independent}});
  }

  [[nodiscard]] const RankBuffers& own_of(const RandomProblem& problem) const {
    return problem.buffers()[static_cast<std::size_t>(rank_)];
  }

  static void expect_error(const auto& refused, const std::string& text) {
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().text(), ::testing::HasSubstr(text));
  }

  /// Compares this rank's results with the oracle; every process makes all ranks' operands for itself.
  void expect_own_right(const OpSpec& spec, const RandomProblem& problem) const {
    const auto expected = naive_results(spec, problem.buffers())[static_cast<std::size_t>(rank_)];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double got = element(planner::product_type(spec), own_of(problem).c, static_cast<std::int64_t>(i));
      ASSERT_LE(std::abs(got - expected[i]), allowed_error(spec)) << "element " << i; // also fails for NaN
    }
    EXPECT_LE(norm_error_ratio(spec, own_of(problem), expected, allowed_error(spec)), 1);
    const auto gathered = own_of(problem).gathered_a;
    EXPECT_TRUE(gathered.empty() || are_same_bytes(gathered, everybodys_a(problem.buffers())));
  }

  CommunicatorOptions options_;
  int rank_ = 0;
  std::unique_ptr<Communicator> communicator_;
};

// Ends the job, so it runs alone: executor/mpi_opening in CMakeLists.txt looks for the message.
TEST(MpiOpening, DISABLED_ARankThatNeverOpensEndsTheJobAtTheDeadline) {
  const int rank = World::get().rank();
  CommunicatorOptions options;
  options.world_size = 2;
  options.deadline = std::chrono::seconds{1};
  if (rank == 0) (void)mpi_backend().open(options);
  std::this_thread::sleep_for(std::chrono::seconds{60});
}

TEST_F(MpiProcesses, RanksOfOneHostAreOfOneNodeWhateverMpiSays) {
  EXPECT_EQ(communicator_->fingerprint().fields.at("nodes"), "1");
  EXPECT_TRUE(World::get().shares_memory());
}

TEST_F(MpiProcesses, EachHoldsItsOwnRank) {
  ASSERT_EQ(communicator_->local_ranks().size(), 1U);
  EXPECT_EQ(communicator_->local_ranks().front(), rank_);
  EXPECT_EQ(communicator_->world_size(), World::get().size());
  EXPECT_TRUE(communicator_->uses_host_memory());
}

TEST_F(MpiProcesses, EveryRankGetsItsPartOfTheDefinition) {
  for (const OpSpec& spec : specs()) {
    if (!mpi_backend().supports(spec)) continue; // the CPU lacks this type
    const std::int64_t rows = planner::traits_of(spec.kind).cut_axis_length(spec);
    for (const planner::Variant& variant : mpi_backend().variants(spec, {})) {
      SCOPED_TRACE(spec.text() + " with " + variant.text());
      const RandomProblem problem(spec, 11, with_gathered_a(spec));
      auto prepared = prepare(spec, {{7, rows - 7}}, own_of(problem), variant);
      ASSERT_TRUE(prepared.ok()) << prepared.error().text();
      prepared.value()->run(RunMode::Fused);
      expect_own_right(spec, problem);
      if (spec.kind != OpKind::MatmulAllReduce) continue;
      const auto c = own_of(problem).c;
      const std::string bits(reinterpret_cast<const char*>(c.data()), c.size());
      Agreement agreement(options_.deadline);
      EXPECT_TRUE(agreement.agree(bits).ok()) << "ranks differ";
    }
  }
}

TEST_F(MpiProcesses, EveryRankExchangesItsOwnCountsOfRows) {
  std::mt19937 random(3);
  for (const OpKind kind : {OpKind::MatmulAllToAll, OpKind::AllToAllMatmul}) {
    OpSpec spec = spec_of(kind);
    spec.epilogue = {.has_bias = true, .has_residual = true};
    for (const planner::Variant& variant : mpi_backend().variants(spec, {})) {
      for (const Cut& cut : {Cut{{40}}, Cut{{3, 30, 7}}}) {
        for (const std::int64_t experts : {1, 4}) {
          spec.experts_per_rank = experts;
          SCOPED_TRACE(spec.text() + " as " + cut.text() + " with " + variant.text());
          const auto counts = experts == 1 ? skewed_counts(options_.world_size, 40, random)
                                           : expert_counts(Routing::Random, spec, random);
          const RandomProblem problem(spec, 11, {.counts = counts});
          auto prepared = prepare(spec, cut, own_of(problem), variant);
          ASSERT_TRUE(prepared.ok()) << prepared.error().text();
          prepared.value()->run(RunMode::Fused);
          expect_own_right(spec, problem);
        }
      }
    }
  }
}

TEST_F(MpiProcesses, EveryRankRecordsTheSameMakespan) {
  const OpSpec spec = spec_of(OpKind::MatmulAllReduce);
  const RandomProblem problem(spec, 11);
  auto prepared = prepare(spec, {{spec.m}}, own_of(problem)).value();
  Agreement agreement(options_.deadline);
  for (const RunMode mode : {RunMode::Fused, RunMode::Serial, RunMode::ComputeOnly, RunMode::CommunicationOnly}) {
    const auto& record = prepared->run(mode);
    EXPECT_GT(record.makespan.count(), 0);
    EXPECT_TRUE(agreement.agree(std::to_string(record.makespan.count())).ok());
    EXPECT_TRUE(agreement.agree(std::to_string(record.wall.count())).ok());
  }
}

// The last rank prepares something else than the others. Every rank gets an error that names this rank, before any
// matrix is touched.
TEST_F(MpiProcesses, RanksThatPrepareDifferentThingsAreRefusedOnAllNamingRankAndValue) {
  const bool is_odd_one = rank_ + 1 == options_.world_size;
  const std::string odd_rank = "rank " + std::to_string(options_.world_size - 1);
  const OpSpec common = spec_of(OpKind::MatmulAllReduce);
  const RandomProblem problem(common, 3);

  const OpSpec wider = spec_of(OpKind::MatmulAllReduce, 25);
  const RandomProblem wide_problem(wider, 3);
  const auto shapes =
      is_odd_one ? prepare(wider, {{wider.m}}, own_of(wide_problem)) : prepare(common, {{common.m}}, own_of(problem));
  expect_error(shapes, odd_rank + " calls prepare " + wider.text());
  EXPECT_EQ(shapes.error().code, ErrorCode::Mismatch);

  const OpSpec other = spec_of(OpKind::AllGatherMatmul);
  const RandomProblem other_problem(other, 3);
  expect_error(
      is_odd_one ? prepare(other, {{40}}, own_of(other_problem)) : prepare(common, {{common.m}}, own_of(problem)),
      odd_rank + " calls prepare all_gather_matmul");

  const Cut cut = is_odd_one ? Cut{{common.m - 4, 4}} : Cut{{4, common.m - 4}};
  expect_error(prepare(common, cut, own_of(problem)), odd_rank + " calls prepare " + common.text() + " in blocks of " +
                                                          std::to_string(common.m - 4) + " 4 rows");
  const planner::Variant variant{is_odd_one ? "nonblocking" : "ring", {{"sleep_us", "50"}}};
  expect_error(prepare(common, {{common.m}}, own_of(problem), variant), "with nonblocking(sleep_us=50)");
  expect_error(prepare(common, {{common.m}}, own_of(problem), {"blocking", {}}, is_odd_one), "lanes also independent");
  OpSpec biased = common;
  biased.epilogue.has_bias = is_odd_one;
  const RandomProblem biased_problem(biased, 3);
  expect_error(prepare(biased, {{common.m}}, own_of(biased_problem)),
               odd_rank + " calls prepare " + common.text() + " bias");

  auto right = prepare(common, {{common.m}}, own_of(problem));
  ASSERT_TRUE(right.ok()) << right.error().text();
  right.value()->run(RunMode::Fused);
  expect_own_right(common, problem);
}

// Rank 1 finds its mistake before the collective steps of prepare(). The other ranks must not wait for it in those.
TEST_F(MpiProcesses, OneRanksBadPlanIsRefusedOnAllNamingRankAndValue) {
  const OpSpec good = spec_of(OpKind::MatmulReduceScatter);
  const RandomProblem problem(good, 3);
  const auto refuse = [&](const OpSpec& bad, const Cut& bad_cut, const std::string& text) {
    const bool is_odd_one = rank_ == 1;
    const auto refused = prepare(is_odd_one ? bad : good, is_odd_one ? bad_cut : Cut{{40}}, own_of(problem));
    expect_error(refused, "rank 1: ");
    expect_error(refused, text);
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
  };
  OpSpec bad = good;
  bad.m = good.m + 1;
  refuse(bad, {{40}}, "m: is " + std::to_string(bad.m)); // not divisible by the number of ranks
  bad.m = 0;
  refuse(bad, {{40}}, "m: "); // no rank has rows
  bad.m = options_.world_size - 1;
  refuse(bad, {{1}}, "m: is " + std::to_string(bad.m)); // one rank has no rows
  refuse(good, {{17, 22}}, "39");                       // blocks that do not add up to the 40 rows
  refuse(good, {{40, 0}}, "blocks");
  bad = good;
  bad.world_size = options_.world_size + 1;
  refuse(bad, {{40}}, "the plan is for " + std::to_string(bad.world_size) + " ranks");
}

TEST_F(MpiProcesses, OneRanksPlanOfAnotherMachineIsRefusedOnAll) {
  const OpSpec spec = spec_of(OpKind::MatmulAllReduce);
  const RandomProblem problem(spec, 3);
  planner::Plan plan;
  plan.op = spec;
  plan.cut = {{spec.m}};
  plan.variant = {"blocking", {}};
  plan.fingerprint = communicator_->fingerprint();
  if (rank_ == 1) plan.fingerprint.fields["cpu_model"] = "another";
  const RankBuffers own = own_of(problem);
  const auto refused = executor::prepare(plan, {&own, 1}, *communicator_);
  expect_error(refused, "rank 1: fingerprint: the plan was made for another machine");
  EXPECT_EQ(refused.error().code, ErrorCode::Stale);
}

TEST_F(MpiProcesses, OneRanksBadBufferIsRefusedOnAllNamingIt) {
  const OpSpec spec = spec_of(OpKind::MatmulAllReduce);
  const RandomProblem problem(spec, 3);
  RankBuffers own = own_of(problem);
  if (rank_ == 1) own.b = own.b.first(own.b.size() - 4);
  expect_error(prepare(spec, {{spec.m}}, own), "rank 1: buffers: rank 1 B has");
  own = own_of(problem);
  if (rank_ == 0) own.a = own.c;
  const auto overlap = prepare(spec, {{spec.m}}, own);
  ASSERT_FALSE(overlap.ok());
  EXPECT_THAT(overlap.error().text(), ::testing::HasSubstr("rank 0"));
}

TEST_F(MpiProcesses, OneRanksAliasingBuffersAreRefusedOnAllNamingThem) {
  OpSpec spec = spec_of(OpKind::MatmulReduceScatter);
  spec.epilogue.has_residual = true;
  const RandomProblem problem(spec, 3);
  const auto refuse = [&](const RankBuffers& bad, const std::string& text) {
    const auto refused = prepare(spec, {{40}}, rank_ == 1 ? bad : own_of(problem));
    expect_error(refused, text);
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
  };
  RankBuffers own = own_of(problem);
  own.residual = own.c;
  refuse(own, "rank 1: buffers: rank 1 C overlaps rank 1 residual");
  own = own_of(problem);
  own.c = {const_cast<std::byte*>(own.b.data()), own.c.size()};
  refuse(own, "rank 1: buffers: rank 1 ");
}

// The last rank's counts contradict the other ranks', which the rank alone cannot notice.
TEST_F(MpiProcesses, CountsOnWhichRanksDoNotAgreeAreRefusedOnAllNamingRankAndValue) {
  const OpSpec spec = spec_of(OpKind::AllToAllMatmul);
  const int last = options_.world_size - 1;
  const auto rank_count = static_cast<std::size_t>(options_.world_size);
  const RandomProblem problem(spec, 3, {.counts = std::vector<std::int64_t>(rank_count * rank_count, 7)});
  const RandomProblem equal(spec, 3);
  const auto refuse = [&](const RankBuffers& bad, const std::string& text) {
    const auto refused = prepare(spec, {{40}}, rank_ == last ? bad : own_of(problem));
    expect_error(refused, text);
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
  };
  const std::string name = "rank " + std::to_string(last);
  std::vector<std::int64_t> counts(rank_count, 7);
  counts[0] = 8;
  counts[1] = 6; // the sum still equals the rows of its A
  RankBuffers own = own_of(problem);
  own.send_counts = counts;
  refuse(own, "counts: " + name + " sends rank 0 8 rows, which expects 7");
  own = own_of(problem);
  own.receive_counts = counts;
  refuse(own, "counts: rank 0 sends " + name + " 7 rows, which expects 8");
  refuse(own_of(equal), "counts: " + name + " has no counts, unlike rank 0");
  // These counts the rank itself can refuse.
  counts[1] = 41;
  own.receive_counts = counts;
  refuse(own, name + ": counts: " + name + " receives 41 rows from rank 1; legal: 0 to m / ranks = 40");
  std::ranges::fill(counts, 0);
  counts[0] = 1;
  own.receive_counts = counts;
  refuse(own, name + ": buffers: " + name + " C has ");

  auto right = prepare(spec, {{40}}, own_of(problem));
  ASSERT_TRUE(right.ok()) << right.error().text();
  right.value()->run(RunMode::Fused);
  expect_own_right(spec, problem);
}

TEST_F(MpiProcesses, WhatPreparingTakesMustFitTheNode) {
  OpSpec spec = spec_of(OpKind::MatmulAllReduce);
  EXPECT_TRUE(
      check_prepared_memory(executor::lower(spec, {{spec.m}}, planner::Schedule::Pipelined).value(), {}, true).ok());
  spec.m = std::int64_t{1} << 24; // the products take 4 TiB
  spec.n = std::int64_t{1} << 16;
  const auto refused =
      check_prepared_memory(executor::lower(spec, {{spec.m}}, planner::Schedule::Pipelined).value(), {}, false);
  expect_error(refused, "need ");
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
}

TEST_F(MpiProcesses, OneRanksIllegalBagsAreRefusedOnAllNamingThem) {
  const OpSpec spec = spec_of(OpKind::EmbeddingAllToAll);
  const RandomProblem problem(spec, 3);
  const auto indices = own_of(problem).bags.indices;
  std::vector<std::byte> bad(indices.begin(), indices.end());
  bad[0] = std::byte{50}; // legal: 0 to 49
  RankBuffers own = own_of(problem);
  if (rank_ == 1) own.bags.indices = bad;
  expect_error(prepare(spec, {{40}}, own), "rank 1: bags: rank 1, table 0");
}

TEST_F(MpiProcesses, ChoicesThatAreIllegalOrDifferAreRefusedOnAllNamingTheRank) {
  const OpSpec spec = spec_of(OpKind::GroupedMatmulReduceScatter);
  const RandomProblem problem(spec, 3);
  const auto experts = own_of(problem).choices.experts;
  std::vector<std::byte> other(experts.begin(), experts.end());
  RankBuffers own = own_of(problem);
  if (rank_ == 1) own.choices.experts = other;
  other[0] = std::byte{5}; // legal: 0 to 4
  expect_error(prepare(spec, {{40}}, own), "rank 1: choices: rank 1, row 0, choice 0 is expert 5");
  other[0] = experts[0] == std::byte{4} ? std::byte{0} : std::byte{4};
  expect_error(prepare(spec, {{40}}, own), "rank 1 brings other choices or weights than rank 0");
}

TEST_F(MpiProcesses, RanksThatRunDifferentThingsAreStoppedBeforeAnyBlock) {
  const OpSpec spec = spec_of(OpKind::MatmulAllReduce);
  RandomProblem problem(spec, 3);
  auto prepared = prepare(spec, {{spec.m}}, own_of(problem)).value();
  try {
    prepared->run(rank_ == 1 ? RunMode::Serial : RunMode::Fused);
    FAIL() << "ran";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 1 calls run serial of " + spec.text()));
  }
  const OpSpec other = spec_of(OpKind::AllGatherMatmul);
  const RandomProblem other_problem(other, 3);
  auto other_prepared = prepare(other, {{40}}, own_of(other_problem)).value();
  try {
    (rank_ == 1 ? other_prepared : prepared)->run(RunMode::Fused);
    FAIL() << "ran";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 1 calls run fused of " + other.text()));
  }
  for (const double value : elements(spec.dtype, own_of(problem).c)) ASSERT_TRUE(std::isnan(value));
  for (const double value : elements(other.dtype, own_of(other_problem).c)) ASSERT_TRUE(std::isnan(value));
  prepared->run(RunMode::Fused);
  expect_own_right(spec, problem);
}

TEST_F(MpiProcesses, RanksThatOpenWithDifferentOptionsAreRefused) {
  CommunicatorOptions options = options_;
  if (rank_ == 1) options.deadline = std::chrono::milliseconds{1234};
  expect_error(mpi_backend().open(options), "deadline 1234 ms");
}

TEST_F(MpiProcesses, OneRanksIllegalOptionsAreRefusedOnAllNamingIt) {
  CommunicatorOptions options = options_;
  if (rank_ == 1) options.world_size = 63;
  const auto another_count = mpi_backend().open(options);
  expect_error(another_count, "rank 1: world_size: is 63, but");
  EXPECT_EQ(another_count.error().code, ErrorCode::Unsupported);
  options = options_;
  if (rank_ == 1) options.deadline = std::chrono::milliseconds{0};
  expect_error(mpi_backend().open(options), "rank 1: deadline");
}

TEST_F(MpiProcesses, BlocksThatMpiCannotCountAreRefused) {
  OpSpec spec = spec_of(OpKind::MatmulAllReduce);
  spec.m = std::int64_t{1} << 17;
  spec.n = std::int64_t{1} << 15; // 2^32 elements
  spec.k = 1;
  RankBuffers none;
  expect_error(prepare(spec, {{spec.m}}, none), "MPI counts up to 2147483647");
}

} // namespace
} // namespace mc2::testing
