#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <utility>

#include "mc2/planner/units.hpp"
#include "mc2/profiler/profile_case.hpp"
#include "mc2/profiler/sweep.hpp"

namespace mc2::profiler {
namespace {

constexpr std::size_t kMinLengthCount = 6; // what the piecewise family needs
constexpr std::int64_t kLargestCommon = 2048;
constexpr std::array<std::int64_t, 5> kCommonLengths{256, 512, 768, 1024, kLargestCommon};

struct Fraction {
  std::int64_t numerator;
  std::int64_t denominator;
};
constexpr std::array<Fraction, 5> kFractions{Fraction{1, 8}, Fraction{1, 4}, Fraction{1, 3}, Fraction{1, 2},
                                             Fraction{3, 4}};

/// Whether a chosen length lies within an eighth of this one, which would then cost time and teach little.
bool is_near(const std::set<std::int64_t>& lengths, std::int64_t length) {
  return std::any_of(lengths.begin(), lengths.end(), [&](std::int64_t other) {
    return std::max(length, other) - std::min(length, other) < std::max(length, other) / 8;
  });
}

/// rows * numerator / denominator without overflow, aligned down.
std::int64_t fraction_of(std::int64_t rows, const Fraction& fraction, std::int64_t alignment) {
  const std::int64_t length = rows / fraction.denominator * fraction.numerator +
                              rows % fraction.denominator * fraction.numerator / fraction.denominator;
  return planner::align_down(length, alignment);
}

void fill_up(std::int64_t rows, std::int64_t alignment, std::set<std::int64_t>& lengths) {
  for (std::int64_t step = std::min(alignment, rows);; step = std::max<std::int64_t>(step / 2, 1)) {
    for (std::int64_t length = step; length < rows && lengths.size() < kMinLengthCount; length += step) {
      lengths.insert(length);
    }
    if (lengths.size() >= kMinLengthCount || step == 1) return;
  }
}

} // namespace

std::vector<std::int64_t> sweep_block_rows(std::int64_t rows, std::int64_t alignment) {
  if (rows < 1) return {};
  alignment = std::max<std::int64_t>(alignment, 1);
  std::set<std::int64_t> lengths{rows};
  for (const std::int64_t length : kCommonLengths) {
    if (length <= rows) lengths.insert(length);
  }
  for (std::int64_t length = kLargestCommon; length <= rows / 2; length *= 2) lengths.insert(length);
  for (std::int64_t length = alignment; length < std::min(rows, kCommonLengths.front()); length *= 2) {
    if (!is_near(lengths, length)) lengths.insert(length);
  }
  for (const Fraction& fraction : kFractions) {
    const std::int64_t length = fraction_of(rows, fraction, alignment);
    if (length > 0 && !is_near(lengths, length)) lengths.insert(length);
  }
  fill_up(rows, alignment, lengths);
  return {lengths.begin(), lengths.end()};
}

std::vector<std::int64_t> coarse_to_fine(std::span<const std::int64_t> ascending) {
  if (ascending.size() < 2) return {ascending.begin(), ascending.end()};
  std::vector<std::int64_t> order{ascending.back(), ascending.front()};
  std::vector<std::pair<std::size_t, std::size_t>> gaps{{0, ascending.size() - 1}};
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const auto [low, high] = gaps[i];
    if (high - low < 2) continue;
    const std::size_t middle = (low + high) / 2;
    order.push_back(ascending[middle]);
    gaps.emplace_back(low, middle);
    gaps.emplace_back(middle, high);
  }
  return order;
}

std::vector<ProfileCase> grid_cases(std::int64_t rows, std::int64_t alignment) {
  std::vector<ProfileCase> cases;
  for (const std::int64_t length : coarse_to_fine(sweep_block_rows(rows, alignment))) {
    cases.push_back({CaseTarget::Matmul, length});
    cases.push_back({CaseTarget::Collective, length});
    if (length * 3 <= rows && length * 17 >= rows) cases.push_back({CaseTarget::BothLanes, length});
  }
  return cases;
}

} // namespace mc2::profiler
