#pragma once

#include <cstdint>
#include <random>

namespace mc2::cli {

/// Numbers of a seed, alike on every machine.
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

/// Times of both lanes of a made-up machine, each alone.
class MadeUpLanes {
 public:
  /// Kinds of truth: both lanes affine, a collective that is concave up to a bend, a matmul of stairs.
  enum class Truth : std::uint8_t { Affine, Bent, Staircase };

  /// @param rows     of the uncut operator
  /// @param balance  how many times longer one lane takes than the other, at most
  MadeUpLanes(Draw& draw, Truth truth, std::int64_t rows, double balance);

  [[nodiscard]] double time_us(bool is_compute, std::int64_t rows) const;
  /// Of the uncut lanes, but for what their fixed shares round away.
  [[nodiscard]] double compute_us() const noexcept { return compute_us_; }
  [[nodiscard]] double communication_us() const noexcept { return communication_us_; }

 private:
  Truth truth_;
  double rows_ = 1;
  double compute_us_ = 0, communication_us_ = 0;       ///< uncut
  double compute_fixed_ = 0, communication_fixed_ = 0; ///< share of it that every block pays
  double bend_ = 0, bend_rows_ = 1;                    ///< Bent: how much dearer small messages are, and up to where
  double step_rows_ = 1;                               ///< Staircase: rows of a wave
};

} // namespace mc2::cli
