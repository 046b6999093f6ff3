// Runs plans with one process per GPU. The process that runs the tests never opens a device, so that it can fork the
// processes that do.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>

#include "backends/cuda/cuda_backend.hpp"
#include "executor/cuda_plan.hpp"
#include "executor/transposed.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/verify.hpp"
#include "process_group.hpp"
#include "support/counts.hpp"
#include "support/forked.hpp"
#include "support/free_port.hpp"
#include "support/gpus.hpp"
#include "support/oracle.hpp"

namespace mc2::testing {
namespace {

using executor::Communicator;
using executor::Prepared;
using executor::ProcessGroup;
using executor::RankBuffers;
using executor::RunMode;
using executor::Submission;
using executor::cuda::cuda_backend;
using planner::Cut;
using planner::DType;
using planner::OpKind;
using planner::OpSpec;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr int kRanks = 2;
constexpr int kKilled = 128 + SIGKILL;

std::string key(const char* name) { return std::string(name) + " " + std::to_string(getppid()); }

executor::CommunicatorOptions options(int rank, const char* name) {
  executor::CommunicatorOptions chosen;
  chosen.world_size = kRanks;
  chosen.deadline = std::chrono::seconds{30};
  chosen.process = executor::ProcessPlace{rank, key(name)};
  return chosen;
}

/// Options of a rank that pretends to be on a host of its own: ranks meet by TCP and reach one another's memory only
/// through NCCL. Devices are numbered in the opposite order of the ranks.
executor::CommunicatorOptions options_of_hosts(int rank, const char* name, int port) {
  executor::CommunicatorOptions chosen = options(rank, name);
  chosen.process->address = "127.0.0.1:" + std::to_string(port);
  chosen.process->local_rank = kRanks - 1 - rank;
  chosen.process->local_size = kRanks;
  return chosen;
}

/// A group over which the test's own processes exchange results.
std::unique_ptr<ProcessGroup> result_group(int rank, const char* name) {
  return executor::open_process_group({rank, key(name)}, kRanks, std::chrono::seconds{60});
}

/// cuda_plan() for the machine of this communicator.
planner::Plan plan_on(const Communicator& communicator, const OpSpec& op, const Cut& cut,
                      const planner::Variant& variant) {
  planner::Plan plan = cuda_plan(op, cut, variant);
  plan.fingerprint = communicator.fingerprint();
  return plan;
}

OpSpec op_of(OpKind kind, std::int64_t m = 1024) {
  return {.kind = kind, .m = m, .n = 512, .k = 256, .dtype = DType::Bf16, .world_size = kRanks};
}

/// The rows of problems that run in every way; fewer on simulated GPUs.
std::int64_t many_times_m() { return are_gpus_simulated() ? 520 : 1024; }

/// One rank's part of a problem, in memory of its device that this program allocated.
class RankProblem {
 public:
  RankProblem(const OpSpec& op, int rank, bool is_b_transposed = false, std::span<const std::int64_t> counts = {})
      : host_(op, 7, counts.empty() ? with_gathered_a(op) : executor::ProblemExtras{.counts = counts}),
        rank_(static_cast<std::size_t>(rank)),
        is_b_transposed_(is_b_transposed) {
    const RankBuffers& own = host_.buffers()[rank_];
    const Matrices here = matrices_of(own);
    for (std::size_t i = 0; i < here.size(); ++i) {
      void* memory = nullptr;
      if (cudaMalloc(&memory, here[i].size() + kOffset) != cudaSuccess) std::abort();
      memory_.push_back(memory);
      places_.push_back(static_cast<std::byte*>(memory) + kOffset);
      upload(i, here[i]);
    }
    if (!is_b_transposed) return;
    const std::size_t expert_bytes = own.b.size() / static_cast<std::size_t>(op.experts_per_rank);
    std::vector<std::byte> all;
    for (std::size_t first = 0; first < own.b.size(); first += expert_bytes)
      std::ranges::copy(transposed(own.b.subspan(first, expert_bytes), op.k, op.n), std::back_inserter(all));
    upload(1, all);
  }
  /// Moves every matrix that peers do not reach to other memory, with its contents.
  void move(const executor::PeerReach& reach) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const std::size_t size = matrices_of(host_.buffers()[rank_])[i].size();
      if ((i == 0 && reach.a) || (i == 2 && reach.c) || size == 0) continue;
      void* memory = nullptr;
      if (cudaMalloc(&memory, size) != cudaSuccess) std::abort();
      if (cudaMemcpy(memory, places_[i], size, cudaMemcpyDeviceToDevice) != cudaSuccess) std::abort();
      if (cudaMemset(places_[i], 0xFF, size) != cudaSuccess) std::abort(); // shows who still uses it
      memory_.push_back(memory);
      places_[i] = static_cast<std::byte*>(memory);
    }
  }
  ~RankProblem() {
    for (void* memory : memory_) (void)cudaFree(memory);
  }
  RankProblem(const RankProblem&) = delete;
  RankProblem& operator=(const RankProblem&) = delete;

  [[nodiscard]] RankBuffers buffers() const {
    const RankBuffers& own = host_.buffers()[rank_];
    return {.a = {places_[0], own.a.size()},
            .b = {places_[1], own.b.size()},
            .c = {places_[2], own.c.size()},
            .send_counts = own.send_counts,
            .receive_counts = own.receive_counts,
            .bias = {places_[4], own.bias.size()},
            .residual = {places_[5], own.residual.size()},
            .norm_weight = {places_[6], own.norm_weight.size()},
            .normed = {places_[7], own.normed.size()},
            .gathered_a = {places_[3], own.gathered_a.size()},
            .b_is_transposed = is_b_transposed_};
  }
  void poison() {
    for (const std::size_t result : kResults) upload(result, matrices_of(host_.buffers()[rank_])[result]);
  }

  /// Rank 0 compares the results of all ranks with the oracle. Order: collective. @return the error, the same on all
  /// ranks; empty when all are right
  [[nodiscard]] std::string fault(ProcessGroup& group, const OpSpec& op, const Cut& cut) const {
    std::string own;
    cudaError_t copied = cudaSuccess;
    for (const std::size_t result : kResults) {
      std::string there(matrices_of(host_.buffers()[rank_])[result].size(), '\0');
      if (copied == cudaSuccess)
        copied = cudaMemcpy(there.data(), places_[result], there.size(), cudaMemcpyDeviceToHost);
      own += there;
    }
    const auto all = group.all_gather(own);
    Result<void> right;
    if (copied != cudaSuccess) right = Error{ErrorCode::Mismatch, "cudaMemcpy", cudaGetErrorString(copied)};
    if (right && rank_ == 0) right = verified(all, op, cut);
    const auto shared = group.share_error(right);
    return shared ? "" : shared.error().text();
  }

 private:
  [[nodiscard]] Result<void> verified(const std::vector<std::string>& all, const OpSpec& op, const Cut& cut) const {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const RankBuffers& to = host_.buffers()[rank];
      auto from = all[rank].begin();
      for (const std::span<std::byte> result : {to.c, to.gathered_a, to.normed}) {
        const auto size = static_cast<std::ptrdiff_t>(result.size());
        std::ranges::copy_n(from, size, reinterpret_cast<char*>(result.data()));
        from += size;
      }
    }
    const auto right = executor::verify_result(op, host_.buffers(), cut, 1);
    for (const RankBuffers& rank : host_.buffers()) { // poison for the next run
      std::ranges::fill(rank.c, std::byte{0xFF});
      std::ranges::fill(rank.gathered_a, std::byte{0xFF});
      std::ranges::fill(rank.normed, std::byte{0xFF});
    }
    return right ? Result<void>{} : right.error();
  }

  static constexpr std::size_t kOffset = 4096; ///< matrices start inside an allocation, as in a caller's arena

  using Matrices = std::array<std::span<const std::byte>, 8>;
  static constexpr std::size_t kResults[] = {2, 3, 7}; ///< C, gathered A, normed C

  static Matrices matrices_of(const RankBuffers& of) {
    return {of.a, of.b, of.c, of.gathered_a, of.bias, of.residual, of.norm_weight, of.normed};
  }

  void upload(std::size_t place, std::span<const std::byte> from) {
    if (cudaMemcpy(places_[place], from.data(), from.size(), cudaMemcpyHostToDevice) != cudaSuccess) std::abort();
  }

  executor::RandomProblem host_;
  std::size_t rank_;
  bool is_b_transposed_;
  std::vector<void*> memory_;
  std::vector<std::byte*> places_;
};

/// Captures an enqueued plan in the caller's graph and launches the graph twice. @return the fault; empty when both
/// results are right
std::string fault_in_a_graph(Prepared& prepared, RankProblem& problem, ProcessGroup& group, const OpSpec& op,
                             const Cut& cut, cudaStream_t stream) {
  void* const streams[] = {stream};
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) return "no capture";
  if (auto enqueued = prepared.enqueue(streams, Submission::Graph); !enqueued) return enqueued.error().text();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) return "the capture failed";
  if (cudaGraphInstantiate(&executable, graph, 0) != cudaSuccess) return "no graph";
  for (int turn = 0; turn < 2; ++turn) {
    problem.poison();
    if (cudaGraphLaunch(executable, stream) != cudaSuccess) return "no launch";
    if (cudaStreamSynchronize(stream) != cudaSuccess) return "the stream failed";
    if (auto fault = problem.fault(group, op, cut); !fault.empty()) return fault;
  }
  (void)cudaGraphExecDestroy(executable);
  return cudaGraphDestroy(graph) == cudaSuccess ? "" : "the graph stays";
}

/// Runs the plan by run() and by enqueue(): before and after a rebind, eagerly and as a graph, on the default stream,
/// on the caller's stream and inside the caller's graph. @return the first fault; empty when all results are right
std::string fault_of_every_way(Prepared& prepared, RankProblem& problem, ProcessGroup& group, const OpSpec& op,
                               const Cut& cut) {
  (void)prepared.run(RunMode::Fused);
  if (auto fault = problem.fault(group, op, cut); !fault.empty()) return "run: " + fault;
  problem.move(prepared.peer_reach());
  const RankBuffers moved[] = {problem.buffers()};
  if (auto bound = prepared.rebind(moved); !bound) return bound.error().text();
  // The first two submissions as a graph are launched block by block; the third is captured.
  for (const Submission submission :
       {Submission::Graph, Submission::Eager, Submission::Graph, Submission::Graph, Submission::Graph}) {
    problem.poison();
    void* const streams[] = {nullptr}; // the default stream, which the fault() below waits for
    if (auto enqueued = prepared.enqueue(streams, submission); !enqueued) return enqueued.error().text();
    if (auto fault = problem.fault(group, op, cut); !fault.empty()) return "enqueue after rebind: " + fault;
  }
  problem.poison();
  (void)prepared.run(RunMode::Fused);
  if (auto fault = problem.fault(group, op, cut); !fault.empty()) return "run after rebind: " + fault;
  if (prepared.run(RunMode::Serial).makespan.count() <= 0) return "no time was taken";
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return "no stream";
  void* const streams[] = {stream};
  for (const Submission submission : {Submission::Graph, Submission::Eager}) {
    problem.poison();
    if (auto enqueued = prepared.enqueue(streams, submission); !enqueued) return enqueued.error().text();
    if (cudaStreamSynchronize(stream) != cudaSuccess) return "the stream failed";
    if (auto fault = problem.fault(group, op, cut); !fault.empty()) return "enqueue: " + fault;
  }
  if (auto fault = fault_in_a_graph(prepared, problem, group, op, cut, stream); !fault.empty())
    return "in the caller's graph: " + fault;
  return cudaStreamDestroy(stream) == cudaSuccess ? "" : "the stream stays";
}

std::string fault_of_every_variant(Communicator& communicator, RankProblem& problem, ProcessGroup& group,
                                   const OpSpec& op, const Cut& cut,
                                   const executor::CommunicatorOptions& chosen = options(0, "")) {
  for (const planner::Variant& variant : tried_variants(op, chosen)) {
    problem.poison();
    const RankBuffers buffers[] = {problem.buffers()};
    auto prepared = executor::prepare(plan_on(communicator, op, cut, variant), buffers, communicator);
    if (!prepared) return variant.text() + ": " + prepared.error().text();
    const auto fault = fault_of_every_way(*prepared.value(), problem, group, op, cut);
    if (!fault.empty()) return op.text() + ", " + variant.text() + ": " + fault;
  }
  return "";
}

class CudaProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto codes = run_processes(1, [](int) { return cuda_backend().availability().is_available ? 0 : 1; });
    if (codes.front() != 0) GTEST_SKIP() << "this machine has no two CUDA devices";
  }
};

int say(int rank, const std::string& text) {
  std::fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
  return 1;
}

TEST_F(CudaProcesses, EveryVariantIsRight) {
  EXPECT_THAT(run_processes(kRanks,
                            [](int rank) {
                              const auto group = result_group(rank, "results");
                              auto communicator = cuda_backend().open(options(rank, "variants")).value();
                              for (const auto& traits : planner::op_registry()) {
                                if (traits.work != planner::Work::Matmul)
                                  continue; // cuda_backend_test has the other kinds
                                OpSpec op = op_of(traits.kind, many_times_m());
                                const std::int64_t rows = traits.cut_axis_length(op);
                                RankProblem problem(op, rank);
                                op.epilogue = {.has_bias = true, .has_residual = true};
                                if (traits.sums()) op.epilogue.norm = planner::Norm::Rms;
                                RankProblem with_epilogue(op, rank);
                                const auto added = fault_of_every_variant(*communicator, with_epilogue, *group, op,
                                                                          Cut{{rows / 4, rows - rows / 4}});
                                if (!added.empty()) return say(rank, added);
                                op.epilogue = {};
                                for (const Cut& cut : {Cut{{rows}}, Cut{{128, rows - 128}},
                                                       Cut{{rows / 4, rows / 4, rows / 4, rows / 4}}}) {
                                  const auto fault = fault_of_every_variant(*communicator, problem, *group, op, cut);
                                  if (!fault.empty()) return say(rank, fault);
                                }
                              }
                              return 0;
                            }),
              Each(0));
}

TEST_F(CudaProcesses, RanksOfSeveralHostsExchangeByNccl) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsNccl;
  const int port = free_port();
  const auto rank_main = [port](int rank) {
    const auto group = result_group(rank, "results");
    const auto own = options_of_hosts(rank, "hosts", port);
    auto communicator = cuda_backend().open(own).value();
    if (communicator->fingerprint().fields.at("link") != "network") return say(rank, "it says another link");
    for (const auto& traits : planner::op_registry()) {
      if (traits.work != planner::Work::Matmul) continue;
      OpSpec op = op_of(traits.kind, many_times_m());
      const std::int64_t rows = traits.cut_axis_length(op);
      for (const planner::Variant& variant : cuda_backend().variants(op, own))
        if (variant.name != "nccl") return say(rank, variant.text() + " is proposed");
      const Cut cut{{rows / 4, rows - rows / 4}};
      op.epilogue = {.has_bias = true, .has_residual = true};
      RankProblem problem(op, rank);
      const auto fault = fault_of_every_variant(*communicator, problem, *group, op, cut, own);
      if (!fault.empty()) return say(rank, fault);
      const RankBuffers buffers[] = {problem.buffers()};
      const auto direct =
          executor::prepare(plan_on(*communicator, op, cut, {"direct", {{"ctas", "8"}}}), buffers, *communicator);
      if (direct || direct.error().text().find("choose nccl") == std::string::npos)
        return say(rank, "direct reaches other hosts");
    }
    return 0;
  };
  EXPECT_THAT(run_processes(kRanks, rank_main), Each(0));
}

TEST_F(CudaProcesses, HostsWithUnequallyManyRanksAreRefusedOnAll) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsNccl;
  const int port = free_port();
  const auto rank_main = [port](int rank) {
    auto own = options_of_hosts(rank, "unequal", port);
    if (rank == 1) own.process->local_size = kRanks + 1;
    const auto refused = cuda_backend().open(own);
    if (refused) return say(rank, "a world that its hosts do not divide opened");
    const std::string text = refused.error().text();
    return text.find("ranks on its host") != std::string::npos ? 0 : say(rank, text);
  };
  EXPECT_THAT(run_processes(kRanks, rank_main), Each(0));
}

// `mpirun --map-by node` numbers ranks in turn over the hosts. Ranks 0 and 1, taken for neighbours on one host, then
// both claim to be number 0 there.
TEST_F(CudaProcesses, RanksOfOnePlaceOnTheirHostAreRefusedOnAll) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsNccl;
  const int port = free_port();
  const auto rank_main = [port](int rank) {
    auto own = options_of_hosts(rank, "placed", port);
    own.process->local_rank = 0;
    const auto refused = cuda_backend().open(own);
    if (refused) return say(rank, "two ranks on one device opened");
    const std::string text = refused.error().text();
    return text.find("rank 0 and rank 1 are both number 0 of their host") != std::string::npos ? 0 : say(rank, text);
  };
  EXPECT_THAT(run_processes(kRanks, rank_main), Each(0));
}

TEST_F(CudaProcesses, ARankOfAnotherHostThatIsKilledIsNamed) {
  if (do_ranks_share_a_device()) GTEST_SKIP() << kNeedsNccl;
  const int port = free_port();
  const auto rank_main = [port](int rank) {
    auto own = options_of_hosts(rank, "killed host", port);
    auto communicator = cuda_backend().open(own).value();
    const OpSpec op = op_of(OpKind::MatmulAllReduce);
    RankProblem problem(op, rank);
    const RankBuffers buffers[] = {problem.buffers()};
    auto prepared =
        executor::prepare(plan_on(*communicator, op, {{1024}}, {"nccl", {}}), buffers, *communicator).value();
    const auto start = std::chrono::steady_clock::now();
    try {
      for (int run = 0;; ++run) {
        if (rank == 1 && run == 3) kill(getpid(), SIGKILL);
        (void)prepared->run(RunMode::Fused);
      }
    } catch (const SystemError& error) {
      if (std::chrono::steady_clock::now() - start > own.deadline) return say(rank, "it took longer than the deadline");
      const std::string told = error.what();
      return told.find("rank 1 on ") != std::string::npos && told.find(" has ended") != std::string::npos
                 ? 0
                 : say(rank, told);
    }
  };
  EXPECT_THAT(run_processes(kRanks, rank_main), ElementsAre(0, kKilled));
}

TEST_F(CudaProcesses, RowsGoToExperts) {
  EXPECT_THAT(run_processes(kRanks,
                            [](int rank) {
                              const auto group = result_group(rank, "results");
                              auto communicator = cuda_backend().open(options(rank, "experts")).value();
                              for (const OpKind kind : {OpKind::AllToAllMatmul, OpKind::MatmulAllToAll}) {
                                OpSpec op = op_of(kind, many_times_m());
                                op.experts_per_rank = 2;
                                op.epilogue = {.has_bias = true, .has_residual = true};
                                std::mt19937 random(3);
                                const std::int64_t rows = planner::traits_of(kind).cut_axis_length(op);
                                for (const Routing routing : {Routing::OneTakesAll, Routing::Random}) {
                                  const auto counts = expert_counts(routing, op, random);
                                  RankProblem problem(op, rank, routing == Routing::Random, counts);
                                  const auto fault = fault_of_every_variant(*communicator, problem, *group, op,
                                                                            Cut{{rows / 4, rows - rows / 4}});
                                  if (!fault.empty()) return say(rank, fault);
                                }
                              }
                              return 0;
                            }),
              Each(0));
}

TEST_F(CudaProcesses, CountsThatDisagreeAreRefusedOnAllRanks) {
  EXPECT_THAT(run_processes(kRanks,
                            [](int rank) {
                              auto communicator = cuda_backend().open(options(rank, "disagree")).value();
                              const OpSpec op = op_of(OpKind::AllToAllMatmul);
                              const std::vector<std::int64_t> counts(kRanks * kRanks, 1);
                              const RankProblem problem(op, rank, false, counts);
                              RankBuffers own = problem.buffers();
                              const std::vector<std::int64_t> other{0, 2};
                              if (rank == 1) own.send_counts = other;
                              const Cut uncut{{planner::traits_of(op.kind).cut_axis_length(op)}};
                              const auto refused = executor::prepare(cuda_plan(op, uncut, {"direct", {{"ctas", "8"}}}),
                                                                     std::span(&own, 1), *communicator);
                              const std::string expected = "rank 1 sends rank 0 0 rows, which expects 1";
                              if (!refused && refused.error().message == expected) return 0;
                              return say(rank, refused ? "taken" : refused.error().text());
                            }),
              Each(0));
}

TEST_F(CudaProcesses, WeightsMayBeStoredTransposed) {
  EXPECT_THAT(
      run_processes(
          kRanks,
          [](int rank) {
            const auto group = result_group(rank, "results");
            auto communicator = cuda_backend().open(options(rank, "transposed")).value();
            for (const OpKind kind : {OpKind::MatmulAllReduce, OpKind::MatmulReduceScatter, OpKind::AllGatherMatmul}) {
              const OpSpec op = op_of(kind, many_times_m());
              const std::int64_t rows = planner::traits_of(kind).cut_axis_length(op);
              const Cut cut{{128, rows - 128}};
              RankProblem problem(op, rank, true);
              const auto fault = fault_of_every_variant(*communicator, problem, *group, op, cut);
              if (!fault.empty()) return say(rank, fault);
            }
            return 0;
          }),
      Each(0));
}

TEST_F(CudaProcesses, WhatOneRankIsRefusedAllAre) {
  EXPECT_THAT(
      run_processes(
          kRanks,
          [](int rank) {
            auto communicator = cuda_backend().open(options(rank, "refusals")).value();
            const OpSpec op = op_of(OpKind::MatmulReduceScatter);
            RankProblem problem(op, rank);
            RankBuffers buffers[] = {problem.buffers()};
            const auto refusal = [&](const planner::Variant& variant, const Cut& cut) {
              const auto prepared = executor::prepare(cuda_plan(op, cut, variant), buffers, *communicator);
              return prepared ? std::string("nothing was refused") : prepared.error().text();
            };
            const planner::Variant direct{"direct", {{"ctas", "8"}}};
            const auto named = [&](const std::string& text, const char* words) {
              return text.find(words) != std::string::npos ? 0 : say(rank, text);
            };
            std::vector<std::byte> host(buffers[0].b.size());
            const auto b = buffers[0].b;
            if (rank == 1) buffers[0].b = host;
            if (named(refusal(direct, {{512}}), "rank 1") != 0) return 2;
            buffers[0].b = b;
            if (named(refusal(direct, rank == 0 ? Cut{{512}} : Cut{{256, 256}}), "every rank must call the same") != 0)
              return 3;
            const char* const why = do_ranks_share_a_device() ? "takes a device only once" : "windows";
            if (named(refusal({"nccl_window", {{"ctas", "8"}}}, {{512}}), why) != 0) return 4;
            return refusal(direct, {{512}}) == "nothing was refused" ? 0 : 5;
          }),
      Each(0));
}

TEST_F(CudaProcesses, MatricesThatPeersReachOrThatAreAlignedWorseAreNotTakenInstead) {
  EXPECT_THAT(
      run_processes(
          kRanks,
          [](int rank) {
            auto communicator = cuda_backend().open(options(rank, "rebind")).value();
            OpSpec op = op_of(OpKind::MatmulAllReduce);
            op.epilogue = {.has_residual = true, .norm = planner::Norm::Rms};
            RankProblem problem(op, rank), other(op, rank);
            RankBuffers buffers[] = {problem.buffers()};
            auto prepared =
                executor::prepare(cuda_plan(op, {{1024}}, {"direct", {{"ctas", "8"}}}), buffers, *communicator).value();
            const auto refusal = [&] {
              const auto bound = prepared->rebind(buffers);
              return bound ? std::string("nothing was refused") : bound.error().text();
            };
            buffers[0].c = other.buffers().c;
            if (refusal().find("C is reached by its peers") == std::string::npos) return say(rank, refusal());
            buffers[0] = problem.buffers();
            buffers[0].norm_epsilon = 1e-5F;
            if (refusal().find("norm_epsilon must stay") == std::string::npos) return say(rank, refusal());
            buffers[0] = problem.buffers();
            buffers[0].residual = buffers[0].c;
            if (refusal().find("overlaps") == std::string::npos) return say(rank, refusal());
            buffers[0] = problem.buffers();
            buffers[0].b = other.buffers().b.subspan(0, 16);
            if (refusal().find("B") == std::string::npos) return say(rank, refusal());
            void* memory = nullptr;
            const std::size_t size = problem.buffers().a.size();
            if (cudaMalloc(&memory, size + 64) != cudaSuccess) return 2;
            buffers[0] = problem.buffers();
            buffers[0].a = {static_cast<std::byte*>(memory) + 2, size};
            if (refusal().find("A is aligned to 2 bytes; the plan was prepared for 256") == std::string::npos)
              return say(rank, refusal());
            buffers[0].a = {static_cast<std::byte*>(memory), size};
            return refusal() == "nothing was refused" ? 0 : say(rank, refusal());
          }),
      Each(0));
}

TEST_F(CudaProcesses, ARankThatIsKilledEndsTheOthersRunsWithItsName) {
  const auto run_until_it_ends = [](int rank, OpKind kind, const planner::Variant& variant) {
    auto communicator = cuda_backend().open(options(rank, variant.name.c_str())).value();
    const OpSpec op = op_of(kind);
    if (!cuda_backend().check_variant(op, options(rank, ""), variant)) return rank == 1 ? kKilled : 0;
    RankProblem problem(op, rank);
    const RankBuffers buffers[] = {problem.buffers()};
    const std::int64_t half = planner::traits_of(kind).cut_axis_length(op) / 2;
    auto prepared = executor::prepare(cuda_plan(op, {{half, half}}, variant), buffers, *communicator).value();
    (void)prepared->run(RunMode::Fused);
    if (rank == 1) kill(getpid(), SIGKILL);
    for (int again = 0; again < 2; ++again) {
      try {
        for (;;) (void)prepared->run(RunMode::Fused);
      } catch (const SystemError& error) {
        if (std::string(error.what()).find("rank 1 has ended") == std::string::npos) return say(rank, error.what());
      }
    }
    return 0;
  };
  EXPECT_THAT(run_processes(kRanks,
                            [&](int rank) {
                              return run_until_it_ends(rank, OpKind::MatmulAllReduce, {"direct", {{"ctas", "8"}}});
                            }),
              ElementsAre(0, kKilled));
  EXPECT_THAT(
      run_processes(kRanks,
                    [&](int rank) {
                      return run_until_it_ends(rank, OpKind::MatmulReduceScatter, {"tile_store", {{"slices", "2"}}});
                    }),
      ElementsAre(0, kKilled));
  EXPECT_THAT(run_processes(kRanks,
                            [&](int rank) {
                              return run_until_it_ends(rank, OpKind::MatmulAllReduce, {"tile_store", {}});
                            }),
              ElementsAre(0, kKilled));
  if (do_ranks_share_a_device()) return;
  EXPECT_THAT(run_processes(kRanks,
                            [&](int rank) {
                              return run_until_it_ends(rank, OpKind::MatmulAllReduce, {"nccl", {}});
                            }),
              ElementsAre(0, kKilled));
}

// A rank that only enqueues never waits, so it must be told of another rank's failure at its next call.
TEST_F(CudaProcesses, WhatIsEnqueuedAfterAnotherRanksFailureIsRefused) {
  EXPECT_THAT(
      run_processes(
          kRanks,
          [](int rank) {
            const auto group = result_group(rank, "failures");
            auto own = options(rank, "enqueue");
            if (rank == 1)
              own.deadline = std::chrono::seconds{8}; // rank 1's run fails then, as rank 0 does not take part
            auto communicator = cuda_backend().open(own).value();
            const OpSpec op = op_of(OpKind::MatmulAllReduce);
            RankProblem problem(op, rank);
            const RankBuffers buffers[] = {problem.buffers()};
            auto prepared =
                executor::prepare(cuda_plan(op, {{1024}}, {"direct", {{"ctas", "8"}}}), buffers, *communicator).value();
            void* const streams[] = {nullptr};
            const auto failure = [&](const auto& work) -> std::string {
              try {
                work();
              } catch (const SystemError& error) {
                return error.what();
              }
              return "no error";
            };
            std::string first;
            if (rank == 1) first = failure([&] { (void)prepared->run(RunMode::Fused); });
            (void)group->all_gather("rank 1 has failed");
            const std::string next = failure([&] { (void)prepared->enqueue(streams, Submission::Graph); });
            const bool is_named = next.find("rank 1 did not finish") != std::string::npos;
            return is_named ? 0 : say(rank, first + "; " + next);
          }),
      Each(0));
}

TEST_F(CudaProcesses, ClosingEndsRunsThatOtherRanksNeverJoin) {
  const auto enqueue_and_close = [](int rank, OpKind kind, const planner::Variant& variant) {
    auto own = options(rank, "unmatched");
    own.deadline = std::chrono::seconds{2};
    auto communicator = cuda_backend().open(own).value();
    const OpSpec op = op_of(kind);
    RankProblem problem(op, rank);
    const RankBuffers buffers[] = {problem.buffers()};
    const std::int64_t rows = planner::traits_of(kind).cut_axis_length(op);
    auto prepared = executor::prepare(cuda_plan(op, {{rows}}, variant), buffers, *communicator).value();
    cudaStream_t stream = nullptr;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return 2;
    void* const streams[] = {stream};
    for (int run = 0; run < (rank == 0 ? 2 : 1); ++run)
      if (!prepared->enqueue(streams, Submission::Graph)) return 3;
    prepared.reset();
    communicator.reset();
    return cudaStreamSynchronize(stream) == cudaSuccess ? 0 : 4;
  };
  for (const planner::Variant& variant :
       {planner::Variant{"direct", {{"ctas", "8"}}}, {"nccl", {}}, {"copy_engine", {{"slices", "2"}}}}) {
    // There, NCCL's do not run, and copies of a process that has closed its own hold the other's up.
    if (variant.name != "direct" && do_ranks_share_a_device()) continue;
    SCOPED_TRACE(variant.text());
    EXPECT_THAT(
        run_processes(kRanks, [&](int rank) { return enqueue_and_close(rank, OpKind::MatmulReduceScatter, variant); }),
        Each(0));
  }
}

TEST_F(CudaProcesses, ARunThatARankHasLeftEndsWithItsName) {
  EXPECT_THAT(
      run_processes(
          kRanks,
          [](int rank) {
            auto communicator = cuda_backend().open(options(rank, "departure")).value();
            const OpSpec op = op_of(OpKind::MatmulAllReduce);
            RankProblem problem(op, rank);
            const RankBuffers buffers[] = {problem.buffers()};
            auto prepared =
                executor::prepare(cuda_plan(op, {{1024}}, {"direct", {{"ctas", "8"}}}), buffers, *communicator).value();
            (void)prepared->run(RunMode::Fused);
            if (rank == 1) {
              prepared.reset();
              communicator.reset();
              return 0;
            }
            try {
              (void)prepared->run(RunMode::Fused);
            } catch (const SystemError& error) {
              return std::string(error.what()).find("rank 1 has left") != std::string::npos ? 0
                                                                                            : say(rank, error.what());
            }
            return say(rank, "no error");
          }),
      Each(0));
}

TEST_F(CudaProcesses, AnEmulatedLinkIsRefusedOnAllRanks) {
  EXPECT_THAT(run_processes(2,
                            [](int rank) {
                              auto chosen = options(rank, "many");
                              chosen.link = executor::parse_link("1Gbit").value();
                              const auto opened = cuda_backend().open(chosen);
                              return opened ? 1
                                     : opened.error().text().find("emulates none") != std::string::npos
                                         ? 0
                                         : say(rank, opened.error().text());
                            }),
              Each(0));
}

} // namespace
} // namespace mc2::testing
