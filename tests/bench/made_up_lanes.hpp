#pragma once

#include <cstdint>
#include <random>

namespace mc2::cli {

/// Random numbers that depend on the seed only and are the same on every machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] std::uint64_t index(std::uint64_t count) { return random_() % count; }
  [[nodiscard]] double uniform(double low, double high);
  [[nodiscard]] double log_uniform(double low, double high);
  [[nodiscard]] double normal();

 private:
  std::mt19937_64 random_;
};

/// Times of the two lanes of a made-up machine, each lane alone.
class MadeUpLanes {
 public:
  /// Shape of the lanes' costs. Affine: both lanes. Bent: the collective is concave up to a bend. Staircase: the matmul
  /// has steps. The other lane is affine.
  enum class Truth : std::uint8_t { Affine, Bent, Staircase };

  /// @param rows     rows of the uncut operator
  /// @param balance  largest ratio of the two lanes' uncut times
  MadeUpLanes(Draw& draw, Truth truth, std::int64_t rows, double balance);

  [[nodiscard]] double time_us(bool is_compute, std::int64_t rows) const;
  /// Times of the uncut lanes, up to the rounding of their fixed shares.
  [[nodiscard]] double compute_us() const noexcept { return compute_us_; }
  [[nodiscard]] double communication_us() const noexcept { return communication_us_; }

 private:
  Truth truth_;
  double rows_ = 1;
  double compute_us_ = 0, communication_us_ = 0;       ///< uncut
  double compute_fixed_ = 0, communication_fixed_ = 0; ///< share of the uncut time that every block pays
  double bend_ = 0, bend_rows_ = 1; ///< Bent: additional cost of small messages, and up to how many rows
  double step_rows_ = 1;            ///< Staircase: rows of a wave
};

} // namespace mc2::cli
