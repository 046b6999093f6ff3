#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// What a token lets its bearer do: each may do what those before it may.
enum class Role : std::uint8_t {
  Read,  ///< ask for plans, models and the like
  Write, ///< add to the store
  Admin, ///< remove from it
};

[[nodiscard]] std::string_view to_string(Role role) noexcept;
/// Errors: UnknownName naming the legal ones.
[[nodiscard]] Result<Role> parse_role(std::string_view name);

/// A bearer token as the store keeps it: without the secret.
struct Token {
  std::string id; ///< 8 hexadecimal digits
  std::string name;
  Role role = Role::Read;
  std::string created_at; ///< ISO 8601 UTC, as the other times
  std::string expires_at; ///< the first moment at which it no longer counts; empty: never
  std::string revoked_at; ///< empty: it is not
  std::string hash;       ///< BLAKE2b-256 of the text, in hexadecimal
  bool operator==(const Token&) const = default;
};

/// Every token, revoked and expired ones included, oldest first.
struct TokenList {
  std::vector<Token> tokens;
  std::int64_t damaged_count = 0; ///< rows that fail their checksum: they let nobody in
  [[nodiscard]] bool is_empty() const noexcept { return tokens.empty() && damaged_count == 0; }
};

/// A token that was just made, with what its bearer shows: kept nowhere.
struct NewToken {
  std::string text;
  Token token;
};

/// Makes one from the system's randomness, to be kept by Store::add_token.
/// @param expires  as parse_end() takes it; empty: never
/// @param now      ISO 8601 UTC
/// Errors: those of parse_end(), with the field "expires".
[[nodiscard]] Result<NewToken> make_token(Role role, std::string name, const std::string& expires,
                                          const std::string& now);

/// As schemas/token_list.schema.json has it.
[[nodiscard]] std::string encode(const TokenList& list, const std::string& now);

/// 4 bytes for the identifier, 32 for the secret.
using TokenRandomness = std::array<std::uint8_t, 36>;

/// A new token's text, "mc2_<id>_<64 hexadecimal digits>". The secret is 256 random bits, so that a fast hash of it
/// withstands guessing as well as a slow one (docs/adr/0009-tokens.md).
/// @param random  from a cryptographic source
[[nodiscard]] std::string token_text(const TokenRandomness& random);

/// The identifier within a token's text; empty when the text has another form.
[[nodiscard]] std::string_view token_id(std::string_view text) noexcept;

/// BLAKE2b-256 in hexadecimal.
[[nodiscard]] std::string token_hash(std::string_view text);

/// Whether the text is the token's own, whatever its state. Takes equally long however much of it is right.
[[nodiscard]] bool is_text_of(const Token& token, std::string_view text);

/// Whether it counts. @param now  ISO 8601 UTC
[[nodiscard]] bool is_valid_at(const Token& token, std::string_view now) noexcept;

} // namespace mc2::store

#pragma GCC visibility pop
