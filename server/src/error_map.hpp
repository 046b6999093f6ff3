#pragma once

#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/server/message.hpp"

namespace mc2::server {

/// The HTTP status of an expected failure.
[[nodiscard]] int to_http_status(ErrorCode code) noexcept;

/// The problem document of an error. It names the error's field, unless that is a path: no answer tells where the store
/// is.
[[nodiscard]] Response problem_of(const Error& error, std::string_view request_id);

/// An additional member of a problem document (RFC 9457 §3.2).
struct ProblemMember {
  std::string name;
  std::string json; ///< the member's value
};

/// The problem document of an error, with an additional member.
[[nodiscard]] Response problem_of(const Error& error, std::string_view request_id, const ProblemMember& more);

} // namespace mc2::server
