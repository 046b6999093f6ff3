#pragma once

#include <optional>
#include <string>

#include "mc2/server/message.hpp"

namespace mc2::server {

/// If-Match and If-None-Match of a request that writes (RFC 9110 §13.1): what may stand where it writes. A document's
/// tag is its digest.
class Precondition {
 public:
  explicit Precondition(const Request& request) : request_(request) {}

  /// Whether the request may replace or remove the document of this digest; none: there is no such document. Asked by
  /// the store within the transaction that writes.
  [[nodiscard]] bool allows(const std::optional<std::string>& kept_digest);

  /// 412, once it was asked and the answer was no.
  [[nodiscard]] std::optional<Response> refusal() const;

 private:
  const Request& request_;
  std::string objection_; ///< empty: none
};

} // namespace mc2::server
