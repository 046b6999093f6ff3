#include "run_overhead.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <thread>

#include "backends/host/host_backend.hpp"
#include "lanes/affinity.hpp"
#include "lanes/combine.hpp"
#include "lanes/gemm.hpp"
#include "lanes/signal.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor {
namespace {

using lanes::Clock;
using lanes::Signal;

constexpr int kRanks = 2;
constexpr std::int64_t kBlockRows = 128, kWidth = 16; // up to 64 rows would be cut along n

planner::OpSpec small_op(int block_count) {
  return {.kind = planner::OpKind::MatmulAllReduce,
          .m = block_count * kBlockRows,
          .n = kWidth,
          .k = kWidth,
          .dtype = planner::DType::F32,
          .world_size = kRanks};
}

/// The code that a program written for this one operator would have.
class ByHand {
 public:
  ByHand(int block_count, std::span<const RankBuffers> buffers)
      : block_count_(static_cast<std::uint32_t>(block_count)),
        op_(small_op(block_count)),
        layout_(lanes::allowed_cores(), kRanks, true) {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ranks_[rank].buffers = buffers[rank];
      ranks_[rank].partial.resize(static_cast<std::size_t>(op_.m * op_.n));
      ranks_[rank].c.resize(ranks_[rank].partial.size());
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const auto lane : {planner::Lane::Compute, planner::Lane::Communication})
        threads_.emplace_back([this, rank, lane](const std::stop_token& stop) { work(rank, lane, stop); });
    }
  }
  ~ByHand() {
    for (auto& thread : threads_) thread.request_stop();
    go_.add();
  }
  ByHand(const ByHand&) = delete;
  ByHand& operator=(const ByHand&) = delete;

  void run() {
    go_.add();
    ++run_count_;
    (void)done_.wait_at_least(run_count_ * 2 * kRanks, Clock::time_point::max());
  }

  [[nodiscard]] std::span<const float> c(std::size_t rank) const noexcept { return ranks_[rank].c; }

 private:
  struct Rank {
    RankBuffers buffers;
    std::vector<float> partial, c;
    Signal ready; ///< number of blocks multiplied, over all runs
  };

  void work(int rank, planner::Lane lane, const std::stop_token& stop) {
    const auto cores = layout_.cores_of(rank, lane);
    if (!cores.empty()) lanes::pin_current_thread(cores, rank);
    const bool computes = lane == planner::Lane::Compute;
    omp_set_num_threads(computes ? layout_.compute_thread_count() : 1);
    const lanes::GemmShape shape{kBlockRows, 0, kWidth};
    Rank& own = ranks_[static_cast<std::size_t>(rank)];
    std::unique_ptr<lanes::Gemm> gemm;
    if (computes)
      gemm = std::make_unique<lanes::Gemm>(op_, rank, lanes::GemmWeights{own.buffers.b}, std::span(&shape, 1));
    for (std::uint32_t run = 0;; ++run) {
      (void)go_.wait_at_least(run + 1, Clock::time_point::max());
      if (stop.stop_requested()) return;
      if (computes)
        multiply_all(own, *gemm, shape);
      else
        sum_all(own, run);
      done_.add();
    }
  }

  void multiply_all(Rank& own, lanes::Gemm& gemm, const lanes::GemmShape& shape) {
    constexpr std::int64_t kElements = kBlockRows * kWidth;
    for (std::int64_t block = 0; block < block_count_; ++block) {
      gemm.multiply({.a = own.buffers.a.data() + block * kElements * std::int64_t{sizeof(float)},
                     .product = reinterpret_cast<std::byte*>(own.partial.data() + block * kElements)},
                    shape);
      own.ready.add();
      std::this_thread::yield(); // for the reason given at HostPrepared::hand_over()
    }
  }

  void sum_all(Rank& own, std::uint32_t run) {
    constexpr std::int64_t kElements = kBlockRows * kWidth;
    for (std::uint32_t block = 0; block < block_count_; ++block) {
      std::array<const std::byte*, kRanks> partials{};
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        (void)ranks_[rank].ready.wait_at_least(run * block_count_ + block + 1, Clock::time_point::max());
        partials[rank] = reinterpret_cast<const std::byte*>(ranks_[rank].partial.data() + block * kElements);
      }
      auto* const sum = reinterpret_cast<std::byte*>(own.c.data() + block * kElements);
      lanes::sum_in_rank_order(planner::DType::F32, partials, {sum, kElements, kElements}, kElements);
    }
  }

  const std::uint32_t block_count_;
  const planner::OpSpec op_;
  const lanes::CoreLayout layout_;
  std::array<Rank, kRanks> ranks_;
  Signal go_, done_;
  std::uint32_t run_count_ = 0;
  std::vector<std::jthread> threads_; ///< last: they use everything above
};

void require_same(const ByHand& by_hand, std::span<const RankBuffers> buffers) {
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const auto c = by_hand.c(rank);
    if (std::memcmp(c.data(), buffers[rank].c.data(), c.size_bytes()) != 0)
      throw SystemError("time_run_overhead", 0, "rank " + std::to_string(rank) + ": the results differ");
  }
}

double us_of(const auto& call) {
  const auto start = Clock::now();
  call();
  return planner::to_us(Clock::now() - start);
}

} // namespace

Result<cli::Pairs> time_run_overhead(int block_count, int pair_count) {
  const auto op = small_op(block_count);
  RandomProblem problem(op, 1);
  CommunicatorOptions options;
  options.world_size = kRanks;
  MC2_ASSIGN(const auto communicator, host::open_host(options, {}));
  const planner::Cut cut{std::vector<std::int64_t>(static_cast<std::size_t>(block_count), kBlockRows)};
  MC2_ASSIGN(const auto plan, planner::unpredicted_plan(op, communicator->fingerprint(), {"direct", {}}, cut));
  MC2_ASSIGN(const auto prepared, prepare(plan, problem.buffers(), *communicator));
  ByHand by_hand(block_count, problem.buffers());
  prepared->run(RunMode::Fused);
  by_hand.run();
  require_same(by_hand, problem.buffers());
  return cli::time_pairs(
      static_cast<std::size_t>(pair_count), [&] { return us_of([&] { by_hand.run(); }); },
      [&] { return us_of([&] { prepared->run(RunMode::Fused, RunDetail::Makespan); }); });
}

} // namespace mc2::executor
