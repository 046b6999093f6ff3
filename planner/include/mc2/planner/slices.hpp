#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace mc2::planner {

inline constexpr int kMaxSliceCount = 1024;

/// The parts in which a block passes from lane to lane, one behind the other: the second lane starts when the first of
/// them is there, so that even an uncut plan overlaps. Each takes its share of the block's times.
class Slices {
 public:
  /// How much of a block is before, in and behind the slice at which a path changes lanes.
  struct Change {
    double before, inside, behind;
  };

  Slices() : Slices({1}) {}
  /// The block as it is.
  [[nodiscard]] static const Slices& whole();
  /// @param count 1 to kMaxSliceCount
  [[nodiscard]] static Slices equal(int count);
  /// "3": so many equal ones. "1+2+4": one for each number, which are in these proportions. Nothing for another text,
  /// or where the numbers are not whole, below 1, or above kMaxSliceCount in all.
  [[nodiscard]] static std::optional<Slices> parse(std::string_view text);

  [[nodiscard]] int count() const noexcept { return static_cast<int>(shares_.size()); }
  /// In the order in which they pass; their sum is 1.
  [[nodiscard]] std::span<const double> shares() const noexcept { return shares_; }
  /// The changes of lanes of which one is extreme, whatever the block's times: from slice to slice of a run of equal
  /// ones a path's length grows by a constant, so only the ends of runs count. docs/cost_model.md §4.
  [[nodiscard]] std::span<const Change> changes() const noexcept { return changes_; }

 private:
  explicit Slices(const std::vector<int>& weights);

  std::vector<double> shares_;
  std::vector<Change> changes_;
};

} // namespace mc2::planner

#pragma GCC visibility pop
