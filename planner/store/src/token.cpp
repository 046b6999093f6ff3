#include "mc2/store/token.hpp"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <sodium.h>

#include <span>
#include <utility>

#include "codec_parts.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/dates.hpp"
#include "records.hpp"
#include "store_impl.hpp"

namespace mc2::store {
namespace {

constexpr mc2::Name<Role> kRoleNames[]{{Role::Read, "read"}, {Role::Write, "write"}, {Role::Admin, "admin"}};

constexpr std::string_view kPrefix = "mc2_";
constexpr std::size_t kIdBytes = 4, kIdDigits = 2 * kIdBytes, kSecretDigits = 64;
constexpr std::size_t kTextLength = kPrefix.size() + kIdDigits + 1 + kSecretDigits;
constexpr std::size_t kMaxNameBytes = 64;
constexpr const char* kTokenColumns = "id, name, role, created_at, expires_at, revoked_at, hash";

std::string checksum(const Token& token) {
  return hashed({"token", token.id, token.name, to_string(token.role), token.created_at, token.expires_at,
                 token.revoked_at, token.hash});
}

bool has_table(SQLite::Database& database) {
  return database.execAndGet("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'token'").getInt() > 0;
}

/// Errors: Corrupt.
Result<Token> read_token(const SQLite::Statement& statement) {
  const auto text = [&](int column) { return statement.getColumn(column).getString(); };
  const auto role = parse_role(text(2));
  Token token{text(0), text(1), role ? role.value() : Role::Read, text(3), text(4), text(5), text(6)};
  if (role && checksum(token) == text(7)) return token;
  return Error{ErrorCode::Corrupt, "token", "fails its checksum"};
}

void bind_all(SQLite::Statement& statement, const Token& token) {
  int index = 0;
  for (const std::string& text : {token.id, token.name, std::string(to_string(token.role)), token.created_at,
                                  token.expires_at, token.revoked_at, token.hash, checksum(token)})
    statement.bind(++index, text);
}

void replace(SQLite::Database& database, const Token& token) {
  SQLite::Statement statement(database, std::string("REPLACE INTO token (") + kTokenColumns +
                                            ", checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
  bind_all(statement, token);
  statement.exec();
}

} // namespace

std::string_view to_string(Role role) noexcept { return name_of<Role>(kRoleNames, role); }
Result<Role> parse_role(std::string_view name) { return parse_name<Role>(kRoleNames, name, "role"); }

std::string token_text(const TokenRandomness& random) {
  const std::span bytes(random);
  return std::string(kPrefix) + to_hex(bytes.first(kIdBytes)) + "_" + to_hex(bytes.subspan(kIdBytes));
}

std::string_view token_id(std::string_view text) noexcept {
  const bool has_form =
      text.size() == kTextLength && text.starts_with(kPrefix) && text[kPrefix.size() + kIdDigits] == '_';
  return has_form ? text.substr(kPrefix.size(), kIdDigits) : std::string_view();
}

bool holds_token(std::string_view text) noexcept {
  for (std::size_t at = text.find(kPrefix); at != std::string_view::npos; at = text.find(kPrefix, at + 1))
    if (!token_id(text.substr(at, kTextLength)).empty()) return true;
  return false;
}

std::string token_hash(std::string_view text) {
  initialise_sodium();
  std::array<std::uint8_t, crypto_generichash_BYTES> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), nullptr,
                     0);
  return to_hex(hash);
}

bool is_text_of(const Token& token, std::string_view text) {
  const std::string hash = token_hash(text);
  return hash.size() == token.hash.size() && sodium_memcmp(hash.data(), token.hash.data(), hash.size()) == 0;
}

bool is_valid_at(const Token& token, std::string_view now) noexcept {
  return token.revoked_at.empty() && (token.expires_at.empty() || now < token.expires_at);
}

Result<NewToken> make_token(Role role, std::string name, const std::optional<std::string>& expires,
                            const std::string& now) {
  std::string expires_at;
  if (expires && expires->empty()) // e.g. an unset variable of a script
    return Error{ErrorCode::InvalidSpec, "expires", "is empty; leave it out for a token that does not end"};
  if (expires) {
    MC2_ASSIGN(expires_at, parse_end(*expires, "expires", now));
  }
  initialise_sodium();
  TokenRandomness random{};
  randombytes_buf(random.data(), random.size());
  std::string text = token_text(random);
  Token token{std::string(token_id(text)), std::move(name), role, now, std::move(expires_at), {}, token_hash(text)};
  return NewToken{std::move(text), std::move(token)};
}

std::string encode(const TokenList& list, const std::string& now) {
  Json tokens = Json::array();
  for (const Token& token : list.tokens) {
    Json entry{{"token", token.id},
               {"role", to_string(token.role)},
               {"name", token.name},
               {"created_at", token.created_at},
               {"is_valid", is_valid_at(token, now)}};
    if (!token.expires_at.empty()) entry["expires_at"] = token.expires_at;
    if (!token.revoked_at.empty()) entry["revoked_at"] = token.revoked_at;
    tokens.push_back(std::move(entry));
  }
  return dump(
      {{"damaged_count", list.damaged_count}, {"schema", schema_name("token_list")}, {"tokens", std::move(tokens)}});
}

Result<void> Store::add_token(const Token& token) {
  if (token.name.size() > kMaxNameBytes || has_control(token.name))
    return Error{ErrorCode::InvalidSpec, "name", "must be at most 64 bytes without control characters"};
  return impl_->write("Store::add_token", [&]() -> Result<void> {
    SQLite::Statement same(impl_->database, "SELECT 1 FROM token WHERE id = ?1");
    same.bind(1, token.id);
    if (same.executeStep())
      return impl_->error(ErrorCode::Mismatch, "has a token " + token.id + " already; make another one");
    replace(impl_->database, token);
    return {};
  });
}

Result<void> Store::revoke_token(const std::string& id, const std::string& now) {
  return impl_->write("Store::revoke_token", [&]() -> Result<void> {
    SQLite::Statement find(impl_->database,
                           std::string("SELECT ") + kTokenColumns + ", checksum FROM token WHERE id = ?1");
    find.bind(1, id);
    if (!find.executeStep())
      return impl_->error(ErrorCode::NotFound,
                          "has no token " + in_quotes(id) + "; mc2 token list shows those there are");
    auto token = read_token(find);
    if (!token)
      return impl_->error(ErrorCode::Corrupt, "holds a damaged token " + id + ", which lets nobody in as it is");
    find.reset();
    if (token.value().revoked_at.empty()) token.value().revoked_at = now;
    replace(impl_->database, token.value());
    return {};
  });
}

Result<TokenList> Store::list_tokens() const {
  return impl_->read("Store::list_tokens", [&]() -> Result<TokenList> {
    TokenList list;
    if (!has_table(impl_->database)) return list;
    SQLite::Statement statement(
        impl_->database, std::string("SELECT ") + kTokenColumns + ", checksum FROM token ORDER BY created_at, id");
    while (statement.executeStep()) {
      auto token = read_token(statement);
      if (token)
        list.tokens.push_back(std::move(token).value());
      else
        ++list.damaged_count;
    }
    return list;
  });
}

std::vector<Damage> scan_tokens(SQLite::Database& database, std::int64_t& row_count) {
  std::vector<Damage> damages;
  if (!has_table(database)) return damages;
  SQLite::Statement statement(database, std::string("SELECT ") + kTokenColumns + ", checksum, rowid FROM token");
  for (; statement.executeStep(); ++row_count)
    if (!read_token(statement))
      damages.push_back({"token", statement.getColumn(8).getInt64(), "fails its checksum: it lets nobody in"});
  return damages;
}

} // namespace mc2::store
