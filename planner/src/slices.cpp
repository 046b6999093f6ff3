#include "mc2/planner/slices.hpp"

#include <charconv>
#include <cstddef>
#include <numeric>

namespace mc2::planner {
namespace {

/// The whole numbers >= 1 between plus signs, whose sum is at most kMaxSliceCount; none for another text.
std::vector<int> parse_sum(std::string_view text) {
  std::vector<int> numbers;
  int total = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int number = 0;
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc() || number < 1 || number > kMaxSliceCount - total) return {};
    numbers.push_back(number);
    total += number;
    if (read.ptr == end) return numbers;
    if (*read.ptr != '+') return {};
    at = read.ptr + 1;
  }
}

} // namespace

Slices::Slices(const std::vector<int>& weights) {
  const double total = std::reduce(weights.begin(), weights.end());
  int before = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const int weight = weights[i];
    shares_.push_back(weight / total);
    const bool is_in_run = i > 0 && i + 1 < weights.size() && weights[i - 1] == weight && weights[i + 1] == weight;
    if (!is_in_run) changes_.push_back({before / total, weight / total, (total - before - weight) / total});
    before += weight;
  }
}

const Slices& Slices::whole() {
  static const Slices slices;
  return slices;
}

Slices Slices::equal(int count) { return Slices(std::vector<int>(static_cast<std::size_t>(count), 1)); }

std::optional<Slices> Slices::parse(std::string_view text) {
  const std::vector<int> numbers = parse_sum(text);
  if (numbers.empty()) return std::nullopt;
  return numbers.size() == 1 ? equal(numbers.front()) : Slices(numbers);
}

} // namespace mc2::planner
