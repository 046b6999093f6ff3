#include "backends/mpi/mpi_backend.hpp"

#include "conformance/random_cases.hpp"
#include "mc2/executor/processes.hpp"
#include "support/counts.hpp"
#include "support/leak_check.hpp"
#include "support/operators.hpp"

/// `mpirun -np N` starts the program. Rank 0 runs the tests and directs the other processes, as `mc2` does. Without
/// mpirun, every test that needs ranks is skipped.
namespace mc2::testing {
namespace {

using executor::mpi::mpi_backend;

std::vector<BackendUnderTest> processes() { return {{"mpi", &mpi_backend(), {}}}; }

MC2_INSTANTIATE_CONFORMANCE(Mpi, processes());
MC2_INSTANTIATE_RANDOM_CASES(Mpi, processes());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(IntermediatesConformance);

OpSpec op_for(int world_size, DType dtype = DType::F32) {
  return {.kind = OpKind::MatmulAllReduce, .m = 8, .n = 8, .k = 8, .dtype = dtype, .world_size = world_size};
}

TEST(MpiBackendEverywhere, IsInTheRegistryAndSaysWhatIsMissing) {
  EXPECT_EQ(executor::find_backend("mpi").value(), &mpi_backend());
  const auto found = mpi_backend().availability();
  EXPECT_FALSE(found.reason.empty());
  if (found.is_available) return;
  EXPECT_EQ(mpi_backend().supports(op_for(2)).error().code, ErrorCode::Unsupported);
  EXPECT_EQ(mpi_backend().open({}).error().code, ErrorCode::Unsupported);
}

TEST(MpiBackend, RefusesWhatItCannotRunNamingWhatWouldBeRight) {
  if (const auto found = mpi_backend().availability(); !found.is_available) GTEST_SKIP() << found.reason;
  EXPECT_THAT(mpi_backend().supports(op_for(63)).error().text(), ::testing::HasSubstr("mpirun -np 63"));
  EXPECT_THAT(mpi_backend().supports(op_for(63, DType::F16)).error().text(), ::testing::HasSubstr("use f32 or bf16"));
  CommunicatorOptions options;
  options.world_size = 63;
  EXPECT_THAT(mpi_backend().open(options).error().text(), ::testing::HasSubstr("mpirun -np 63"));
  options.link = executor::parse_link("1Gbit").value();
  EXPECT_THAT(mpi_backend().open(options).error().text(), ::testing::HasSubstr("leave it out"));
  options.link = {};
  options.virtual_compute = executor::parse_virtual_compute("1Gflops").value();
  EXPECT_THAT(mpi_backend().open(options).error().text(), ::testing::HasSubstr("no virtual compute"));
}

/// A communicator with as many ranks as there are processes.
class MpiWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto found = mpi_backend().availability(); !found.is_available) GTEST_SKIP() << found.reason;
    for (options_.world_size = 2; !mpi_backend().supports(op_for(options_.world_size)); ++options_.world_size)
      ASSERT_LT(options_.world_size, 64);
    communicator_ = mpi_backend().open(options_).value();
  }

  [[nodiscard]] planner::Plan plan(const OpSpec& spec, const Cut& cut, const planner::Variant& variant) const {
    planner::Plan made;
    made.op = spec;
    made.cut = cut;
    made.variant = variant;
    made.schedule =
        planner::traits_of(spec.kind).has_local_part ? planner::Schedule::LocalFirst : planner::Schedule::Pipelined;
    made.fingerprint = communicator_->fingerprint();
    return made;
  }

  [[nodiscard]] OpSpec spec_of(OpKind kind, DType dtype = DType::F32) const {
    return completed({.kind = kind,
                      .m = 96 * options_.world_size,
                      .n = 40,
                      .k = 56,
                      .dtype = dtype,
                      .world_size = options_.world_size});
  }

  /// An operator with so few rows that blocks are cut along n.
  [[nodiscard]] OpSpec few_rows() const {
    OpSpec spec = spec_of(OpKind::MatmulAllReduce);
    spec.m = 9;
    spec.n = 160;
    return spec;
  }

  /// One operator of every kind, and few_rows().
  [[nodiscard]] std::vector<OpSpec> plain_specs() const {
    std::vector<OpSpec> all{few_rows()};
    for (const auto& traits : planner::op_registry()) all.push_back(spec_of(traits.kind));
    return all;
  }

  /// The variants to test. With several (pretended) nodes only the hierarchical ones: a job on one node tests the rest.
  [[nodiscard]] static std::vector<planner::Variant> variants(const OpSpec& spec) {
    auto all = mpi_backend().variants(spec, {});
    const auto is_hierarchical = [](const planner::Variant& variant) { return variant.name == "hierarchical"; };
    const bool has_nodes = std::ranges::any_of(all, is_hierarchical);
    EXPECT_EQ(has_nodes, std::getenv("MC2_PRETENDED_NODES") != nullptr) << spec.text();
    if (has_nodes) {
      std::erase_if(all, std::not_fn(is_hierarchical));
      std::erase_if(all, [](const planner::Variant& variant) { return variant.fields.at("sleep_us") != "50"; });
    }
    return all;
  }

  /// Poisons every C, runs, and compares the result with the oracle.
  static void expect_right(const OpSpec& spec, const Cut& cut, RunMode mode, Prepared& prepared,
                           ResidentProblem& problem) {
    problem.poison();
    EXPECT_GT(prepared.run(mode).makespan.count(), 0);
    problem.fetch_results();
    const auto right = executor::verify_result(spec, problem.host().buffers(), cut, 1);
    EXPECT_TRUE(right.ok()) << right.error().text();
  }

  CommunicatorOptions options_;
  std::unique_ptr<Communicator> communicator_;
};

TEST_F(MpiWorld, EveryVariantIsRightInEveryModeThatMakesAResult) {
  for (const OpSpec& spec : plain_specs()) {
    ASSERT_TRUE(mpi_backend().supports(spec)) << spec.text();
    const std::int64_t rows = planner::traits_of(spec.kind).cut_axis_length(spec);
    auto tried = variants(spec);
    for (auto& variant : variants(spec)) {
      if (variant.fields.empty()) continue;
      variant.fields["sleep_us"] = "0"; // waiting ranks yield the core instead of sleeping
      tried.push_back(variant);
    }
    for (const planner::Variant& variant : tried) {
      for (const Cut& cut : {Cut{{rows}}, Cut{{31, rows - 31}}, Cut{{1, rows - 3, 2}}}) {
        SCOPED_TRACE(spec.text() + " as " + cut.text() + " with " + variant.text());
        ResidentProblem problem(spec, 5, *communicator_, with_gathered_a(spec));
        auto prepared = executor::prepare(plan(spec, cut, variant), problem.buffers(), *communicator_,
                                          {.accept_other_fingerprint = false, .prepare = {.allow_independent = true}});
        ASSERT_TRUE(prepared.ok()) << prepared.error().text();
        expect_right(spec, cut, RunMode::Fused, *prepared.value(), problem);
        prepared.value()->run(RunMode::Independent);
        expect_right(spec, cut, RunMode::Serial, *prepared.value(), problem);
      }
    }
  }
}

TEST_F(MpiWorld, EveryVariantHasEpiloguesInEveryType) {
  for (OpSpec spec : plain_specs()) {
    if (spec.tables) continue;
    spec.epilogue = {.has_bias = true, .has_residual = takes_residual(spec)};
    if (planner::traits_of(spec.kind).sums()) spec.epilogue.norm = planner::Norm::Rms;
    for (const DType dtype : {DType::F32, DType::Bf16, DType::I8}) {
      spec.dtype = dtype;
      if (!mpi_backend().supports(spec)) continue; // the CPU lacks this type
      const Cut cut{{31, planner::traits_of(spec.kind).cut_axis_length(spec) - 31}};
      for (const planner::Variant& variant : variants(spec)) {
        SCOPED_TRACE(spec.text() + " with " + variant.text());
        ResidentProblem problem(spec, 5, *communicator_);
        auto prepared = executor::prepare(plan(spec, cut, variant), problem.buffers(), *communicator_);
        ASSERT_TRUE(prepared.ok()) << prepared.error().text();
        expect_right(spec, cut, RunMode::Fused, *prepared.value(), problem);
      }
    }
  }
}

TEST_F(MpiWorld, EveryVariantExchangesUnequalSplits) {
  std::mt19937 random(20261121);
  for (const OpKind kind : {OpKind::MatmulAllToAll, OpKind::AllToAllMatmul}) {
    for (const bool has_epilogue : {false, true}) {
      OpSpec spec = spec_of(kind);
      spec.epilogue = {.has_bias = has_epilogue, .has_residual = has_epilogue};
      for (const planner::Variant& variant : variants(spec)) {
        for (const Cut& cut : {Cut{{96}}, Cut{{1, 61, 34}}}) {
          SCOPED_TRACE(spec.text() + " as " + cut.text() + " with " + variant.text());
          ResidentProblem problem(spec, 5, *communicator_, {.counts = skewed_counts(options_.world_size, 96, random)});
          auto prepared =
              executor::prepare(plan(spec, cut, variant), problem.buffers(), *communicator_,
                                {.accept_other_fingerprint = false, .prepare = {.allow_independent = true}});
          ASSERT_TRUE(prepared.ok()) << prepared.error().text();
          expect_right(spec, cut, RunMode::Fused, *prepared.value(), problem);
          prepared.value()->run(RunMode::Independent);
          expect_right(spec, cut, RunMode::Serial, *prepared.value(), problem);
        }
      }
    }
  }
}

TEST_F(MpiWorld, EveryVariantTakesSeveralExpertsHoweverRowsAreRouted) {
  std::mt19937 random(20261128);
  for (const OpKind kind : {OpKind::MatmulAllToAll, OpKind::AllToAllMatmul}) {
    OpSpec spec = spec_of(kind);
    spec.experts_per_rank = 3;
    spec.epilogue = {.has_bias = true, .has_residual = true};
    for (const planner::Variant& variant : variants(spec)) {
      for (const Routing routing : {Routing::Equal, Routing::Halves, Routing::OneTakesAll, Routing::Random}) {
        for (const bool has_counts : {true, false}) {
          if (!has_counts && routing != Routing::Equal) continue;
          const Cut cut = random() % 2 == 0 ? Cut{{96}} : Cut{{1, 61, 34}};
          SCOPED_TRACE(spec.text() + " as " + cut.text() + " with " + variant.text());
          const auto counts = expert_counts(routing, spec, random);
          ResidentProblem problem(spec, 5, *communicator_,
                                  has_counts ? executor::ProblemExtras{.counts = counts} : executor::ProblemExtras{});
          auto prepared = executor::prepare(plan(spec, cut, variant), problem.buffers(), *communicator_);
          ASSERT_TRUE(prepared.ok()) << prepared.error().text();
          expect_right(spec, cut, RunMode::Fused, *prepared.value(), problem);
          expect_right(spec, cut, RunMode::Serial, *prepared.value(), problem);
        }
      }
    }
  }
}

TEST_F(MpiWorld, FullCountsAreTheEqualSplit) {
  const OpSpec spec = spec_of(OpKind::AllToAllMatmul);
  const auto rank_count = static_cast<std::size_t>(options_.world_size);
  ResidentProblem equal(spec, 5, *communicator_);
  ResidentProblem full(spec, 5, *communicator_, {.counts = std::vector<std::int64_t>(rank_count * rank_count, 96)});
  for (ResidentProblem* problem : {&equal, &full}) {
    executor::prepare(plan(spec, {{40, 56}}, {"blocking", {}}), problem->buffers(), *communicator_)
        .value()
        ->run(RunMode::Fused);
    problem->fetch_results();
  }
  for (std::size_t rank = 0; rank < rank_count; ++rank)
    EXPECT_TRUE(are_same_bytes(equal.host().buffers()[rank].c, full.host().buffers()[rank].c)) << "rank " << rank;
}

TEST_F(MpiWorld, RefusesBagsThatNameARowThatNoTableHas) {
  const OpSpec spec = spec_of(OpKind::EmbeddingAllToAll);
  ResidentProblem problem(spec, 5, *communicator_);
  std::vector<RankBuffers> buffers(problem.buffers().begin(), problem.buffers().end());
  const auto indices = communicator_->allocate(1, buffers[1].bags.indices.size());
  std::vector<std::int64_t> rows(indices->bytes().size() / sizeof(std::int64_t), 50); // legal: 0 to 49
  indices->upload(std::as_bytes(std::span(rows)));
  buffers[1].bags.indices = indices->bytes();
  const auto refused = executor::prepare(plan(spec, {{96}}, {"blocking", {}}), buffers, *communicator_);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), ::testing::HasSubstr("rank 1: bags: rank 1, table 0"));
  EXPECT_THAT(refused.error().text(), ::testing::HasSubstr("names row 50"));
}

TEST_F(MpiWorld, EveryVariantSumsShortTypesToTheSameBitsOnAllRanks) {
  int run_count = 0;
  for (const auto& traits : planner::op_registry()) {
    const OpSpec spec = spec_of(traits.kind, DType::Bf16);
    if (!mpi_backend().supports(spec)) continue;
    const std::int64_t rows = traits.cut_axis_length(spec);
    for (const planner::Variant& variant : variants(spec)) {
      SCOPED_TRACE(spec.text() + " with " + variant.text());
      ResidentProblem problem(spec, 5, *communicator_);
      auto prepared = executor::prepare(plan(spec, {{31, rows - 31}}, variant), problem.buffers(), *communicator_);
      ASSERT_TRUE(prepared.ok()) << prepared.error().text();
      prepared.value()->run(RunMode::Fused);
      problem.fetch_results();
      // verify_result() also checks that the ranks of an all-reduce agree to the bit.
      const auto right = executor::verify_result(spec, problem.host().buffers(), {{31, rows - 31}}, 1);
      EXPECT_TRUE(right.ok()) << right.error().text();
      ++run_count;
    }
  }
  if (run_count == 0)
    GTEST_SKIP() << mpi_backend().supports(spec_of(OpKind::MatmulAllReduce, DType::Bf16)).error().text();
}

TEST_F(MpiWorld, RecordsEveryRankAndTheSlowestOnesMakespan) {
  const OpSpec spec = spec_of(OpKind::MatmulAllReduce);
  ResidentProblem problem(spec, 5, *communicator_);
  auto prepared = executor::prepare(plan(spec, {{spec.m}}, {"blocking", {}}), problem.buffers(), *communicator_);
  const auto& record = prepared.value()->run(RunMode::Fused);
  ASSERT_EQ(record.ranks.size(), static_cast<std::size_t>(options_.world_size));
  for (const auto& rank : record.ranks) {
    EXPECT_GT(rank.communication.back().end.count(), 0);
    EXPECT_GE(record.makespan, rank.communication.back().end - rank.compute.front().start);
    EXPECT_GE(record.wall, rank.communication.back().end);
  }
}

TEST_F(MpiWorld, RefusesMatricesThatAreNotInTheirRanksMemory) {
  const OpSpec spec = spec_of(OpKind::MatmulAllReduce);
  const RandomProblem in_this_process(spec, 1);
  const auto refused =
      executor::prepare(plan(spec, {{spec.m}}, {"blocking", {}}), in_this_process.buffers(), *communicator_);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), ::testing::HasSubstr("rank 1 A is not in that rank's memory"));
}

TEST_F(MpiWorld, RefusesSettingsThatAVariantDoesNotHave) {
  const OpSpec spec = spec_of(OpKind::MatmulAllReduce);
  const ResidentProblem problem(spec, 1, *communicator_);
  const auto refuse = [&](const planner::Variant& variant, const std::string& text) {
    const auto refused = executor::prepare(plan(spec, {{spec.m}}, variant), problem.buffers(), *communicator_);
    ASSERT_FALSE(refused.ok()) << variant.text();
    EXPECT_THAT(refused.error().text(), ::testing::HasSubstr(text));
  };
  refuse({"no_such", {}}, "ring, blocking, nonblocking");
  refuse({"pairwise", {{"sleep_us", "50"}}}, "no variant \"pairwise\" of matmul_all_reduce");
  refuse({"ring", {}}, "it is missing");
  refuse({"ring", {{"sleep_us", "-1"}}}, "not \"-1\"");
  refuse({"nonblocking", {{"sleep_us", "1e3"}}}, "from 0 to 10000");
  refuse({"blocking", {{"sleep_us", "1"}}}, "\"blocking\" has no setting \"sleep_us\"; it has: none");
  refuse({"direct", {{"sleep_us", "1"}}}, "has no setting");
}

// Pieces of 64 KiB and more go round the ring in 2, 3 or 4 slices. The sizes are divisible neither by the ranks nor by
// the slices.
TEST_F(MpiWorld, LongPiecesGoRoundTheRingInSlices) {
  for (const OpKind kind : {OpKind::MatmulAllReduce, OpKind::MatmulReduceScatter, OpKind::AllGatherMatmul}) {
    for (const DType dtype : {DType::F32, DType::Bf16}) {
      const bool gathers = kind == OpKind::AllGatherMatmul;
      const std::int64_t rows = 431 * (kind == OpKind::MatmulAllReduce ? 2 : options_.world_size);
      const OpSpec spec{.kind = kind,
                        .m = rows,
                        .n = gathers ? 8 : 257,
                        .k = gathers ? 257 : 8,
                        .dtype = dtype,
                        .world_size = options_.world_size};
      if (!mpi_backend().supports(spec)) continue;
      const std::int64_t length = planner::traits_of(kind).cut_axis_length(spec);
      auto tried = variants(spec);
      if (tried.front().name != "hierarchical") tried = {{"sliced_ring", {{"sleep_us", "0"}}}};
      for (const planner::Variant& variant : tried) {
        for (const Cut& cut : {Cut{{length}}, Cut{{101, 150, length - 251}}}) {
          SCOPED_TRACE(spec.text() + " as " + cut.text() + " with " + variant.text());
          ResidentProblem problem(spec, 5, *communicator_);
          auto prepared = executor::prepare(plan(spec, cut, variant), problem.buffers(), *communicator_);
          ASSERT_TRUE(prepared.ok()) << prepared.error().text();
          prepared.value()->run(RunMode::Fused);
          problem.fetch_results();
          const auto right = executor::verify_result(spec, problem.host().buffers(), cut, 1);
          EXPECT_TRUE(right.ok()) << right.error().text();
        }
      }
    }
  }
}

TEST_F(MpiWorld, RanksOfOneNodeReadEachOthersMemory) {
  const auto names = [this](OpKind kind) {
    std::vector<std::string> all;
    for (const auto& variant : mpi_backend().variants(spec_of(kind), {})) all.push_back(variant.name);
    return all;
  };
  EXPECT_EQ(names(OpKind::MatmulAllReduce).front(), "direct");
  EXPECT_EQ(names(OpKind::AllToAllMatmul).front(), "direct");
  // two_shot saves nothing on 2 ranks, nor for kinds that sum nothing, so it is not proposed there.
  EXPECT_EQ(std::ranges::count(names(OpKind::MatmulAllReduce), "two_shot"), options_.world_size > 2 ? 1 : 0);
  EXPECT_EQ(std::ranges::count(names(OpKind::AllToAllMatmul), "two_shot"), 0);
}

TEST_F(MpiWorld, ManyPlansInTurnKeepTheCountsOfBlocksApart) {
  const OpSpec spec = spec_of(OpKind::MatmulAllReduce);
  for (const planner::Variant& variant : variants(spec)) {
    if (variant.name != "direct" && variant.name != "two_shot" && variant.name != "hierarchical") continue;
    ResidentProblem problem(spec, 5, *communicator_);
    const Cut many{std::vector<std::int64_t>(32, spec.m / 32)};
    auto first = executor::prepare(plan(spec, many, variant), problem.buffers(), *communicator_);
    auto second = executor::prepare(plan(spec, {{spec.m}}, variant), problem.buffers(), *communicator_);
    ASSERT_TRUE(first.ok() && second.ok());
    for (std::uint64_t round = 0; round < 10; ++round) {
      problem.refill_a(100 + round);
      problem.poison();
      auto& prepared = round % 2 == 0 ? first.value() : second.value();
      prepared->run(RunMode::Fused);
      prepared->run(RunMode::CommunicationOnly); // must sum the same products again
      problem.fetch_results();
      const auto right = executor::verify_result(spec, problem.host().buffers(), many, round);
      EXPECT_TRUE(right.ok()) << right.error().text();
    }
  }
}

} // namespace
} // namespace mc2::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int code = mc2::executor::lead_processes("tests", [] { return RUN_ALL_TESTS(); }).value();
  mc2::testing::check_leaks_now();
  return code;
}
