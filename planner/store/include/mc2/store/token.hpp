#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// What the bearer of a token may do. Each role includes the roles before it.
enum class Role : std::uint8_t {
  Read,  ///< ask for plans, models and the like
  Write, ///< add to the store
  Admin, ///< remove from it
};

[[nodiscard]] std::string_view to_string(Role role) noexcept;
/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<Role> parse_role(std::string_view name);

/// A bearer token as the store keeps it, without the secret.
struct Token {
  std::string id; ///< 8 hexadecimal digits
  std::string name;
  Role role = Role::Read;
  std::string created_at; ///< ISO 8601 UTC, as the other two times
  std::string expires_at; ///< the first moment at which the token is not valid; empty: it does not expire
  std::string revoked_at; ///< empty: not revoked
  std::string hash;       ///< token_hash() of the token's text
  bool operator==(const Token&) const = default;
};

/// All tokens, also revoked and expired ones, oldest first.
struct TokenList {
  std::vector<Token> tokens;
  std::int64_t damaged_count = 0; ///< rows that fail their checksum; the service does not accept them
  [[nodiscard]] bool is_empty() const noexcept { return tokens.empty() && damaged_count == 0; }
};

/// A token that was just made, and its text, which the bearer shows and which is kept nowhere.
struct NewToken {
  std::string text;
  Token token;
};

/// Makes a token from the system's randomness. The caller keeps it by Store::add_token.
/// @param expires  as parse_end() takes it; none: never
/// @param now      ISO 8601 UTC
/// Errors: those of parse_end(), with the field "expires"; InvalidSpec for an empty text.
[[nodiscard]] Result<NewToken> make_token(Role role, std::string name, const std::optional<std::string>& expires,
                                          const std::string& now);

/// The list as JSON, by schemas/token_list.schema.json. @param now  decides which tokens are valid
[[nodiscard]] std::string encode(const TokenList& list, const std::string& now);

/// 4 bytes for the identifier, 32 for the secret.
using TokenRandomness = std::array<std::uint8_t, 36>;

/// The text of a new token, "mc2_<id>_<64 hexadecimal digits>". The secret has 256 random bits, so a fast hash resists
/// guessing as well as a slow one would (docs/adr/0009-tokens.md).
/// @param random  from a cryptographic source
[[nodiscard]] std::string token_text(const TokenRandomness& random);

/// The identifier within a token's text; empty if the text has another form.
[[nodiscard]] std::string_view token_id(std::string_view text) noexcept;

/// Whether any part of the text has the form of a token.
[[nodiscard]] bool holds_token(std::string_view text) noexcept;

/// BLAKE2b-256 in hexadecimal.
[[nodiscard]] std::string token_hash(std::string_view text);

/// Whether the text is that of the token, even if it is revoked or expired. Compares hashes in constant time.
[[nodiscard]] bool is_text_of(const Token& token, std::string_view text);

/// Whether the token is neither revoked nor expired at `now` (ISO 8601 UTC).
[[nodiscard]] bool is_valid_at(const Token& token, std::string_view now) noexcept;

} // namespace mc2::store

#pragma GCC visibility pop
