#pragma once

#include <span>
#include <vector>

#include "mc2/planner/slices.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// Largest slow-down. It is beyond any measured one, and times multiplied by it stay in the range of a double.
inline constexpr double kMaxSlowdown = 1e15;

/// Duration multipliers, each 1 to kMaxSlowdown, that apply to a lane while the other lane is busy too.
struct Slowdown {
  double first = 1;
  double second = 1;
  bool operator==(const Slowdown&) const = default;
};

struct Span {
  double start_us = 0;
  double end_us = 0;
  bool operator==(const Span&) const = default;
};

/// When every block was on each lane: from its first slice's start to its last slice's end.
struct Timeline {
  std::vector<Span> first;  ///< one per block, in order
  std::vector<Span> second; ///< one per block, in order
  double makespan_us = 0;   ///< end of the last block on the second lane, plus what a run takes besides its blocks
  double overlap_us = 0;    ///< time during which both lanes were busy
  bool operator==(const Timeline&) const = default;
};

/// Two lanes in order: block i occupies the first lane as soon as block i-1 has left it, and the second lane as soon
/// as block i has left the first and block i-1 the second. While both lanes are busy each runs slower by its factor.
/// Exact for these assumptions: rates are piecewise constant and every change of rate is an event.
/// Source: docs/cost_model.md §4. Both spans have the same length; times in us, >= 0.
/// @param slices the slices of a block pass like blocks, one behind the other; one entry for each block, or one for all
[[nodiscard]] Timeline simulate(std::span<const double> first_us, std::span<const double> second_us,
                                const Slowdown& slowdown, std::span<const Slices> slices);
[[nodiscard]] Timeline simulate(std::span<const double> first_us, std::span<const double> second_us,
                                const Slowdown& slowdown, const Slices& slices = Slices::whole());

/// The two constants by which contention enters the closed form of the makespan: with block times a and c on the two
/// lanes, kappa = s2 (1 - 1/s1) and gamma = s1 (1 - 1/s2); both are 0 without contention and below 1 while overlap
/// gains anything, 1/s1 + 1/s2 > 1.
struct Contention {
  double kappa = 0, gamma = 0;
  bool is_overlap_useful = true;

  explicit Contention(const Slowdown& slowdown) noexcept
      : kappa(slowdown.second * (1 - 1 / slowdown.first)),
        gamma(slowdown.first * (1 - 1 / slowdown.second)),
        is_overlap_useful(1 / slowdown.first + 1 / slowdown.second > 1) {}
};

/// A pipeline after some blocks have left the first lane, as the lengths of two paths through it:
///   first_path' = first_path + a + kappa c
///   second_path' = max(second_path + gamma a, first_path + a) + c    (min when overlap gains nothing)
/// second_path is when the second lane ends if no block follows; first_path equals the time when the first lane is free
/// plus kappa times the second lane's work that is left then. Both recurrences grow with both paths, so a state with
/// two shorter paths is better whatever follows. Derivation: docs/cost_model.md §4.
struct PipelineState {
  double first_path_us = 0;
  double second_path_us = 0;

  /// The state before the first block. The second lane already has `second_us` of work of its own; everything starts
  /// `later_us` late.
  [[nodiscard]] static PipelineState start(double second_us, const Contention& contention,
                                           double later_us = 0) noexcept {
    return {later_us + contention.kappa * second_us, later_us + second_us};
  }

  /// Adds the next block: `first_us` and `second_us` >= 0 of undisturbed work.
  void pass(double first_us, double second_us, const Contention& contention) noexcept {
    const double busy_us = second_path_us + contention.gamma * first_us, idle_us = first_path_us + first_us;
    second_path_us = (contention.is_overlap_useful == (busy_us >= idle_us) ? busy_us : idle_us) + second_us;
    first_path_us = idle_us + contention.kappa * second_us;
  }
  /// Adds the next block, which passes in slices.
  void pass(double first_us, double second_us, const Contention& contention, const Slices& slices) noexcept {
    for (const double share : slices.shares()) pass(first_us * share, second_us * share, contention);
  }
};

/// simulate(...).makespan_us, equal but for rounding, without recording the blocks. Allocates nothing.
[[nodiscard]] double makespan_us(std::span<const double> first_us, std::span<const double> second_us,
                                 const Slowdown& slowdown, const Slices& slices = Slices::whole()) noexcept;

} // namespace mc2::planner

#pragma GCC visibility pop
