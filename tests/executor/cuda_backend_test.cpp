#include "backends/cuda/cuda_backend.hpp"

#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "conformance/random_cases.hpp"
#include "executor/cuda_plan.hpp"
#include "executor/cuda_streams.hpp"
#include "row_splits.hpp"
#include "support/counts.hpp"
#include "support/gpus.hpp"
#include "support/prepare.hpp"

namespace mc2::testing {
namespace {

using executor::cuda::cuda_backend;

std::vector<BackendUnderTest> gpus() { return {{"cuda", &cuda_backend(), {}}}; }

MC2_INSTANTIATE_CONFORMANCE(Cuda, gpus());
MC2_INSTANTIATE_RANDOM_CASES(Cuda, gpus());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(IntermediatesConformance);

const planner::Variant kDirect{"direct", {{"ctas", "8"}}}; // as many SMs as each of eight ranks of one GPU has

class CudaBackend : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto found = cuda_backend().availability(); !found.is_available) GTEST_SKIP() << found.reason;
  }

  static std::unique_ptr<Communicator> open() { return cuda_backend().open({}).value(); }

  /// Runs the test with 2, 3, 4 and 8 ranks, as far as there are devices for them.
  static void for_each_world(const std::function<void(Communicator&, int ranks)>& test) {
    for (const int ranks : {2, 3, 4, 8}) {
      CommunicatorOptions options;
      options.world_size = ranks;
      if (auto opened = cuda_backend().open(options)) test(*opened.value(), ranks);
    }
  }

  static OpSpec op(OpKind kind, std::int64_t m) {
    OpSpec spec{.kind = kind, .m = m, .n = 512, .k = 256, .dtype = DType::Bf16, .world_size = 2};
    if (kind != OpKind::EmbeddingAllToAll) return spec;
    spec.k = 12;
    spec.tables = planner::EmbeddingTables{.table_count = 4, .row_count = 1000, .pooling = planner::Pooling::Mean};
    return spec;
  }

  static void expect_right(ResidentProblem& problem, const OpSpec& spec, const Cut& cut) {
    problem.fetch_results();
    const auto right = executor::verify_result(spec, problem.host().buffers(), cut, 1);
    EXPECT_TRUE(right.ok()) << right.error().text();
  }

  /// The error with which a plan is refused when rank 1's C starts `offset` bytes after the start of other memory.
  static Error refused_with_shifted_c(const OpSpec& spec, const Cut& cut, const planner::Variant& variant,
                                      std::size_t offset, Communicator& communicator) {
    const ResidentProblem problem(spec, 5, communicator);
    std::vector<RankBuffers> shifted(problem.buffers().begin(), problem.buffers().end());
    auto larger = communicator.allocate(1, shifted[1].c.size() + offset);
    shifted[1].c = larger->bytes().subspan(offset);
    const auto prepared = executor::prepare(cuda_plan(spec, cut, variant), shifted, communicator);
    EXPECT_FALSE(prepared.ok());
    return prepared.ok() ? Error{} : prepared.error();
  }

  /// Runs a plan. A run that fails ends the test, and first says what ran.
  static std::chrono::nanoseconds time_of(Prepared& prepared, RunMode mode, executor::RunDetail detail) {
    try {
      return prepared.run(mode, detail).makespan;
    } catch (const SystemError&) {
      ADD_FAILURE() << "the run failed";
      throw;
    }
  }

  /// Runs one prepared plan several times, each time on new matrices.
  static void expect_right_again(ResidentProblem& problem, const OpSpec& spec, const Cut& cut,
                                 const planner::Variant& variant, Communicator& communicator) {
    SCOPED_TRACE(variant.text() + ", " + spec.text() + ", " + cut.text());
    planner::Plan made = cuda_plan(spec, cut, variant);
    made.fingerprint = communicator.fingerprint();
    auto prepared = executor::prepare(made, problem.buffers(), communicator);
    ASSERT_TRUE(prepared.ok()) << prepared.error().text();
    for (std::uint64_t run = 0; run < 2; ++run) {
      problem.poison();
      problem.refill_a(run);
      (void)time_of(*prepared.value(), RunMode::Fused, executor::RunDetail::Makespan);
      expect_right(problem, spec, cut);
    }
  }

  /// Checks the result of every mode that makes one.
  static void expect_right(const OpSpec& spec, const Cut& cut, const planner::Variant& variant,
                           Communicator& communicator) {
    expect_right(spec, cut, variant, communicator, with_gathered_a(spec));
  }
  static void expect_right(const OpSpec& spec, const Cut& cut, const planner::Variant& variant,
                           Communicator& communicator, const executor::ProblemExtras& extras) {
    SCOPED_TRACE(variant.text() + ", " + spec.text() + ", " + cut.text());
    ResidentProblem problem(spec, 5, communicator, extras);
    planner::Plan made = cuda_plan(spec, cut, variant);
    made.fingerprint = communicator.fingerprint();
    auto prepared = executor::prepare(made, problem.buffers(), communicator);
    ASSERT_TRUE(prepared.ok()) << prepared.error().text();
    for (const RunMode mode : {RunMode::Fused, RunMode::Serial}) {
      for (const auto detail : {executor::RunDetail::Makespan, executor::RunDetail::Stages}) {
        problem.poison();
        EXPECT_GT(time_of(*prepared.value(), mode, detail).count(), 0);
        expect_right(problem, spec, cut);
      }
    }
  }
};

TEST_F(CudaBackend, EveryVariantIsRightInEveryModeThatMakesAResult) {
  for_each_world([](Communicator& communicator, int ranks) {
    for (const auto& traits : planner::op_registry()) {
      if (traits.work == planner::Work::GroupedMatmul) continue; // needs experts
      OpSpec spec = op(traits.kind, std::int64_t{are_gpus_simulated() ? 200 : 1000} * ranks);
      spec.world_size = ranks;
      const std::int64_t rows = traits.cut_axis_length(spec);
      for (const planner::Variant& variant : tried_variants(spec))
        for (const Cut& cut : {Cut{{rows}}, Cut{{128, rows - 128}}, Cut{{rows / 4, rows / 4, rows / 4, rows / 4}}})
          expect_right(spec, cut, variant, communicator);
    }
  });
}

// Covers every place that may add the epilogue: the matmul, a block's exchange, a span of blocks, the tiles, the last
// column. Some rows fit in a thread block as a whole and some are longer; some can be read 16 bytes at a time.
TEST_F(CudaBackend, EveryVariantAddsTheEpilogueOnce) {
  for_each_world([](Communicator& communicator, int ranks) {
    for (const auto& traits : planner::op_registry()) {
      if (traits.work != planner::Work::Matmul) continue;
      for (const auto& [m, n] : {std::pair{96 * ranks, 512}, {40 * ranks, 37}, {2 * ranks, 16640}}) {
        OpSpec spec = op(traits.kind, m);
        spec.n = n;
        spec.k = 64;
        spec.world_size = ranks;
        spec.epilogue = {.has_bias = true, .has_residual = true};
        if (traits.sums()) spec.epilogue.norm = planner::Norm::Rms;
        const std::int64_t length = traits.cut_axis_length(spec);
        for (const planner::Variant& variant : tried_variants(spec))
          for (const Cut& cut : {Cut{{length}}, Cut{{1, length - 1}}}) expect_right(spec, cut, variant, communicator);
      }
    }
  });
}

// The kernel that sums rows also finishes them, i.e. adds the residual and normalises. The shapes are: the longest rows
// that are mailed, several rows per thread block, a single row, rows of which not every rank has a share, and more long
// rows than fit in one round.
TEST_F(CudaBackend, FewRowsAreFinishedWhereTheyAreSummed) {
  constexpr std::int64_t kLongestRowBytes = 32 << 10;
  for_each_world([](Communicator& communicator, int ranks) {
    for (const DType dtype : {DType::F32, DType::F16, DType::Bf16}) {
      const std::int64_t longest = kLongestRowBytes / planner::size_bytes(dtype);
      for (const auto& [m, n] :
           {std::pair{std::int64_t{4}, longest}, {34, 1500}, {1, longest / 4}, {600, 24}, {300, longest}}) {
        if (m * n > 200 * longest && are_gpus_simulated()) continue; // simulated GPUs take rows one by one
        for (const planner::Epilogue& epilogue : {planner::Epilogue{.has_residual = true, .norm = planner::Norm::Rms},
                                                  {.has_bias = true, .has_residual = true, .norm = planner::Norm::Rms},
                                                  {.norm = planner::Norm::Rms},
                                                  {.has_residual = true}}) {
          OpSpec spec = op(OpKind::MatmulAllReduce, m);
          spec.n = n;
          spec.k = 64;
          spec.dtype = dtype;
          spec.world_size = ranks;
          spec.epilogue = epilogue;
          for (const planner::Variant& variant : tried_variants(spec))
            if (variant.name == "low_latency" || variant.name == "direct")
              expect_right(spec, Cut{{planner::traits_of(spec.kind).cut_axis_length(spec)}}, variant, communicator);
        }
      }
    }
  });
}

// Rank 1's residual is not aligned to a vector, so only this rank finishes its rows with another kernel. The exchange
// must still match the other ranks'.
TEST_F(CudaBackend, ARankWhoseResidualIsShiftedExchangesWithTheOthers) {
  OpSpec spec = op(OpKind::MatmulAllReduce, 300);
  spec.epilogue = {.has_residual = true, .norm = planner::Norm::Rms};
  for_each_world([&](Communicator& communicator, int ranks) {
    spec.world_size = ranks;
    ResidentProblem problem(spec, 5, communicator);
    std::vector<RankBuffers> shifted(problem.buffers().begin(), problem.buffers().end());
    const auto residual = problem.host().buffers()[1].residual;
    std::vector<std::byte> moved(2 + residual.size());
    std::copy(residual.begin(), residual.end(), moved.begin() + 2);
    auto memory = communicator.allocate(1, moved.size());
    memory->upload(moved);
    shifted[1].residual = memory->bytes().subspan(2);
    planner::Plan made = cuda_plan(spec, Cut{{100, 200}}, kDirect);
    made.fingerprint = communicator.fingerprint();
    auto prepared = executor::prepare(made, shifted, communicator);
    ASSERT_TRUE(prepared.ok()) << prepared.error().text();
    problem.poison();
    prepared.value()->run(RunMode::Fused, executor::RunDetail::Makespan);
    expect_right(problem, spec, made.cut);
  });
}

// Covers every way of exchanging rows and of multiplying them, with experts that get none, some or all of the rows.
TEST_F(CudaBackend, RoutesRowsToExperts) {
  std::mt19937 random(7);
  for_each_world([&](Communicator& communicator, int ranks) {
    for (const OpKind kind : {OpKind::AllToAllMatmul, OpKind::MatmulAllToAll}) {
      for (const Routing routing : {Routing::Equal, Routing::Halves, Routing::OneTakesAll, Routing::Random}) {
        for (const std::int64_t experts : {1, 3}) {
          OpSpec spec = op(kind, std::int64_t{are_gpus_simulated() ? 96 : 960} * ranks);
          spec.world_size = ranks;
          spec.n = 64;
          spec.experts_per_rank = experts;
          spec.epilogue = {.has_bias = experts > 1, .has_residual = routing == Routing::Halves};
          const auto counts = expert_counts(routing, spec, random);
          const std::int64_t rows = spec.m / ranks;
          for (const planner::Variant& variant : tried_variants(spec))
            for (const Cut& cut : {Cut{{rows}}, Cut{{rows / 4, rows / 2, rows / 4}}})
              expect_right(spec, cut, variant, communicator, {.counts = counts});
        }
      }
    }
  });
}

/// A problem whose matrices have room for any counts, and whose counts lie in device memory, where each run reads them.
class RoutedProblem {
 public:
  RoutedProblem(const OpSpec& op, Communicator& communicator) : op_(op) {
    const executor::OperandShapes shapes = executor::operand_shapes(op);
    const auto bytes_of = [&](const executor::MatrixShape& shape) {
      return static_cast<std::size_t>(shape.element_count() * planner::size_bytes(op.dtype));
    };
    for (int rank = 0; rank < op.world_size; ++rank) {
      const auto take = [&](std::size_t size) {
        memory_.push_back(communicator.allocate(rank, size));
        return memory_.back().get();
      };
      Rank& own = ranks_.emplace_back();
      own = {take(bytes_of(shapes.a)), take(bytes_of(shapes.b)), take(bytes_of(shapes.c)),
             take(executor::count_count(op) * sizeof(std::int64_t)), nullptr};
      if (op.epilogue.has_bias) own.bias = take(bytes_of(shapes.bias));
      buffers_.push_back({.a = own.a->bytes(),
                          .b = own.b->bytes(),
                          .c = own.c->bytes(),
                          .device_send_counts = own.counts->bytes(),
                          .bias = own.bias == nullptr ? std::span<std::byte>{} : own.bias->bytes()});
    }
  }

  [[nodiscard]] std::span<const RankBuffers> buffers() const { return buffers_; }

  void set(const executor::RandomProblem& problem) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankBuffers& from = problem.buffers()[rank];
      const std::vector<std::byte> poison(ranks_[rank].c->bytes().size(), std::byte{0xFE});
      ranks_[rank].c->upload(poison);
      ranks_[rank].a->upload(from.a);
      ranks_[rank].b->upload(from.b);
      if (ranks_[rank].bias != nullptr) ranks_[rank].bias->upload(from.bias);
      set_counts(rank, from.send_counts);
    }
  }
  void set_counts(std::size_t rank, std::span<const std::int64_t> counts) {
    ranks_[rank].counts->upload(std::as_bytes(counts));
  }

  [[nodiscard]] std::vector<std::byte> result(std::size_t rank) const {
    std::vector<std::byte> all(ranks_[rank].c->bytes().size());
    ranks_[rank].c->download(all);
    return all;
  }

  void expect_right(executor::RandomProblem& problem, const Cut& cut) const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto all = result(rank);
      const std::span<std::byte> c = problem.buffers()[rank].c;
      std::ranges::copy(std::span(all).first(c.size()), c.begin());
      const auto rest = std::span(all).subspan(c.size());
      EXPECT_TRUE(std::ranges::all_of(rest, [](std::byte byte) { return byte == std::byte{0xFE}; })) << "rank " << rank;
    }
    const auto right = executor::verify_result(op_, problem.buffers(), cut, 1);
    EXPECT_TRUE(right.ok()) << right.error().text();
  }

 private:
  struct Rank {
    executor::RankMemory *a, *b, *c, *counts, *bias;
  };
  OpSpec op_;
  std::vector<std::unique_ptr<executor::RankMemory>> memory_;
  std::vector<Rank> ranks_;
  std::vector<RankBuffers> buffers_;
};

TEST_F(CudaBackend, CountsOnDevicesAreReadByEveryRun) {
  std::mt19937 random(11);
  for_each_world([&](Communicator& communicator, int ranks) {
    for (const OpKind kind : {OpKind::AllToAllMatmul, OpKind::MatmulAllToAll}) {
      for (const std::int64_t experts : {1, 3, 64}) {
        OpSpec spec = op(kind, std::int64_t{are_gpus_simulated() ? 192 : 1920} * ranks);
        spec.world_size = ranks;
        spec.n = 136; // neither wide nor narrow tiles end exactly at column 136
        spec.experts_per_rank = experts;
        spec.epilogue.has_bias = experts == 3;
        const std::int64_t rows = spec.m / ranks;
        for (const Cut& cut : {Cut{{rows}}, Cut{{rows / 4, rows / 2, rows / 4}}}) {
          SCOPED_TRACE(spec.text() + ", " + cut.text());
          RoutedProblem problem(spec, communicator);
          auto prepared = prepare_cut(communicator, spec, cut, kDirect, problem.buffers(), {.allow_independent = true});
          ASSERT_TRUE(prepared.ok()) << prepared.error().text();
          for (const Routing routing : {Routing::Equal, Routing::Random, Routing::OneTakesAll, Routing::Halves}) {
            const auto counts = expert_counts(routing, spec, random);
            executor::RandomProblem right(spec, 7, {.counts = counts});
            for (const RunMode mode : {RunMode::Fused, RunMode::Serial}) {
              problem.set(right);
              prepared.value()->run(mode, executor::RunDetail::Makespan);
              problem.expect_right(right, cut);
            }
            for (const RunMode mode : {RunMode::ComputeOnly, RunMode::CommunicationOnly, RunMode::Independent})
              EXPECT_GT(prepared.value()->run(mode, executor::RunDetail::Makespan).makespan.count(), 0);
          }
        }
      }
    }
  });
}

TEST_F(CudaBackend, IllegalCountsOnADeviceEndTheRunAndLeaveNan) {
  OpSpec spec = op(OpKind::AllToAllMatmul, 64);
  spec.experts_per_rank = 2;
  for (const auto& [counts, said] :
       {std::pair{std::vector<std::int64_t>{0, -1, 0, 0}, "rank 1 sends rank 0 -1 rows of expert 1; legal: 0 to"},
        {std::vector<std::int64_t>{0, 0, 30, 3}, "rank 1 sends rank 1 3 rows of expert 1; legal: 0 to m / ranks = 32"},
        {std::vector<std::int64_t>{std::int64_t{1} << 62, 0, 0, 0}, "rows of expert 0; legal"}}) {
    const auto communicator = open();
    RoutedProblem problem(spec, *communicator);
    auto prepared = executor::prepare(cuda_plan(spec, {{32}}, kDirect), problem.buffers(), *communicator).value();
    const std::vector<std::int64_t> legal(4, 1);
    problem.set(executor::RandomProblem(spec, 7, {.counts = std::vector<std::int64_t>(8, 1)}));
    problem.set_counts(1, counts);
    EXPECT_THAT([&] { prepared->run(RunMode::Fused, executor::RunDetail::Makespan); },
                ::testing::ThrowsMessage<SystemError>(::testing::HasSubstr(said)));
    for (const std::size_t rank : {0, 1}) {
      const auto all = problem.result(rank);
      EXPECT_TRUE(std::ranges::all_of(all, [](std::byte byte) { return byte == std::byte{0xFF}; })) << "rank " << rank;
    }
  }
}

// One choice of one token is illegal, in its expert or its weight. The row that it contributes to becomes NaN; all
// other rows are right.
TEST_F(CudaBackend, IllegalChoicesFailTheRunAndLeaveNanWhereTheyAre) {
  for (const OpKind kind : {OpKind::AllGatherGroupedMatmul, OpKind::GroupedMatmulReduceScatter}) {
    for (const float weight : {0.5F, std::numeric_limits<float>::infinity()}) {
      const bool is_summed = planner::traits_of(kind).sums();
      if (!is_summed && std::isinf(weight)) continue; // the kind has no weights
      const auto communicator = open();
      OpSpec spec = op(kind, 64);
      spec.experts = {.count = 4, .top_k = 2};
      ResidentProblem problem(spec, 1, *communicator);
      OwnChoices own(spec, problem, *communicator);
      auto prepared = prepare_cut(*communicator, spec, {{12, 20}}, kDirect, own.buffers).value();
      const std::size_t place = 37;
      for (std::size_t rank = 0; rank < own.experts.size(); ++rank) {
        if (is_summed) own.weights[rank][place] = weight;
        if (!std::isinf(weight)) own.experts[rank][place] = -6;
      }
      own.bring();
      const char* const said = std::isinf(weight) ? "row 18, choice 1 has the weight inf; needs a finite number"
                                                  : "row 18, choice 1 is expert -6; legal: 0 to 3";
      EXPECT_THAT([&] { prepared->run(RunMode::Fused, executor::RunDetail::Makespan); },
                  ::testing::ThrowsMessage<SystemError>(::testing::HasSubstr(said)));
      problem.fetch_results();
      const std::int64_t row = is_summed ? place / 2 : place;
      const std::int64_t row_bytes = spec.n * planner::size_bytes(spec.dtype);
      const auto c = problem.host().buffers().front().c;
      for (std::int64_t i = 0; i * row_bytes < std::ssize(c); ++i) {
        const auto found = c.subspan(static_cast<std::size_t>(i * row_bytes), static_cast<std::size_t>(row_bytes));
        for (std::size_t j = 1; j < found.size(); j += 2) // bf16's upper byte holds most of the exponent
          EXPECT_EQ((found[j] & std::byte{0x7F}) == std::byte{0x7F}, i == row) << "row " << i;
      }
    }
  }
}

// An expert's last tile ends where its rows end; other tiles are full. n ends inside a tile of either width.
TEST_F(CudaBackend, MultipliesExpertsInWideTilesAndInNarrowOnes) {
  const auto communicator = open();
  for (const OpKind kind : {OpKind::AllToAllMatmul, OpKind::MatmulAllToAll}) {
    for (const auto& [rows_of_a_pair, n] : {std::pair{1600, 1032}, {300, 648}}) {
      OpSpec spec = op(kind, 2 * rows_of_a_pair);
      spec.n = n;
      spec.k = 72;
      spec.experts_per_rank = 2;
      spec.epilogue = {.has_bias = true, .has_residual = true};
      const std::int64_t first = rows_of_a_pair / 3;
      const std::vector<std::int64_t> counts{
          first, rows_of_a_pair - first, 0, rows_of_a_pair, first - 1, 2 * first, first, first + 1};
      expect_right(spec, {{rows_of_a_pair}}, kDirect, *communicator, {.counts = counts});
    }
  }
}

TEST_F(CudaBackend, ExpertsOfTheLibraryAddTheirOwnBias) {
  const auto communicator = open();
  for (const OpKind kind : {OpKind::AllToAllMatmul, OpKind::MatmulAllToAll}) {
    OpSpec spec = op(kind, 48);
    spec.dtype = DType::F32;
    spec.n = 36;
    spec.experts_per_rank = 3;
    spec.epilogue = {.has_bias = true, .has_residual = true};
    expect_right(spec, {{8, 16}}, kDirect, *communicator);
    spec.n = 37;
    const ResidentProblem problem(spec, 5, *communicator);
    const auto refused = prepare_cut(*communicator, spec, {{24}}, kDirect, problem.buffers());
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text(), ::testing::HasSubstr("so a multiple of 4 columns"));
  }
}

TEST_F(CudaBackend, CountsAreThoseThatAPlanWasPreparedWith) {
  OpSpec spec = op(OpKind::MatmulAllToAll, 64);
  spec.epilogue.has_residual = true;
  const auto communicator = open();
  const std::vector<std::int64_t> counts{3, 4, 5, 6};
  ResidentProblem problem(spec, 5, *communicator, {.counts = counts});
  std::vector<RankBuffers> buffers(problem.buffers().begin(), problem.buffers().end());
  std::unique_ptr<executor::Prepared> prepared;
  {
    std::vector<std::vector<std::int64_t>> copies; // they may change once the plan is prepared
    for (RankBuffers& own : buffers) {
      own.send_counts = copies.emplace_back(own.send_counts.begin(), own.send_counts.end());
      own.receive_counts = copies.emplace_back(own.receive_counts.begin(), own.receive_counts.end());
    }
    prepared = prepare_cut(*communicator, spec, {{16, 16}}, kDirect, buffers).value();
    for (auto& copy : copies) std::ranges::fill(copy, 1000);
  }
  for (const RunMode mode : {RunMode::Fused, RunMode::Serial}) {
    problem.poison();
    prepared->run(mode, executor::RunDetail::Stages);
    expect_right(problem, spec, {{16, 16}});
  }
  EXPECT_TRUE(prepared->rebind(problem.buffers()).ok());
  ResidentProblem other(spec, 5, *communicator, {.counts = std::vector<std::int64_t>{4, 3, 6, 5}});
  const auto refused = prepared->rebind(other.buffers());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), ::testing::HasSubstr("counts: rank 0 brings others than the plan was prepared"));
  const ResidentProblem equal(spec, 5, *communicator);
  EXPECT_FALSE(prepared->rebind(equal.buffers()).ok());
}

TEST_F(CudaBackend, CountsOnDevicesThatCannotBeReadAreRefused) {
  const auto communicator = open();
  OpSpec spec = op(OpKind::MatmulAllToAll, 64);
  const auto refusal = [&](const planner::Variant& variant, auto change) {
    RoutedProblem problem(spec, *communicator);
    std::vector<RankBuffers> buffers(problem.buffers().begin(), problem.buffers().end());
    change(buffers);
    const auto refused = executor::prepare(cuda_plan(spec, {{32}}, variant), buffers, *communicator);
    return refused ? "" : refused.error().text();
  };
  const auto nothing = [](auto& /*buffers*/) {};
  if (!do_ranks_share_a_device()) {
    EXPECT_THAT(refusal({"nccl", {}}, nothing),
                ::testing::HasSubstr("counts: in device memory are for variant direct"));
  }
  EXPECT_THAT(refusal(kDirect, [](auto& buffers) { buffers[1].device_send_counts = {}; }),
              ::testing::HasSubstr("rank 1 has no counts in device memory, unlike rank 0"));
  EXPECT_THAT(
      refusal(kDirect, [](auto& buffers) { buffers[1].device_send_counts = buffers[1].device_send_counts.first(8); }),
      ::testing::HasSubstr("rank 1 has 8 bytes of counts in device memory; needs 16, 8 for each expert"));
  const std::vector<std::int64_t> beside(2, 1);
  EXPECT_THAT(refusal(kDirect, [&](auto& buffers) { buffers[0].receive_counts = beside; }),
              ::testing::HasSubstr("rank 0 has counts in device memory and others beside them"));
  EXPECT_THAT(refusal(kDirect,
                      [](auto& buffers) {
                        const auto counts = buffers[1].device_send_counts;
                        buffers[1].device_send_counts = {counts.data() + 4, counts.size()};
                      }),
              ::testing::HasSubstr("rank 1 has counts in device memory that are not aligned to their 8 bytes"));
  EXPECT_THAT(refusal(kDirect, [](auto& buffers) { buffers[0].device_send_counts = buffers[0].c.first(16); }),
              ::testing::HasSubstr("rank 0 counts"));
  spec.dtype = DType::F32;
  EXPECT_THAT(refusal(kDirect, nothing), ::testing::HasSubstr("needs bf16 or f16, not f32"));
  const OpSpec other = op(OpKind::MatmulAllReduce, 64);
  RoutedProblem problem(spec, *communicator);
  RankBuffers buffers;
  buffers.device_send_counts = problem.buffers()[0].device_send_counts;
  EXPECT_THAT(executor::check_splits(other, std::array{0}, std::span(&buffers, 1)).error().message,
              ::testing::HasSubstr("take them, not matmul_all_reduce"));
}

TEST_F(CudaBackend, ExpertsWithoutCountsHaveEquallyManyRows) {
  OpSpec spec = op(OpKind::AllToAllMatmul, 96);
  spec.experts_per_rank = 4;
  for (const DType dtype : {DType::F32, DType::F16}) {
    spec.dtype = dtype;
    for (const std::int64_t k : {64, 37}) { // rows are read 16 bytes at a time, or 4 or 2
      spec.k = k;
      for (const planner::Variant& variant : tried_variants(spec)) expect_right(spec, {{16, 32}}, variant, *open());
    }
  }
}

// With few rows, blocks are runs of columns. Some can be read 16 bytes at a time, some cannot.
TEST_F(CudaBackend, CutsColumnsWhereThereAreFewRows) {
  auto communicator = open();
  for (const std::int64_t m : {1, 7, 64}) {
    const OpSpec spec = op(OpKind::MatmulAllReduce, m);
    ASSERT_EQ(planner::cut_axis(spec), planner::CutAxis::Columns);
    for (const planner::Variant& variant : tried_variants(spec))
      for (const Cut& cut : {Cut{{512}}, Cut{{128, 384}}, Cut{{1, 200, 311}}})
        expect_right(spec, cut, variant, *communicator);
  }
}

TEST_F(CudaBackend, F8IsRightWithEveryVariant) {
  auto communicator = open();
  for (const auto& traits : planner::op_registry()) {
    if (traits.work != planner::Work::Matmul) continue;
    OpSpec spec = op(traits.kind, are_gpus_simulated() ? 512 : 2048);
    spec.dtype = DType::F8E4m3;
    if (const auto supported = cuda_backend().supports(spec); !supported) GTEST_SKIP() << supported.error().text();
    const std::int64_t rows = traits.cut_axis_length(spec);
    for (const planner::Epilogue& epilogue : {planner::Epilogue{}, {.has_bias = true, .has_residual = true}}) {
      spec.epilogue = epilogue;
      for (const planner::Variant& variant : tried_variants(spec))
        for (const Cut& cut : {Cut{{rows}}, Cut{{131, rows - 133, 2}}}) expect_right(spec, cut, variant, *communicator);
    }
  }
  OpSpec few = op(OpKind::MatmulAllReduce, 7);
  few.dtype = DType::F8E4m3;
  for (const planner::Variant& variant : tried_variants(few))
    for (const Cut& cut : {Cut{{512}}, Cut{{16, 400, 96}}}) expect_right(few, cut, variant, *communicator);
}

TEST_F(CudaBackend, F8ReadsItsScalesInEveryRunAndKeepsItsPlace) {
  auto communicator = open();
  OpSpec spec = op(OpKind::MatmulReduceScatter, 512);
  spec.dtype = DType::F8E4m3;
  if (const auto supported = cuda_backend().supports(spec); !supported) GTEST_SKIP() << supported.error().text();
  ResidentProblem problem(spec, 5, *communicator);
  std::vector<RankBuffers> here(problem.host().buffers().begin(), problem.host().buffers().end());
  std::vector<RankBuffers> there(problem.buffers().begin(), problem.buffers().end());
  std::array<float, 2> scales{};
  std::vector<std::unique_ptr<executor::RankMemory>> resident_scales;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    here[rank].a_scales = std::as_bytes(std::span(scales).subspan(rank, 1));
    resident_scales.push_back(communicator->allocate(static_cast<int>(rank), sizeof(float)));
    there[rank].a_scales = resident_scales.back()->bytes();
  }
  const auto plan = cuda_plan(spec, {{256}}, {"direct", {{"ctas", "8"}}});
  auto prepared = executor::prepare(plan, there, *communicator).value();
  for (const float scale : {0.25F, 3.0F}) {
    scales = {scale, -2 * scale};
    for (std::size_t rank = 0; rank < 2; ++rank) resident_scales[rank]->upload(here[rank].a_scales);
    problem.poison();
    prepared->run(RunMode::Fused);
    problem.fetch_results();
    const auto right = executor::verify_result(spec, here, {{256}}, 1);
    EXPECT_TRUE(right.ok()) << right.error().text();
  }
  const auto rebound = [&](auto&& change) {
    std::vector<RankBuffers> next = there;
    change(next[1]);
    const auto bound = prepared->rebind(next);
    return bound ? std::string("nothing was refused") : bound.error().text();
  };
  const auto other = communicator->allocate(1, problem.buffers()[1].b.size());
  EXPECT_THAT(rebound([&](RankBuffers& own) { own.b = other->bytes(); }), ::testing::HasSubstr("rank 1 B was packed"));
  EXPECT_THAT(rebound([&](RankBuffers& own) { own.a_scales = other->bytes().first(4); }),
              ::testing::HasSubstr("rank 1 scales must stay"));
  const auto refusal = [&](auto&& change) {
    std::vector<RankBuffers> bad = there;
    change(bad[1]);
    return executor::prepare(plan, bad, *communicator).error().text();
  };
  EXPECT_THAT(refusal([&](RankBuffers& own) { own.a_scales = {}; }),
              ::testing::HasSubstr("rank 1 scales of A has 0 bytes; [1, 1] needs 4"));
  EXPECT_THAT(refusal([&](RankBuffers& own) { own.b_scales = other->bytes().subspan(4, 4); }),
              ::testing::HasSubstr("rank 1 scales of B is aligned to 4 bytes; f8e4m3 needs 16"));
  OpSpec odd = spec;
  odd.k = 24;
  EXPECT_THAT(cuda_backend().supports(odd).error().text(), ::testing::HasSubstr("n and k are multiples of 16"));
}

TEST_F(CudaBackend, PoolsBagsOfEveryTypeAndWidth) {
  auto communicator = open();
  struct Shape {
    std::int64_t m, tables, columns;
  };
  for (const DType dtype : {DType::F32, DType::F16, DType::Bf16}) {
    for (const auto pooling : {planner::Pooling::Sum, planner::Pooling::Mean}) {
      for (const Shape& shape : {Shape{2, 1, 1}, Shape{70, 3, 7}, Shape{514, 5, 48}, Shape{1000, 2, 1030}}) {
        OpSpec spec{.kind = OpKind::EmbeddingAllToAll,
                    .m = shape.m,
                    .n = shape.tables * shape.columns,
                    .k = 5,
                    .dtype = dtype,
                    .world_size = 2};
        spec.tables = planner::EmbeddingTables{.table_count = shape.tables, .row_count = 33, .pooling = pooling};
        const std::int64_t rows = shape.m / 2;
        const Cut cut = rows > 3 ? Cut{{1, rows - 3, 2}} : Cut{{rows}};
        for (const planner::Variant& variant : tried_variants(spec)) {
          SCOPED_TRACE(variant.text() + ", " + spec.text());
          ResidentProblem problem(spec, 11, *communicator);
          auto prepared = executor::prepare(cuda_plan(spec, cut, variant), problem.buffers(), *communicator);
          ASSERT_TRUE(prepared.ok()) << prepared.error().text();
          problem.refill_a(12);
          problem.poison();
          prepared.value()->run(RunMode::Fused, executor::RunDetail::Makespan);
          expect_right(problem, spec, cut);
        }
      }
    }
  }
}

TEST_F(CudaBackend, OtherTablesAndBagsMayBeBound) {
  auto communicator = open();
  const Streams streams(2);
  const OpSpec spec = op(OpKind::EmbeddingAllToAll, 64);
  const Cut cut{{20, 12}};
  for (const planner::Variant& variant : tried_variants(spec)) {
    SCOPED_TRACE(variant.text());
    ResidentProblem problem(spec, 3, *communicator);
    auto prepared = executor::prepare(cuda_plan(spec, cut, variant), problem.buffers(), *communicator).value();
    for (const std::int64_t more : {4, 5}) {
      OpSpec longer = spec;
      longer.k += more; // more rows in each bag
      const ResidentProblem other(longer, static_cast<std::uint64_t>(more), *communicator);
      std::vector<RankBuffers> here(problem.host().buffers().begin(), problem.host().buffers().end());
      std::vector<RankBuffers> there(problem.buffers().begin(), problem.buffers().end());
      for (std::size_t rank = 0; rank < here.size(); ++rank) {
        here[rank].b = other.host().buffers()[rank].b;
        here[rank].bags = other.host().buffers()[rank].bags;
        there[rank].b = other.buffers()[rank].b;
        there[rank].bags = other.buffers()[rank].bags;
      }
      ASSERT_NE(here[0].bags.indices.size(), problem.host().buffers()[0].bags.indices.size());
      const auto bound = prepared->rebind(there);
      ASSERT_TRUE(bound.ok()) << bound.error().text();
      for (int i = 0; i < 4; ++i) { // from the third run on it is a graph
        problem.poison();
        ASSERT_TRUE(prepared->enqueue(streams.handles(), executor::Submission::Graph).ok());
        streams.wait();
        problem.fetch_results();
        const auto right = executor::verify_result(spec, here, cut, 1);
        EXPECT_TRUE(right.ok()) << right.error().text();
      }
      ASSERT_TRUE(prepared->rebind(problem.buffers()).ok()); // before the memory of `other` is freed
    }
  }
}

TEST_F(CudaBackend, RanksThatShareADeviceNeedStreamsOfTheirOwn) {
  auto communicator = open();
  const OpSpec spec = op(OpKind::MatmulAllReduce, 128);
  ResidentProblem problem(spec, 3, *communicator);
  const auto plan = cuda_plan(spec, Cut{{64, 64}}, tried_variants(spec).front());
  auto prepared = executor::prepare(plan, problem.buffers(), *communicator).value();
  const std::vector<void*> default_streams(2, nullptr);
  const auto enqueued = prepared->enqueue(default_streams, executor::Submission::Graph);
  if (!communicator->fingerprint().is_shared_device()) { // each device has a default stream
    EXPECT_TRUE(enqueued.ok());
    return expect_right(problem, spec, plan.cut);
  }
  ASSERT_FALSE(enqueued.ok());
  EXPECT_EQ(enqueued.error().field, "streams");
  EXPECT_THAT(enqueued.error().message, ::testing::HasSubstr("ranks 0 and 1 share device 0 and have one stream"));
}

TEST_F(CudaBackend, BagsOfRowsThatTheTableHasNotAreNamed) {
  auto communicator = open();
  const OpSpec spec = op(OpKind::EmbeddingAllToAll, 64);
  const ResidentProblem problem(spec, 3, *communicator);
  std::vector<RankBuffers> buffers(problem.buffers().begin(), problem.buffers().end());
  const std::span<const std::byte> legal = problem.host().buffers()[1].bags.indices;
  const auto indices = communicator->allocate(1, legal.size());
  indices->upload(legal);
  buffers[1].bags.indices = indices->bytes();
  const auto plan = cuda_plan(spec, Cut{{32}}, cuda_backend().variants(spec, {}).front());
  auto prepared = executor::prepare(plan, buffers, *communicator).value();
  prepared->run(RunMode::Fused);

  std::vector<std::byte> changed(legal.begin(), legal.end());
  const std::int64_t beyond = spec.tables->row_count;
  std::memcpy(changed.data(), &beyond, sizeof beyond);
  indices->upload(changed);
  const auto refused = executor::prepare(plan, buffers, *communicator);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), ::testing::HasSubstr("rank 1, table 0, sample "));
  EXPECT_THAT(
      [&] { prepared->run(RunMode::Fused); },
      ::testing::ThrowsMessage<SystemError>(::testing::HasSubstr("rank 1, table 0, sample 0: names row 1000;")));
}

TEST_F(CudaBackend, BagsThatARunMetAreNamedWhateverCameAfter) {
  auto communicator = open();
  const OpSpec spec = op(OpKind::EmbeddingAllToAll, 64);
  const ResidentProblem problem(spec, 3, *communicator);
  const auto plan = cuda_plan(spec, Cut{{32}}, cuda_backend().variants(spec, {}).front());
  auto prepared = executor::prepare(plan, problem.buffers(), *communicator).value();
  std::vector<RankBuffers> buffers(problem.buffers().begin(), problem.buffers().end());
  const auto count = buffers[1].bags.indices.size();
  buffers[1].bags.indices = buffers[1].bags.indices.first(count - 8); // the last bag's offset is now too large
  ASSERT_TRUE(prepared->rebind(buffers).ok());
  const Streams streams(2);
  ASSERT_TRUE(prepared->enqueue(streams.handles(), executor::Submission::Graph).ok());
  ASSERT_TRUE(prepared->rebind(problem.buffers()).ok());
  EXPECT_THAT([&] { prepared->run(RunMode::Fused); },
              ::testing::ThrowsMessage<SystemError>(
                  ::testing::HasSubstr("rank 1, table 3, sample 63: the offsets do not ascend from 0")));
}

// The cut has more blocks than one kernel takes, and the number of thread blocks is odd or even.
TEST_F(CudaBackend, APersistentKernelCarriesAnyNumberOfBlocksOfAnyLength) {
  for_each_world([](Communicator& communicator, int ranks) {
    for (const OpKind kind : {OpKind::MatmulAllReduce, OpKind::MatmulReduceScatter}) {
      OpSpec spec = op(kind, std::int64_t{72} * 32 * 12);
      spec.world_size = ranks;
      const std::int64_t rows = planner::traits_of(kind).cut_axis_length(spec);
      ResidentProblem problem(spec, 9, communicator);
      Cut ragged{{1, 7, rows / 2}};
      ragged.block_rows.push_back(rows - 8 - rows / 2);
      for (const Cut& cut : {Cut{std::vector<std::int64_t>(72, rows / 72)}, ragged}) {
        for (const int ctas : {3, 4, std::min(12, executor::cuda::sm_count() / 2)})
          expect_right_again(problem, spec, cut, {"persistent", {{"ctas", std::to_string(ctas)}}}, communicator);
      }
    }
  });
}

// Some tiles reach beyond C, A or their block; some shapes have one tile and some have many.
TEST_F(CudaBackend, TilesOfEveryShapeAreSummed) {
  struct Shape {
    std::int64_t shard_rows, n, k;
  };
  for_each_world([](Communicator& communicator, int ranks) {
    for (const DType dtype : {DType::Bf16, DType::F16}) {
      for (const Shape& shape : {Shape{1, 8, 8}, Shape{130, 264, 72}, Shape{300, 1000, 200}, Shape{2049, 2304, 64}}) {
        const OpSpec scattered{.kind = OpKind::MatmulReduceScatter,
                               .m = shape.shard_rows * ranks,
                               .n = shape.n,
                               .k = shape.k,
                               .dtype = dtype,
                               .world_size = ranks};
        OpSpec to_all = scattered;
        to_all.kind = OpKind::MatmulAllReduce;
        to_all.m += 65; // not divisible by the number of ranks
        for (const OpSpec& spec : {scattered, to_all}) {
          ResidentProblem problem(spec, 9, communicator);
          const std::int64_t rows = planner::traits_of(spec.kind).cut_axis_length(spec);
          const Cut cut = shape.shard_rows > 100 ? Cut{{rows - 100, 99, 1}} : Cut{{rows}};
          for (const char* tile : {"256x128", "128x128"}) {
            planner::Variant variant{"tile_store", {{"tile", tile}}};
            if (spec.kind == OpKind::MatmulReduceScatter) variant.fields["slices"] = std::to_string(ranks);
            if (auto legal = cuda_backend().check_variant(spec, {}, variant); !legal)
              GTEST_SKIP() << legal.error().text();
            expect_right_again(problem, spec, cut, variant, communicator);
            expect_right(spec, cut, variant, communicator);
          }
        }
      }
    }
  });
}

TEST_F(CudaBackend, TileByTileNeedsAlignedMatrices) {
  auto communicator = open();
  const auto refused = refused_with_shifted_c(op(OpKind::MatmulReduceScatter, 512), {{256}},
                                              {"tile_store", {{"slices", "2"}}}, 8, *communicator);
  if (refused.code == ErrorCode::Unsupported) GTEST_SKIP() << refused.text();
  EXPECT_THAT(refused.text(), ::testing::HasSubstr("rank 1 C is aligned to 8 bytes; tile_store needs 16"));
}

TEST_F(CudaBackend, NcclsWindowsAndCopyEnginesGiveTheDefinition) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsNccl;
  auto communicator = open();
  const auto check = [&](OpKind kind, const planner::Variant& variant) {
    const OpSpec spec = op(kind, 2048);
    SCOPED_TRACE(variant.text() + ", " + spec.text());
    const std::int64_t rows = planner::traits_of(kind).cut_axis_length(spec);
    const Cut cut{{rows / 2, rows / 4, rows / 4}};
    ResidentProblem problem(spec, 5, *communicator);
    auto prepared = executor::prepare(cuda_plan(spec, cut, variant), problem.buffers(), *communicator);
    ASSERT_TRUE(prepared.ok()) << prepared.error().text();
    for (const RunMode mode : {RunMode::Fused, RunMode::Serial}) {
      problem.poison();
      prepared.value()->run(mode, executor::RunDetail::Makespan);
      expect_right(problem, spec, cut);
    }
  };
  for (const OpKind kind : {OpKind::MatmulAllReduce, OpKind::MatmulReduceScatter, OpKind::AllGatherMatmul})
    check(kind, {"nccl_window", {{"ctas", "4"}}});
  check(OpKind::AllGatherMatmul, {"nccl_copy_engine", {}});
  for (const OpKind kind : {OpKind::MatmulAllToAll, OpKind::AllToAllMatmul}) {
    const OpSpec uncut = op(kind, 2048);
    expect_right(uncut, {{1024}}, {"nccl_copy_engine", {}}, *communicator);
    const ResidentProblem exchanged(uncut, 5, *communicator);
    const auto cut =
        executor::prepare(cuda_plan(uncut, {{512, 512}}, {"nccl_copy_engine", {}}), exchanged.buffers(), *communicator);
    ASSERT_FALSE(cut.ok());
    EXPECT_THAT(cut.error().text(), ::testing::HasSubstr("uncut only"));
  }

  const auto refused = refused_with_shifted_c(op(OpKind::MatmulAllReduce, 256), {{256}},
                                              {"nccl_window", {{"ctas", "4"}}}, 256, *communicator);
  EXPECT_THAT(refused.text(), ::testing::HasSubstr("rank 1 C is not aligned to 4096 bytes"));
}

// NCCL remembers buffers by their address for some time after they are freed, so stale entries must do no harm.
TEST_F(CudaBackend, BuffersThatComeAndGoLeaveNoTraceInLaterPlans) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsNccl;
  auto communicator = open();
  for (int round = 0; round < 12; ++round) {
    const OpSpec spec = op(OpKind::AllGatherMatmul, 1024 * (1 + round % 4));
    ResidentProblem problem(spec, static_cast<std::uint64_t>(round), *communicator);
    const Cut cut{{spec.m / 2}};
    auto prepared = executor::prepare(cuda_plan(spec, cut, {"nccl", {}}), problem.buffers(), *communicator).value();
    prepared->run(RunMode::Fused, executor::RunDetail::Makespan);
    problem.fetch_results();
    const auto right = executor::verify_result(spec, problem.host().buffers(), cut, 1);
    EXPECT_TRUE(right.ok()) << "round " << round << ": " << right.error().text();
  }
}

/// Expects that a run which outlasts its deadline names a rank, and that the next run is refused because of it.
void expect_deadline_error(const planner::Variant& variant) {
  SCOPED_TRACE(variant.text());
  CommunicatorOptions options;
  options.deadline = std::chrono::milliseconds{1}; // the matmuls below take tens of ms
  const std::int64_t m = are_gpus_simulated() ? 512 : 8192;
  auto communicator = cuda_backend().open(options).value();
  const OpSpec spec{.kind = OpKind::MatmulAllReduce, .m = m, .n = 2 * m, .k = m, .dtype = DType::F32, .world_size = 2};
  std::vector<std::unique_ptr<executor::RankMemory>> memory;
  std::vector<RankBuffers> buffers;
  for (int rank = 0; rank < 2; ++rank) {
    const auto shapes = executor::operand_shapes(spec);
    for (const auto& shape : {shapes.a, shapes.b, shapes.c})
      memory.push_back(communicator->allocate(rank, static_cast<std::size_t>(shape.element_count()) * sizeof(float)));
    const auto last = memory.end();
    buffers.push_back({(*(last - 3))->bytes(), (*(last - 2))->bytes(), (*(last - 1))->bytes()});
  }
  auto prepared = executor::prepare(cuda_plan(spec, {{m}}, variant), buffers, *communicator).value();
  const auto message_of = [&] {
    try {
      prepared->run(RunMode::Fused, executor::RunDetail::Makespan);
    } catch (const SystemError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message_of(), ::testing::HasSubstr("rank "));
  EXPECT_THAT(message_of(), ::testing::HasSubstr("earlier failure"));
}

TEST_F(CudaBackend, ARunThatOutlastsItsDeadlineNamesTheRankAndEndsTheCommunicator) {
  expect_deadline_error({"direct", {{"ctas", "8"}}});
  if (!do_ranks_share_a_device()) expect_deadline_error({"nccl", {}});
}

TEST_F(CudaBackend, RefusesWhatItCannotRunNamingWhatWasFoundAndWhatIsNeeded) {
  const OpSpec many = {
      .kind = OpKind::MatmulAllReduce, .m = 64, .n = 64, .k = 64, .dtype = DType::Bf16, .world_size = 9};
  EXPECT_THAT(cuda_backend().supports(many).error().text(), ::testing::HasSubstr("legal on the cuda backend: 2 to 8"));
  OpSpec integers = op(OpKind::MatmulAllReduce, 64);
  integers.dtype = DType::I8;
  EXPECT_THAT(cuda_backend().supports(integers).error().text(), ::testing::HasSubstr("does not run i8"));
  const OpSpec huge = {
      // C alone takes 512 GiB
      .kind = OpKind::MatmulAllReduce, .m = 1 << 20, .n = 1 << 18, .k = 64, .dtype = DType::Bf16, .world_size = 2};
  EXPECT_THAT(cuda_backend().supports(huge).error().text(),
              ::testing::HasSubstr("of device memory and its device has"));
  const OpSpec eight = {
      .kind = OpKind::MatmulAllReduce, .m = 64, .n = 64, .k = 64, .dtype = DType::Bf16, .world_size = 8};
  if (const auto found = cuda_backend().supports(eight); !found && !do_ranks_share_a_device()) {
    EXPECT_THAT(found.error().text(), ::testing::HasSubstr("8 ranks need as many CUDA devices"));
  }
  CommunicatorOptions emulated;
  emulated.link = executor::parse_link("1Gbit").value();
  EXPECT_THAT(cuda_backend().open(emulated).error().text(), ::testing::HasSubstr("emulates none"));

  auto communicator = open();
  const OpSpec spec = op(OpKind::MatmulAllReduce, 256);
  const RandomProblem on_host(spec, 1);
  const auto in_host_memory =
      executor::prepare(cuda_plan(spec, {{256}}, {"direct", {{"ctas", "8"}}}), on_host.buffers(), *communicator);
  ASSERT_FALSE(in_host_memory.ok());
  EXPECT_THAT(in_host_memory.error().text(), ::testing::HasSubstr("rank 0 A is in host memory"));

  const ResidentProblem problem(spec, 1, *communicator);
  const planner::Variant direct{"direct", {{"ctas", "8"}}};
  if (!do_ranks_share_a_device()) {
    std::vector<RankBuffers> swapped(problem.buffers().begin(), problem.buffers().end());
    std::swap(swapped[0], swapped[1]);
    EXPECT_THAT(executor::prepare(cuda_plan(spec, {{256}}, direct), swapped, *communicator).error().text(),
                ::testing::HasSubstr("rank 0 A is in device 1"));
  }
  const auto larger = communicator->allocate(0, problem.buffers()[0].c.size() + 1);
  std::vector<RankBuffers> odd(problem.buffers().begin(), problem.buffers().end());
  odd[0].c = larger->bytes().subspan(1);
  EXPECT_THAT(executor::prepare(cuda_plan(spec, {{256}}, direct), odd, *communicator).error().text(),
              ::testing::HasSubstr("not aligned to its 2-byte elements"));
  OpSpec gathering = op(OpKind::AllGatherMatmul, 256);
  gathering.epilogue.has_bias = true;
  const ResidentProblem with_bias(gathering, 1, *communicator);
  std::vector<RankBuffers> shifted(with_bias.buffers().begin(), with_bias.buffers().end());
  const auto odd_bias = communicator->allocate(0, shifted[0].bias.size() + 2);
  shifted[0].bias = odd_bias->bytes().subspan(2);
  EXPECT_THAT(executor::prepare(cuda_plan(gathering, {{128}}, direct), shifted, *communicator).error().text(),
              ::testing::HasSubstr("rank 0 bias is aligned to 2 bytes; cuBLASLt needs 16"));
  const auto refuse = [&](const planner::Variant& variant, const std::string& text) {
    const auto refused = executor::prepare(cuda_plan(spec, {{256}}, variant), problem.buffers(), *communicator);
    ASSERT_FALSE(refused.ok()) << variant.text();
    EXPECT_THAT(refused.error().text(), ::testing::HasSubstr(text));
  };
  refuse({"copy_engine", {}}, "has no variant \"copy_engine\"");
  refuse({"direct", {}}, "it is missing");
  refuse({"persistent", {}}, "it is missing");
  refuse({"nccl_window", {}}, "it is missing");
  refuse({"nccl_copy_engine", {}}, "has no variant \"nccl_copy_engine\"");
  refuse({"direct", {{"ctas", "many"}}}, "not \"many\"");
  refuse({"direct", {{"ctas", "0"}}}, "from 1 to");
  refuse({"direct", {{"ctas", "8"}, {"gemm_sms", "100000"}}}, "gemm_sms");
  refuse({"direct", {{"ctas", "8"}, {"tile", "100x100"}}}, "there is no tile \"100x100\"; legal: ");

  const OpSpec scattered = op(OpKind::MatmulReduceScatter, 256);
  const ResidentProblem shards(scattered, 1, *communicator);
  for (const char* slices : {"1", "3", "two"}) {
    const auto refused = executor::prepare(cuda_plan(scattered, {{128}}, {"copy_engine", {{"slices", slices}}}),
                                           shards.buffers(), *communicator);
    ASSERT_FALSE(refused.ok()) << slices;
    EXPECT_THAT(refused.error().text(), ::testing::HasSubstr("slices=2"));
  }
}

} // namespace
} // namespace mc2::testing
