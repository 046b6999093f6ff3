// Tests plans on the caller's streams: a run sees the effects of work that was enqueued before it, and work that is
// enqueued after it sees its results.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "executor/cuda_plan.hpp"
#include "executor/cuda_streams.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/resident_problem.hpp"
#include "mc2/executor/verify.hpp"
#include "row_splits.hpp"
#include "support/counts.hpp"
#include "support/gpus.hpp"

namespace mc2::testing {
namespace {

using executor::Communicator;
using executor::Prepared;
using executor::ResidentProblem;
using executor::Submission;
using executor::cuda::cuda_backend;
using planner::Cut;
using planner::OpKind;
using planner::OpSpec;

constexpr int kRanks = 2;

class CudaStream : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto found = cuda_backend().availability(); !found.is_available) GTEST_SKIP() << found.reason;
    communicator_ = cuda_backend().open({}).value();
  }

  /// Enqueues a copy of A from the host, a run, a copy of C to the host, and all of it again with another A, without
  /// waiting in between; then compares both results with the oracle.
  void run_twice_in_a_row(const OpSpec& op, const Cut& cut, const planner::Variant& variant, Submission submission) {
    SCOPED_TRACE(op.text() + ", " + variant.text() + (submission == Submission::Graph ? ", graph" : ", eager"));
    ResidentProblem resident(op, 1, *communicator_);
    resident.poison();
    auto prepared = executor::prepare(cuda_plan(op, cut, variant), resident.buffers(), *communicator_).value();
    executor::RandomProblem problems[] = {{op, 1}, {op, 1}};
    problems[1].refill_a(77);
    const Streams streams(kRanks);
    for (executor::RandomProblem& problem : problems) {
      copy(resident, problem, streams, cudaMemcpyHostToDevice);
      const auto enqueued = prepared->enqueue(streams.handles(), submission);
      ASSERT_TRUE(enqueued.ok()) << enqueued.error().text();
      copy(resident, problem, streams, cudaMemcpyDeviceToHost);
    }
    streams.wait();
    for (const executor::RandomProblem& problem : problems) {
      const auto right = executor::verify_result(op, problem.buffers(), cut, 1);
      EXPECT_TRUE(right.ok()) << right.error().text();
    }
  }

  static void copy(const ResidentProblem& resident, const executor::RandomProblem& problem, const Streams& streams,
                   cudaMemcpyKind direction) {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const executor::RankBuffers& there = resident.buffers()[rank];
      const executor::RankBuffers& here = problem.buffers()[rank];
      const bool is_upload = direction == cudaMemcpyHostToDevice;
      void* to = is_upload ? const_cast<std::byte*>(there.a.data()) : here.c.data();
      const void* from = is_upload ? here.a.data() : there.c.data();
      const std::size_t size = is_upload ? here.a.size() : here.c.size();
      ASSERT_EQ(cudaMemcpyAsync(to, from, size, direction, streams.of(rank)), cudaSuccess);
    }
  }

  std::unique_ptr<Communicator> communicator_;
};

TEST_F(CudaStream, KeepsTheOrderOfWhatIsEnqueuedBeforeAndAfterAPlan) {
  for (const auto& traits : planner::op_registry()) {
    const OpSpec op{
        .kind = traits.kind, .m = 1024, .n = 512, .k = 256, .dtype = planner::DType::Bf16, .world_size = kRanks};
    if (!cuda_backend().supports(op)) continue;
    const std::int64_t rows = traits.cut_axis_length(op);
    for (const planner::Variant& variant : tried_variants(op)) {
      for (const Submission submission : {Submission::Graph, Submission::Eager})
        run_twice_in_a_row(op, {{rows / 2, rows / 4, rows / 4}}, variant, submission);
    }
  }
}

// The counts are copied on the stream, as a router's kernels write them, without waiting between runs. Runs use two
// sets of buffers in turn.
TEST_F(CudaStream, CountsOnTheDevicesMayDifferInEveryRun) {
  std::mt19937 random(5);
  for (const OpKind kind : {OpKind::AllToAllMatmul, OpKind::MatmulAllToAll}) {
    OpSpec op{.kind = kind, .m = 512, .n = 136, .k = 64, .dtype = planner::DType::Bf16, .world_size = kRanks};
    op.experts_per_rank = 4;
    op.epilogue.has_residual = kind == OpKind::AllToAllMatmul;
    const executor::RandomProblem whole(op, 3);
    std::vector<std::unique_ptr<executor::RankMemory>> memory;
    const auto take = [&](int rank, std::span<const std::byte> from) {
      memory.push_back(communicator_->allocate(rank, from.size()));
      memory.back()->upload(from);
      return memory.back()->bytes();
    };
    const std::vector<std::int64_t> none(executor::count_count(op));
    std::vector<executor::RankBuffers> places[2];
    for (int rank = 0; rank < kRanks; ++rank) {
      const executor::RankBuffers& own = whole.buffers()[static_cast<std::size_t>(rank)];
      executor::RankBuffers there;
      there.a = take(rank, own.a);
      there.b = take(rank, own.b);
      there.c = take(rank, own.c);
      if (op.epilogue.has_residual) there.residual = take(rank, own.residual);
      for (auto& place : places) {
        there.device_send_counts = take(rank, std::as_bytes(std::span(none)));
        place.push_back(there);
      }
    }
    const Cut cut{{64, 128, 64}};
    auto prepared =
        executor::prepare(cuda_plan(op, cut, {"direct", {{"ctas", "8"}}}), places[0], *communicator_).value();
    const Streams streams(kRanks);
    std::vector<executor::RandomProblem> problems;
    for (int turn = 0; turn < 12; ++turn) {
      const auto routing = turn % 3 == 0 ? Routing::OneTakesAll : Routing::Random;
      const auto counts = expert_counts(routing, op, random);
      problems.emplace_back(op, 3, executor::ProblemExtras{.counts = counts});
    }
    for (std::size_t turn = 0; turn < problems.size(); ++turn) {
      const auto& place = places[turn / 2 % 2];
      ASSERT_TRUE(prepared->rebind(place).ok());
      const auto copy = [&](std::size_t rank, const void* from, const void* to, std::size_t size) {
        ASSERT_EQ(cudaMemcpyAsync(const_cast<void*>(to), from, size, cudaMemcpyDefault, streams.of(rank)), cudaSuccess);
      };
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        const executor::RankBuffers& here = problems[turn].buffers()[rank];
        copy(rank, here.a.data(), place[rank].a.data(), here.a.size());
        copy(rank, here.residual.data(), place[rank].residual.data(), here.residual.size());
        copy(rank, here.send_counts.data(), place[rank].device_send_counts.data(), here.send_counts.size_bytes());
      }
      ASSERT_TRUE(prepared->enqueue(streams.handles(), turn % 4 == 3 ? Submission::Eager : Submission::Graph).ok());
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        const executor::RankBuffers& here = problems[turn].buffers()[rank];
        copy(rank, place[rank].c.data(), here.c.data(), here.c.size());
      }
    }
    streams.wait();
    for (const executor::RandomProblem& problem : problems) {
      const auto right = executor::verify_result(op, problem.buffers(), cut, 1);
      EXPECT_TRUE(right.ok()) << right.error().text();
    }
    // The call after a run with an illegal count reports it.
    const std::vector<std::int64_t> illegal(none.size(), -5);
    ASSERT_EQ(cudaMemcpy(const_cast<std::byte*>(places[0][1].device_send_counts.data()), illegal.data(),
                         illegal.size() * sizeof illegal[0], cudaMemcpyDefault),
              cudaSuccess);
    ASSERT_TRUE(prepared->rebind(places[0]).ok());
    ASSERT_TRUE(prepared->enqueue(streams.handles(), Submission::Graph).ok());
    streams.wait();
    EXPECT_THAT([&] { (void)prepared->enqueue(streams.handles(), Submission::Graph); },
                ::testing::ThrowsMessage<SystemError>(::testing::HasSubstr("rank 1 sends rank 0 -5 rows of expert 0")));
    prepared.reset();
    memory.clear();
    communicator_ = cuda_backend().open({}).value();
  }
}

// 70 blocks are more than one kernel carries.
TEST_F(CudaStream, TakesPlansOfManyBlocks) {
  constexpr std::int64_t kBlocks = 70;
  const OpSpec op{.kind = OpKind::MatmulAllReduce,
                  .m = 64 * kBlocks,
                  .n = 256,
                  .k = 64,
                  .dtype = planner::DType::Bf16,
                  .world_size = kRanks};
  const Cut cut{std::vector<std::int64_t>(kBlocks, 64)};
  const int most_ctas = executor::cuda::sm_count() - 4; // fewer than 8 where eight ranks share a device
  for (const int ctas : {4, std::min(8, most_ctas)}) {
    for (const Submission submission : {Submission::Graph, Submission::Eager})
      run_twice_in_a_row(op, cut, persistent(ctas), submission);
  }
}

// A plan must wait for its runs when it is destroyed, because the next plan reuses its memory.
TEST_F(CudaStream, APlanThatGoesWaitsForItsRuns) {
  const std::int64_t m = are_gpus_simulated() ? 512 : 4096;
  const OpSpec op{
      .kind = OpKind::MatmulAllReduce, .m = m, .n = m, .k = m, .dtype = planner::DType::Bf16, .world_size = kRanks};
  const Cut cut{{m / 2, m / 2}};
  ResidentProblem resident(op, 1, *communicator_);
  const planner::Plan plan = cuda_plan(op, cut, persistent(4));
  const Streams streams(kRanks);
  auto prepared = executor::prepare(plan, resident.buffers(), *communicator_).value();
  for (int run = 0; run < 20; ++run) ASSERT_TRUE(prepared->enqueue(streams.handles(), Submission::Graph).ok());
  prepared.reset();
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(cudaStreamQuery(streams.of(rank)), cudaSuccess) << "rank " << rank;
}

// Ranks may start the caller's all-reduce and the plan in different orders; neither may block the other.
TEST_F(CudaStream, RunsBesideTheCallersCollectives) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsNccl;
  const std::size_t element_count = are_gpus_simulated() ? 16U << 10U : 16U << 20U;
  const std::int64_t m = are_gpus_simulated() ? 256 : 4096;
  ncclComm_t opened[kRanks] = {};
  ASSERT_EQ(ncclCommInitAll(opened, kRanks, nullptr), ncclSuccess);
  const OpSpec op{.kind = OpKind::MatmulReduceScatter,
                  .m = m,
                  .n = 2048,
                  .k = 1024,
                  .dtype = planner::DType::Bf16,
                  .world_size = kRanks};
  const Cut cut{{op.m / kRanks}};
  ResidentProblem resident(op, 1, *communicator_);
  const Streams streams(kRanks), others(kRanks);
  std::vector<void*> summed(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&summed[static_cast<std::size_t>(rank)], element_count * sizeof(float)), cudaSuccess);
  }
  for (const planner::Variant& variant : tried_variants(op)) {
    if (variant.name.starts_with("nccl")) continue; // communicators of NCCL need one order on all ranks
    SCOPED_TRACE(variant.text());
    resident.poison();
    auto prepared = executor::prepare(cuda_plan(op, cut, variant), resident.buffers(), *communicator_).value();
    for (int run = 0; run < 20; ++run) {
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      for (std::size_t rank = 0; rank < kRanks; ++rank)
        ASSERT_EQ(
            ncclAllReduce(summed[rank], summed[rank], element_count, ncclFloat, ncclSum, opened[rank], others.of(rank)),
            ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
      ASSERT_TRUE(prepared->enqueue(streams.handles(), Submission::Graph).ok());
    }
    streams.wait();
    others.wait();
    resident.fetch_results();
    const auto right = executor::verify_result(op, resident.host().buffers(), cut, 1);
    EXPECT_TRUE(right.ok()) << right.error().text();
  }
  for (void* memory : summed) EXPECT_EQ(cudaFree(memory), cudaSuccess);
  for (ncclComm_t communicator : opened) EXPECT_EQ(ncclCommDestroy(communicator), ncclSuccess);
}

TEST_F(CudaStream, AllAreCapturedOrNone) {
  const OpSpec op{.kind = OpKind::MatmulAllReduce,
                  .m = 1024,
                  .n = 512,
                  .k = 256,
                  .dtype = planner::DType::Bf16,
                  .world_size = kRanks};
  ResidentProblem resident(op, 1, *communicator_);
  const auto prepared =
      executor::prepare(cuda_plan(op, Cut{{op.m}}, {"direct", {{"ctas", "8"}}}), resident.buffers(), *communicator_)
          .value();
  const Streams streams(kRanks);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(streams.of(0), cudaStreamCaptureModeRelaxed), cudaSuccess);
  const auto enqueued = prepared->enqueue(streams.handles(), Submission::Graph);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams.of(0), &graph), cudaSuccess);
  if (graph != nullptr) {
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  ASSERT_FALSE(enqueued.ok());
  EXPECT_EQ(enqueued.error().text(),
            "streams: rank 0's is being captured and rank 1's is not; capture all of them, or none");
}

TEST_F(CudaStream, ASecondThreadOnACommunicatorIsToldSo) {
  const OpSpec op{.kind = OpKind::MatmulAllReduce,
                  .m = 1024,
                  .n = 512,
                  .k = 256,
                  .dtype = planner::DType::Bf16,
                  .world_size = kRanks};
  ResidentProblem resident(op, 1, *communicator_);
  const auto plan = cuda_plan(op, Cut{{op.m}}, cuda_backend().variants(op, {}).front());
  const auto prepared = executor::prepare(plan, resident.buffers(), *communicator_).value();
  const Streams streams(kRanks);
  std::atomic<int> enqueued_count = 0, busy_count = 0;
  const auto enqueue_often = [&] {
    for (int i = 0; i < 500; ++i) {
      try {
        enqueued_count += prepared->enqueue(streams.handles(), Submission::Graph).ok();
      } catch (const SystemError& error) {
        busy_count += error.native_code() == EBUSY;
      }
    }
  };
  {
    std::jthread other(enqueue_often);
    enqueue_often();
  }
  streams.wait();
  EXPECT_EQ(enqueued_count + busy_count, 1000);
  EXPECT_GT(enqueued_count, 0);
}

TEST_F(CudaStream, OfAnotherDeviceOrOfTooFewRanksIsRefused) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsTwoDevices;
  const OpSpec op{.kind = OpKind::MatmulAllReduce,
                  .m = 256,
                  .n = 256,
                  .k = 256,
                  .dtype = planner::DType::Bf16,
                  .world_size = kRanks};
  ResidentProblem resident(op, 1, *communicator_);
  auto prepared =
      executor::prepare(cuda_plan(op, {{256}}, {"direct", {{"ctas", "8"}}}), resident.buffers(), *communicator_)
          .value();
  const Streams streams(kRanks);
  void* const swapped[] = {streams.of(1), streams.of(0)};
  EXPECT_THAT(prepared->enqueue(swapped, Submission::Graph).error().text(),
              ::testing::HasSubstr("stream of rank 0 is of device 1"));
  EXPECT_THAT(prepared->enqueue(streams.handles().first(1), Submission::Graph).error().text(),
              ::testing::HasSubstr("1 streams for 2 ranks"));
  void* const of_threads[] = {cudaStreamPerThread, cudaStreamPerThread};
  EXPECT_THAT(prepared->enqueue(of_threads, Submission::Graph).error().text(),
              ::testing::HasSubstr("rank 0 is cudaStreamPerThread"));
}

TEST_F(CudaStream, TheCallersNcclCommunicatorsCarryAPlanAndStayTheCallers) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsNccl;
  ncclComm_t opened[kRanks] = {};
  ASSERT_EQ(ncclCommInitAll(opened, kRanks, nullptr), ncclSuccess);
  executor::CommunicatorOptions options;
  options.native_communicators = {opened[1], opened[0]};
  EXPECT_THAT(cuda_backend().open(options).error().text(), ::testing::HasSubstr("is of rank 1 of 2 on device 1"));
  options.native_communicators = {opened[0]};
  EXPECT_THAT(cuda_backend().open(options).error().text(), ::testing::HasSubstr("1 communicators for 2 ranks"));
  options.native_communicators = {opened[0], opened[1]};
  communicator_ = cuda_backend().open(options).value();
  const OpSpec op{.kind = OpKind::MatmulAllReduce,
                  .m = 512,
                  .n = 256,
                  .k = 256,
                  .dtype = planner::DType::Bf16,
                  .world_size = kRanks};
  for (const Submission submission : {Submission::Graph, Submission::Eager})
    run_twice_in_a_row(op, {{256, 256}}, {"nccl", {}}, submission);
  communicator_.reset();
  for (ncclComm_t communicator : opened) {
    int count = 0;
    EXPECT_EQ(ncclCommCount(communicator, &count), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(communicator), ncclSuccess);
  }
}

} // namespace
} // namespace mc2::testing
