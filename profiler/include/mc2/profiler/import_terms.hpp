#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mc2/planner/error.hpp"
#include "mc2/profiler/importer.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// The user's statements about a log as text, from the options of a program or the parameters of a request. An empty
/// member states nothing.
struct ImportTerms {
  std::string op = {}, dtype = {}, collective = {};
  std::string bytes = {};               ///< a number up to 2^50, or "neighbour", also spelled "neighbor"
  std::string buffers = "out-of-place"; ///< or "in-place", "both"
  std::string blocks = {};              ///< the cut that the fused operators in a log ran
  std::string device = {};
  std::optional<std::int64_t> m = std::nullopt, n = std::nullopt, k = std::nullopt; ///< up to planner::kMaxSize
  std::optional<std::int64_t> ranks = std::nullopt;                                 ///< up to planner::kMaxWorldSize

  /// Errors: UnknownName, InvalidSpec; the field is the member's name.
  [[nodiscard]] Result<ImportAnswers> answers() const;
  /// Errors: as above.
  [[nodiscard]] Result<ImportQuestion> question() const;
};

} // namespace mc2::profiler

#pragma GCC visibility pop
