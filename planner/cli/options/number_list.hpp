#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"

namespace mc2::cli {

/// Bounds on the numbers of a list.
struct NumberListLimits {
  std::int64_t low = 1, high = 1;
  std::int64_t max_count = 1; ///< longer lists are refused before they are expanded
};

/// Reads whole numbers and ranges, e.g. "128,1024:8192:1024" (first:last:step, both ends included), into ascending
/// order without repetition. Errors: InvalidSpec with `field`, naming the part that is wrong.
[[nodiscard]] Result<std::vector<std::int64_t>> parse_number_list(std::string_view text, const std::string& field,
                                                                  const NumberListLimits& limits);

} // namespace mc2::cli
