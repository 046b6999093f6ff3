#include "mc2/planner/error.hpp"

#include <cstdio>
#include <cstdlib>

namespace mc2 {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::InvalidSpec: return "invalid_spec";
    case ErrorCode::UnknownName: return "unknown_name";
    case ErrorCode::Infeasible: return "infeasible";
    case ErrorCode::OutOfRange: return "out_of_range";
    case ErrorCode::Stale: return "stale";
    case ErrorCode::NotFound: return "not_found";
    case ErrorCode::Malformed: return "malformed";
    case ErrorCode::CannotFit: return "cannot_fit";
    case ErrorCode::Unsupported: return "unsupported";
    case ErrorCode::Corrupt: return "corrupt";
    case ErrorCode::NewerVersion: return "newer_version";
    case ErrorCode::ReadOnly: return "read_only";
    case ErrorCode::Cancelled: return "cancelled";
    case ErrorCode::Mismatch: return "mismatch";
    case ErrorCode::Unreadable: return "unreadable";
  }
  return "unknown";
}

std::optional<ErrorCode> parse_error_code(std::string_view name) noexcept {
  for (int value = 1; value <= static_cast<int>(ErrorCode::Unreadable); ++value)
    if (const auto code = static_cast<ErrorCode>(value); to_string(code) == name) return code;
  return std::nullopt;
}

std::string Error::text() const { return field.empty() ? message : field + ": " + message; }

void check_failed(const char* condition, const char* file, int line, const char* message) {
  std::fprintf(stderr, "mc2: internal error at %s:%d: %s (%s)\n", file, line, message, condition);
  std::abort();
}

} // namespace mc2
