#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"

namespace mc2::server {

/// Parameters of a query, each once. What nobody has asked for is refused in the end, so that a misspelt name is not
/// taken for a default.
class Query {
 public:
  /// Errors: Malformed for escapes that are none; InvalidSpec for a name that comes twice.
  [[nodiscard]] static Result<Query> parse(std::string_view text);

  [[nodiscard]] std::optional<std::string> text(const std::string& name) const;
  /// Errors: InvalidSpec naming the parameter.
  [[nodiscard]] Result<std::optional<std::int64_t>> integer(const std::string& name) const;
  [[nodiscard]] Result<std::optional<double>> real(const std::string& name) const;
  /// "true" or "false"; false when it is left out.
  [[nodiscard]] Result<bool> flag(const std::string& name) const;

  /// Errors: InvalidSpec naming the first parameter that was not asked for.
  [[nodiscard]] Result<void> require_all_known() const;

 private:
  struct Value {
    std::string text;
    mutable bool is_known = false;
  };
  std::map<std::string, Value> values_;
};

/// A request target taken apart.
struct Target {
  std::string path; ///< decoded
  Query query;
};

/// Whether a parameter is a token. There it would stand in the logs of whatever passes it on, and in the address that a
/// browser remembers (RFC 6750 §2.3).
[[nodiscard]] bool has_token(std::string_view target);
/// The target as a log may have it: where it has a token, without the query.
[[nodiscard]] std::string without_tokens(std::string_view target);

/// What stands before the query, decoded. Errors: Malformed, as Query::parse.
[[nodiscard]] Result<std::string> decoded_path(std::string_view target);

/// Errors: Malformed, as Query::parse.
[[nodiscard]] Result<Target> parse_target(std::string_view target);

} // namespace mc2::server
