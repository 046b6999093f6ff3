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

/// A pipeline after some blocks have left the first lane. The second lane works through its backlog without a gap, so
/// how much is left of it is all that the future depends on; a block is passed in O(1). Both numbers grow with the
/// time of any block, which makes states comparable (strategies/free_list.cpp). Source: docs/cost_model.md §4.
struct Backlog {
  double first_end_us = 0; ///< when the first lane is free
  double left_us = 0;      ///< undisturbed work of the second lane that is left then

  /// The next block: `first_us` and `second_us` >= 0 of undisturbed work.
  void pass(double first_us, double second_us, const Slowdown& slowdown) noexcept {
    const double both_us = left_us * slowdown.second; // the second lane's backlog lasts this long under contention
    const double first_both_us = first_us * slowdown.first;
    if (first_both_us <= both_us) {
      first_end_us += first_both_us;
      left_us += second_us - first_both_us / slowdown.second;
    } else {
      first_end_us += both_us + (first_us - both_us / slowdown.first);
      left_us = second_us;
    }
  }

  /// When the second lane ends if no block follows.
  [[nodiscard]] double end_us() const noexcept { return first_end_us + left_us; }
};

/// simulate(...).makespan_us without recording the blocks: allocates nothing. Equal to it but for rounding.
[[nodiscard]] double makespan_us(std::span<const double> first_us, std::span<const double> second_us,
                                 const Slowdown& slowdown) noexcept;

} // namespace mc2::planner
