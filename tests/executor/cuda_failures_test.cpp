// Tests which failures a communicator survives, and how it ends after the others.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "backends/cuda/cuda_backend.hpp"
#include "executor/cuda_plan.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/resident_problem.hpp"
#include "mc2/executor/verify.hpp"
#include "support/gpus.hpp"

namespace mc2::testing {
namespace {

using executor::Communicator;
using executor::ResidentProblem;
using executor::RunMode;
using executor::Submission;
using executor::cuda::cuda_backend;
using planner::Cut;
using planner::OpKind;
using planner::OpSpec;
using ::testing::HasSubstr;

constexpr int kRanks = 2;

OpSpec op_of(OpKind kind) {
  return {.kind = kind, .m = 512, .n = 256, .k = 128, .dtype = planner::DType::Bf16, .world_size = kRanks};
}

class CudaFailures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto found = cuda_backend().availability(); !found.is_available) GTEST_SKIP() << found.reason;
    open(std::chrono::seconds{60});
  }

  void open(std::chrono::milliseconds deadline) {
    executor::CommunicatorOptions options;
    options.deadline = deadline;
    communicator_ = cuda_backend().open(options).value();
  }

  static Cut halves(const OpSpec& op) {
    const std::int64_t rows = planner::traits_of(op.kind).cut_axis_length(op);
    return {{rows / 2, rows / 2}};
  }

  void expect_right(executor::Prepared& prepared, ResidentProblem& resident, const OpSpec& op) {
    resident.poison();
    (void)prepared.run(RunMode::Fused);
    resident.fetch_results();
    const auto right = executor::verify_result(op, resident.host().buffers(), halves(op), 1);
    EXPECT_TRUE(right.ok()) << right.error().text();
  }

  std::unique_ptr<Communicator> communicator_;
};

TEST_F(CudaFailures, WhatADeviceRefusesWhilePreparingEndsNoOtherPlan) {
  const auto fail = simulated::fault_injection();
  if (fail == nullptr) GTEST_SKIP() << "real GPUs fail when they will";
  const OpSpec kept_op = op_of(OpKind::MatmulAllReduce);
  ResidentProblem kept_problem(kept_op, 1, *communicator_);
  const auto kept = executor::prepare(cuda_plan(kept_op, halves(kept_op), {"direct", {{"ctas", "8"}}}),
                                      kept_problem.buffers(), *communicator_)
                        .value();
  int refused_count = 0;
  for (const OpKind kind : {OpKind::MatmulReduceScatter, OpKind::AllGatherMatmul}) {
    const OpSpec op = op_of(kind);
    for (const planner::Variant& variant : tried_variants(op)) {
      if (variant.name.starts_with("nccl")) continue; // its ranks wait for one another while preparing
      for (const char* call :
           {"ncclMemAlloc", "cublasLtMatmulAlgoGetHeuristic", "cudaEventCreateWithFlags", "cudaStreamBeginCapture",
            "cudaEventRecordWithFlags", "cudaLaunchKernelExC", "cudaGraphInstantiate"}) {
        for (const int calls_before : {0, 1, 5}) {
          SCOPED_TRACE(op.text() + ", " + variant.text() + ", " + call + " after " + std::to_string(calls_before));
          ResidentProblem resident(op, 2, *communicator_);
          fail(call, 1, calls_before, cudaErrorMemoryAllocation);
          const auto refused =
              executor::prepare(cuda_plan(op, halves(op), variant), resident.buffers(), *communicator_);
          fail(call, 1, 1 << 30, cudaErrorMemoryAllocation); // clears the fault
          if (!refused.ok()) {
            EXPECT_EQ(refused.error().code, ErrorCode::Unsupported) << refused.error().text();
            EXPECT_THAT(refused.error().text(), HasSubstr("rank 1"));
            EXPECT_THAT(refused.error().text(), HasSubstr("failed"));
            ++refused_count;
          }
          auto again = executor::prepare(cuda_plan(op, halves(op), variant), resident.buffers(), *communicator_);
          ASSERT_TRUE(again.ok()) << again.error().text();
          expect_right(*again.value(), resident, op);
        }
      }
    }
  }
  EXPECT_GT(refused_count, 20);
  expect_right(*kept, kept_problem, kept_op);
}

TEST_F(CudaFailures, AStreamOfAnotherDeviceThatIsCapturedIsRefusedAndEndsNothing) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsTwoDevices;
  const OpSpec op = op_of(OpKind::MatmulAllReduce);
  ResidentProblem resident(op, 1, *communicator_);
  const auto prepared =
      executor::prepare(cuda_plan(op, halves(op), {"direct", {{"ctas", "8"}}}), resident.buffers(), *communicator_)
          .value();
  cudaStream_t streams[kRanks] = {};
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(streams[rank], cudaStreamCaptureModeRelaxed), cudaSuccess);
  }
  void* const swapped[] = {streams[1], streams[0]};
  EXPECT_THAT(prepared->enqueue(swapped, Submission::Graph).error().text(),
              HasSubstr("rank 0's is being captured and is not of device 0"));
  for (cudaStream_t stream : streams) {
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  (void)cudaGetLastError();
  expect_right(*prepared, resident, op);
}

TEST_F(CudaFailures, MatricesThatPeersMayNotReachAreRefusedWhereTheyDo) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsTwoDevices;
  const OpSpec op = op_of(OpKind::AllGatherMatmul);
  ResidentProblem resident(op, 1, *communicator_);
  std::vector<executor::RankBuffers> buffers(resident.buffers().begin(), resident.buffers().end());
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  void* pooled = nullptr;
  ASSERT_EQ(cudaMallocAsync(&pooled, buffers[1].a.size(), nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  buffers[1].a = {static_cast<std::byte*>(pooled), buffers[1].a.size()};
  const auto refused =
      executor::prepare(cuda_plan(op, halves(op), {"direct", {{"ctas", "8"}}}), buffers, *communicator_);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("rank 1 A is memory that device 0 may not reach"));
  // NCCL copies such memory itself.
  EXPECT_TRUE(executor::prepare(cuda_plan(op, halves(op), {"nccl", {}}), buffers, *communicator_).ok());
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaFree(pooled), cudaSuccess);
}

TEST_F(CudaFailures, PlansAreMadeAndGoWhileOthersRunOrAreToldSo) {
  const OpSpec op = op_of(OpKind::MatmulAllReduce);
  ResidentProblem resident(op, 1, *communicator_), others(op, 2, *communicator_);
  const auto plan = cuda_plan(op, halves(op), {"direct", {{"ctas", "8"}}});
  const auto prepared = executor::prepare(plan, resident.buffers(), *communicator_).value();
  std::atomic<int> busy_count = 0, done_count = 0;
  const auto often = [&](const auto& work) {
    for (int i = 0; i < 100; ++i) {
      try {
        work();
        ++done_count;
      } catch (const SystemError& error) {
        EXPECT_EQ(error.native_code(), EBUSY) << error.what();
        ++busy_count;
      }
    }
  };
  {
    std::jthread other(
        [&] { often([&] { EXPECT_TRUE(executor::prepare(plan, others.buffers(), *communicator_).ok()); }); });
    often([&] { (void)prepared->run(RunMode::Fused); });
  }
  EXPECT_EQ(busy_count + done_count, 200);
  EXPECT_GT(done_count, 0);
  expect_right(*prepared, resident, op);
}

// A program may end while its own graphs still hold NCCL's operations. Closing the communicator then warns instead of
// waiting for ever.
TEST_F(CudaFailures, AGraphThatHoldsNcclDoesNotHoldUpClosing) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsNccl;
  open(std::chrono::seconds{2});
  const OpSpec op = op_of(OpKind::MatmulReduceScatter);
  auto resident = std::make_unique<ResidentProblem>(op, 1, *communicator_);
  auto prepared =
      executor::prepare(cuda_plan(op, halves(op), {"nccl", {}}), resident->buffers(), *communicator_).value();
  cudaStream_t streams[kRanks] = {};
  cudaGraph_t graphs[kRanks] = {};
  void* handles[kRanks] = {};
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(streams[rank], cudaStreamCaptureModeRelaxed), cudaSuccess);
    handles[rank] = streams[rank];
  }
  ASSERT_TRUE(prepared->enqueue(handles, Submission::Graph).ok());
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_EQ(cudaStreamEndCapture(streams[rank], &graphs[rank]), cudaSuccess);
  cudaGraphExec_t executables[kRanks] = {};
  for (int rank = 0; rank < kRanks; ++rank)
    ASSERT_EQ(cudaGraphInstantiate(&executables[rank], graphs[rank], 0), cudaSuccess);
  prepared.reset();
  resident.reset();
  ::testing::internal::CaptureStderr();
  communicator_.reset();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("destroy it before its communicator is closed"));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(cudaGraphExecDestroy(executables[rank]), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graphs[rank]), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(streams[rank]), cudaSuccess);
  }
}

} // namespace
} // namespace mc2::testing
