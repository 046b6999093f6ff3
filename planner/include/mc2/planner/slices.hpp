#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace mc2::planner {

inline constexpr int kMaxSliceCount = 1024;

/// The slices in which a block passes from lane to lane, one behind the other. The second lane starts when the first
/// slice has arrived, so that even an uncut plan overlaps. Each slice takes its share of the block's time on each lane.
class Slices {
 public:
  /// The parts of a block before, in and behind the slice at which a path changes lanes.
  struct Change {
    double before, inside, behind;
  };

  Slices() : Slices({1}) {}
  /// The whole block as one slice.
  [[nodiscard]] static const Slices& whole();
  /// @param count 1 to kMaxSliceCount
  [[nodiscard]] static Slices equal(int count);
  /// "3" means three equal slices, "1+2+4" three slices in these proportions. Nothing for another text, and for numbers
  /// that are not whole, below 1, or above kMaxSliceCount in sum.
  [[nodiscard]] static std::optional<Slices> parse(std::string_view text);

  [[nodiscard]] int count() const noexcept { return static_cast<int>(shares_.size()); }
  /// Each slice's share, in the order in which the slices pass; the sum is 1.
  [[nodiscard]] std::span<const double> shares() const noexcept { return shares_; }
  /// The slices at which the longest path, or the shortest, can change lanes, whatever the block's times. Along a run
  /// of equal slices a path's length changes by a constant, so only the ends of runs count. docs/cost_model.md §4.
  [[nodiscard]] std::span<const Change> changes() const noexcept { return changes_; }

 private:
  explicit Slices(const std::vector<int>& weights);

  std::vector<double> shares_;
  std::vector<Change> changes_;
};

} // namespace mc2::planner

#pragma GCC visibility pop
