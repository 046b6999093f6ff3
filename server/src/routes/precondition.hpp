#pragma once

#include <optional>
#include <string>

#include "mc2/planner/error.hpp"
#include "mc2/server/message.hpp"

namespace mc2::server {

/// If-Match and If-None-Match of a request that writes (RFC 9110 §13.1): which document the request may replace or
/// remove. A document's tag is its digest.
class Precondition {
 public:
  explicit Precondition(const Request& request) : request_(request) {}

  /// Errors: Malformed, naming the header, for a value that is not as RFC 9110 has it, e.g. a digest without quotes. A
  /// write without the condition that its client meant could replace what somebody else has kept.
  [[nodiscard]] Result<void> validate() const;

  /// Whether the request may replace or remove the document of this digest; none: there is no document in this place
  /// yet. To replace a document, call it within the transaction that writes.
  [[nodiscard]] bool allows(const std::optional<std::string>& kept_digest);

  /// 412 after allows() has returned false; else nothing.
  [[nodiscard]] std::optional<Response> refusal() const;

 private:
  const Request& request_;
  std::string objection_; ///< empty: no objection
};

} // namespace mc2::server
