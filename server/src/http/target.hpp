#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"

namespace mc2::server {

/// The parameters of a query, each given once. require_all_known() refuses parameters that no reading function was
/// called for, so that a misspelt name does not silently mean the default.
class Query {
 public:
  /// Errors: Malformed for a '%' without two hexadecimal digits; InvalidSpec for a name that comes twice.
  [[nodiscard]] static Result<Query> parse(std::string_view text);

  [[nodiscard]] std::optional<std::string> text(const std::string& name) const;
  /// The value of a parameter, from `least` to `most`; none where it is left out. Errors: InvalidSpec naming the
  /// parameter.
  [[nodiscard]] Result<std::optional<std::int64_t>> integer(const std::string& name, std::int64_t least,
                                                            std::int64_t most) const;
  [[nodiscard]] Result<std::optional<double>> real(const std::string& name) const;
  /// "true" or "false"; false when it is left out. Errors: InvalidSpec naming the parameter.
  [[nodiscard]] Result<bool> flag(const std::string& name) const;

  /// Errors: InvalidSpec naming the first parameter that no function above was called for.
  [[nodiscard]] Result<void> require_all_known() const;

 private:
  struct Value {
    std::string text;
    mutable bool is_known = false;
  };
  std::map<std::string, Value> values_;
};

/// The parts of a request target.
struct Target {
  std::string path; ///< decoded
  Query query;
};

struct UndonePercents {
  std::string text;
  bool is_malformed = false; ///< a '%' was followed by no two hexadecimal digits, or by 00, and stayed as it was
};
/// Undoes percent-encoding (RFC 3986 §2.1). In queries '+' becomes a blank, as forms write it.
[[nodiscard]] UndonePercents undo_percents(std::string_view text, bool is_query);

/// The decoded path. Errors: Malformed, as Query::parse.
[[nodiscard]] Result<std::string> decoded_path(std::string_view target);

/// Errors: as Query::parse.
[[nodiscard]] Result<Target> parse_target(std::string_view target);

} // namespace mc2::server
