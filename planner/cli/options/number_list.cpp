#include "options/number_list.hpp"

#include <algorithm>
#include <optional>

#include "mc2/planner/text.hpp"

namespace mc2::cli {
namespace {

struct SteppedRange {
  std::int64_t first, last, step;
  [[nodiscard]] std::int64_t count() const noexcept { return (last - first) / step + 1; }
};

/// "a" or "a:b:c" with low <= a <= b <= high and c >= 1.
std::optional<SteppedRange> to_range(std::string_view text, const NumberListLimits& limits) {
  const std::size_t colon = text.find(':');
  const auto first = number_in<std::int64_t>(text.substr(0, colon));
  if (!first || *first < limits.low || *first > limits.high) return std::nullopt;
  if (colon == std::string_view::npos) return SteppedRange{*first, *first, 1};
  const std::string_view rest = text.substr(colon + 1);
  const std::size_t second_colon = rest.find(':');
  if (second_colon == std::string_view::npos) return std::nullopt;
  const auto last = number_in<std::int64_t>(rest.substr(0, second_colon)),
             step = number_in<std::int64_t>(rest.substr(second_colon + 1));
  if (!last || !step || *last < *first || *last > limits.high || *step < 1) return std::nullopt;
  return SteppedRange{*first, *last, *step};
}

} // namespace

Result<std::vector<std::int64_t>> parse_number_list(std::string_view text, const std::string& field,
                                                    const NumberListLimits& limits) {
  std::vector<std::int64_t> numbers;
  for (const std::string_view part : split(text, ',')) {
    const auto range = to_range(part, limits);
    if (!range)
      return Error{ErrorCode::InvalidSpec, field,
                   "'" + std::string(part.substr(0, 48)) + "' is no whole number and no first:last:step within " +
                       std::to_string(limits.low) + " to " + std::to_string(limits.high) + "; separate them by commas"};
    if (range->count() > limits.max_count - static_cast<std::int64_t>(numbers.size()))
      return Error{ErrorCode::InvalidSpec, field,
                   "lists more than " + std::to_string(limits.max_count) + " numbers; make the range shorter"};
    for (std::int64_t i = 0; i < range->count(); ++i) numbers.push_back(range->first + i * range->step);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

} // namespace mc2::cli
