#pragma once

#include <cstdint>

namespace mc2::executor {

/// Elements [first, first + count).
struct Range {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Part `index` of the `part_count` parts of `whole`, one behind the other; their sizes differ by at most one element.
[[nodiscard]] constexpr Range part_of(const Range& whole, std::int64_t index, std::int64_t part_count) noexcept {
  const std::int64_t begin = whole.count * index / part_count;
  return {whole.first + begin, whole.count * (index + 1) / part_count - begin};
}

} // namespace mc2::executor
