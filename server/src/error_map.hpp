#pragma once

#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/server/message.hpp"

namespace mc2::server {

/// The status that an expected failure becomes.
[[nodiscard]] int to_http_status(ErrorCode code) noexcept;

/// A problem document. The field is named unless it is a file's: no answer tells where the store lies.
[[nodiscard]] Response problem_of(const Error& error, std::string_view request_id);

/// One more member of a problem document (RFC 9457 §3.2).
struct ProblemMember {
  std::string name;
  std::string json; ///< its value
};

/// As above, with a member that says more.
[[nodiscard]] Response problem_of(const Error& error, std::string_view request_id, const ProblemMember& more);

} // namespace mc2::server
