#pragma once

#include <span>
#include <vector>

namespace mc2::planner {

/// Duration multipliers, each >= 1, that apply to a lane while the other lane is busy too.
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

/// When every block was on each lane.
struct Timeline {
  std::vector<Span> first;  ///< one per block, in order
  std::vector<Span> second; ///< one per block, in order
  double makespan_us = 0;   ///< end of the last block on the second lane
  double overlap_us = 0;    ///< time during which both lanes were busy
  bool operator==(const Timeline&) const = default;
};

/// Two lanes in order: block i occupies the first lane as soon as block i-1 has left it, and the second lane as soon
/// as block i has left the first and block i-1 the second. While both lanes are busy each runs slower by its factor.
/// Exact for these assumptions: rates are piecewise constant and every change of rate is an event.
/// Source: docs/cost_model.md §4. Both spans have the same length; times in us, >= 0.
[[nodiscard]] Timeline simulate(std::span<const double> first_us, std::span<const double> second_us,
                                const Slowdown& slowdown);

/// simulate(...).makespan_us without recording the blocks: allocates nothing.
[[nodiscard]] double makespan_us(std::span<const double> first_us, std::span<const double> second_us,
                                 const Slowdown& slowdown) noexcept;

} // namespace mc2::planner
