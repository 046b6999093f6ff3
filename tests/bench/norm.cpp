#include <algorithm>
#include <array>
#include <thread>

#include "benches.hpp"
#include "lanes/affinity.hpp"
#include "lanes/combine.hpp"
#include "lanes/signal.hpp"
#include "mc2/planner/text.hpp"
#include "random_fill.hpp"

namespace mc2::cli {
namespace {

using executor::lanes::Clock;
using executor::lanes::NormTarget;
using executor::lanes::Signal;
using executor::lanes::SumTarget;
using planner::DType;

constexpr int kRanks = 2;
constexpr int kRounds = 41;
constexpr double kTrialUs = 4000;
constexpr std::array<std::int64_t, 2> kColumns{4096, 8192};
constexpr std::array<std::int64_t, 5> kSizes{16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};

/// One rank's matrices.
struct Matrices {
  std::vector<std::byte> partial, residual, weight, c, normed;
};

/// All-reduce + residual + RMSNorm of two ranks that share memory, each a thread on its own core. "Together" is one
/// pass over each row; otherwise there are three passes over all rows.
class TwoRanks {
 public:
  TwoRanks(DType dtype, std::int64_t row_count, std::int64_t columns)
      : dtype_(dtype), row_count_(row_count), columns_(columns) {
    const auto bytes = static_cast<std::size_t>(row_count * row_bytes());
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      Matrices& own = matrices_[rank];
      own.partial.resize(bytes);
      own.residual.resize(bytes);
      own.c.resize(bytes);
      own.normed.resize(bytes);
      own.weight.resize(static_cast<std::size_t>(row_bytes()));
      executor::fill_random(dtype, own.partial, rank);
      executor::fill_random(dtype, own.residual, 7);
      executor::fill_random(dtype, own.weight, 8);
    }
    for (int rank = 0; rank < kRanks; ++rank)
      threads_.emplace_back([this, rank](const std::stop_token& stop) { work(rank, stop); });
  }
  ~TwoRanks() {
    for (auto& thread : threads_) thread.request_stop();
    go_.add();
  }
  TwoRanks(const TwoRanks&) = delete;
  TwoRanks& operator=(const TwoRanks&) = delete;

  /// Microseconds of one operation, when `count` run in a row.
  double time_us(bool is_together, std::uint32_t count) {
    is_together_ = is_together;
    count_ = count;
    const auto start = Clock::now();
    go_.add();
    ++trial_count_;
    (void)done_.wait_at_least(trial_count_ * kRanks, Clock::time_point::max());
    return to_us(Clock::now() - start) / count;
  }

  [[nodiscard]] const Matrices& of(std::size_t rank) const noexcept { return matrices_[rank]; }

 private:
  [[nodiscard]] std::int64_t row_bytes() const { return columns_ * planner::size_bytes(dtype_); }

  void work(int rank, const std::stop_token& stop) {
    const executor::lanes::CoreLayout layout(executor::lanes::allowed_cores(), kRanks, true);
    const auto cores = layout.cores_of(rank, planner::Lane::Communication);
    if (!cores.empty()) executor::lanes::pin_current_thread(cores, rank);
    for (std::uint32_t trial = 1;; ++trial) {
      (void)go_.wait_at_least(trial, Clock::time_point::max());
      if (stop.stop_requested()) return;
      for (std::uint32_t i = 0; i < count_; ++i) reduce(static_cast<std::size_t>(rank));
      done_.add();
    }
  }

  /// As the host backend's variant "direct": each rank signals that its partial can be read, then adds both partials.
  void reduce(std::size_t rank) {
    ready_[rank].add();
    (void)ready_[1 - rank].wait_at_least(ready_[rank].count(), Clock::time_point::max());
    Matrices& own = matrices_[rank];
    const std::array<const std::byte*, kRanks> partials{matrices_[0].partial.data(), matrices_[1].partial.data()};
    const NormTarget norm{.rows = own.normed.data(), .weight = own.weight.data(), .epsilon = 1e-6F};
    SumTarget target{.first = own.c.data(), .columns = columns_, .row_stride = columns_};
    const std::int64_t count = row_count_ * columns_;
    if (is_together_) {
      target.residual = own.residual.data();
      target.norm = norm;
      return executor::lanes::sum_in_rank_order(dtype_, partials, target, count);
    }
    executor::lanes::sum_in_rank_order(dtype_, partials, target, count);
    const std::byte* const sum = own.c.data();
    target.residual = own.residual.data();
    executor::lanes::sum_in_rank_order(dtype_, {&sum, 1}, target, count);
    executor::lanes::rms_norm(dtype_, sum, row_count_, columns_, norm);
  }

  DType dtype_;
  std::int64_t row_count_, columns_;
  std::array<Matrices, kRanks> matrices_;
  std::array<Signal, kRanks> ready_;
  Signal go_, done_;
  bool is_together_ = false;
  std::uint32_t count_ = 0, trial_count_ = 0;
  std::vector<std::jthread> threads_; ///< last: they use everything above
};

/// Checks that both ways give the same bits in f32. Shorter types are not compared, because one way rounds more often.
Result<void> check_same(DType dtype, TwoRanks& ranks) {
  ranks.time_us(true, 1);
  const Matrices together = ranks.of(1);
  ranks.time_us(false, 1);
  if (dtype != DType::F32 || together.normed == ranks.of(1).normed) return {};
  return Error{ErrorCode::Mismatch, "normed", "differs between one pass and three"};
}

Result<std::vector<std::string>> measure(DType dtype, std::int64_t columns, std::int64_t bytes) {
  TwoRanks ranks(dtype, bytes / columns / planner::size_bytes(dtype), columns);
  MC2_TRY(check_same(dtype, ranks));
  const double once_us = ranks.time_us(false, 20);
  const auto count = static_cast<std::uint32_t>(std::max(2.0, kTrialUs / once_us));
  MC2_ASSIGN(const auto pairs,
             time_pairs(
                 kRounds, [&] { return ranks.time_us(false, count); }, [&] { return ranks.time_us(true, count); }));
  return std::vector<std::string>{bytes_text(bytes),
                                  std::to_string(bytes / columns / planner::size_bytes(dtype)),
                                  std::to_string(columns),
                                  std::string(to_string(dtype)),
                                  number(median(pairs.first_us), "%.1f"),
                                  number(median(pairs.second_us), "%.1f"),
                                  number(pairs.ratio(), "%.2f")};
}

} // namespace

Result<ExitCode> bench_norm() {
  struct Case {
    DType dtype;
    std::int64_t columns, bytes;
  };
  std::vector<Case> all;
  for (const DType dtype : {DType::F32, DType::Bf16})
    for (const std::int64_t columns : kColumns)
      for (const std::int64_t bytes : kSizes)
        if (bytes >= columns * planner::size_bytes(dtype)) all.push_back({dtype, columns, bytes});
  return print_rows(
      "all-reduce + residual + RMSNorm of 2 ranks in shared memory, medians of " + std::to_string(kRounds) + " pairs",
      {"message", "rows", "columns", "type", "apart us", "together us", "apart / together"}, all.size(),
      [&](std::size_t i) { return measure(all[i].dtype, all[i].columns, all[i].bytes); });
}

} // namespace mc2::cli
