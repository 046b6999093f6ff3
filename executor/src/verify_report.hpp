#pragma once

#include <cstdint>
#include <string>

#include "double_oracle.hpp"
#include "mc2/planner/error.hpp"

/// How checks of results word what they found.
namespace mc2::executor {

inline constexpr int kDigits = 9; ///< of a float: as many as tell each from its neighbours

struct Position {
  ResultRow at;
  std::int64_t column = 0;
};

[[nodiscard]] inline Error mismatch(const Position& at, const std::string& detail) {
  return {ErrorCode::Mismatch, "c",
          "rank " + std::to_string(at.at.rank) + ", row " + std::to_string(at.at.row) + ", column " +
              std::to_string(at.column) + ": " + detail};
}

} // namespace mc2::executor
