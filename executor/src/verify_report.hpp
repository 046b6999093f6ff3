#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "double_oracle.hpp"
#include "mc2/planner/error.hpp"

/// How checks of results word what they found.
namespace mc2::executor {

struct Position {
  ResultRow at;
  std::int64_t column = 0;
};

[[nodiscard]] inline std::string percent_text(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g %%", ratio * 100);
  return text;
}

[[nodiscard]] inline std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

[[nodiscard]] inline planner::Error mismatch(const Position& at, const std::string& detail) {
  return {planner::ErrorCode::Mismatch, "c",
          "rank " + std::to_string(at.at.rank) + ", row " + std::to_string(at.at.row) + ", column " +
              std::to_string(at.column) + ": " + detail};
}

} // namespace mc2::executor
