#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "mc2/planner/error.hpp"

namespace mc2::store {

using Json = nlohmann::json;

/// Bounds on a foreign document, so that reading one costs limited time and memory.
struct JsonLimits {
  std::size_t max_bytes = std::size_t{64} << 20U;
  std::size_t max_value_count = 8'000'000; ///< a parsed value takes about 100 bytes
  std::size_t max_array_length = 1'000'000;
  int max_depth = 32;
};

/// Parses strict RFC 8259 JSON: refuses comments, NaN, Infinity, overflowing numbers and invalid UTF-8.
/// Errors: Malformed with line and column for a syntax error, with the JSON path for a repeated key or broken limit.
[[nodiscard]] Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

} // namespace mc2::store
