#pragma once

#include <cstdint>
#include <string>

#include "double_oracle.hpp"
#include "mc2/planner/error.hpp"
#include "texts.hpp"

/// Errors of the checks of results.
namespace mc2::executor {

inline constexpr int kDigits = 9; ///< decimal digits that tell each f32 number from its neighbours

struct Position {
  ResultRow at;
  std::int64_t column = 0;
};

[[nodiscard]] inline Error mismatch(const Position& at, const std::string& detail) {
  return {ErrorCode::Mismatch, "c",
          rank_text(at.at.rank) + ", row " + std::to_string(at.at.row) + ", column " + std::to_string(at.column) +
              ": " + detail};
}

} // namespace mc2::executor
