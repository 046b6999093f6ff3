#include "mc2/store/token.hpp"

#include <gtest/gtest.h>

#include "examples.hpp"
#include "mc2/store/store.hpp"
#include "place.hpp"
#include "raw_sql.hpp"

namespace mc2::store::token_test {
namespace {

TokenRandomness bytes(std::uint8_t first) {
  TokenRandomness random{};
  for (std::uint8_t& byte : random) byte = first++;
  return random;
}

Token made(std::uint8_t first, Role role = Role::Read) {
  const std::string text = token_text(bytes(first));
  return {std::string(token_id(text)), "ci", role, examples::kNow, {}, {}, token_hash(text)};
}

struct TokenStore {
  place::TemporaryDirectory directory;
  std::filesystem::path path = directory / "mc2.db";
  Store store = Store::open(path, OpenMode::ReadWrite).value();
};

TEST(Token, TextBeginsWithItsIdentifierAndHoldsAllRandomness) {
  // 36 bytes 0x00 ... 0x23 in hexadecimal, 4 of them the identifier.
  EXPECT_EQ(token_text(bytes(0)), "mc2_00010203_0405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223");
  EXPECT_EQ(token_id(token_text(bytes(0xa0))), "a0a1a2a3");
}

TEST(Token, OtherTextsHaveNoIdentifier) {
  const std::string text = token_text(bytes(0));
  for (const std::string& other :
       {std::string(), text.substr(1), text + "0", "mc3" + text.substr(3), text.substr(0, 12) + "-" + text.substr(13)})
    EXPECT_EQ(token_id(other), "") << other;
}

TEST(Token, IsRecognisedByItsWholeTextOnly) {
  const std::string text = token_text(bytes(7));
  const Token token = made(7);
  EXPECT_TRUE(is_text_of(token, text));
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = other[i] == '0' ? '1' : '0';
    EXPECT_FALSE(is_text_of(token, other)) << i;
  }
  Token empty = token;
  empty.hash.clear();
  EXPECT_FALSE(is_text_of(empty, ""));
}

TEST(Token, HashIsBlake2b) {
  // BLAKE2b-256 of "abc": python3 -c 'import hashlib; print(hashlib.blake2b(b"abc", digest_size=32).hexdigest())'
  EXPECT_EQ(token_hash("abc"), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(Token, CountsUntilItExpiresOrIsRevoked) {
  Token token = made(1);
  EXPECT_TRUE(is_valid_at(token, "9999-12-31T23:59:59Z"));
  token.expires_at = "2027-01-31T00:00:00Z";
  EXPECT_TRUE(is_valid_at(token, "2027-01-30T23:59:59Z"));
  EXPECT_FALSE(is_valid_at(token, "2027-01-31T00:00:00Z"));
  token.revoked_at = "2026-01-01T00:00:00Z";
  EXPECT_FALSE(is_valid_at(token, "2026-06-01T00:00:00Z"));
}

TEST(Token, EveryRoleReadsBack) {
  for (const Role role : {Role::Read, Role::Write, Role::Admin}) EXPECT_EQ(parse_role(to_string(role)).value(), role);
  EXPECT_EQ(parse_role("root").error().code, ErrorCode::UnknownName);
}

TEST(TokenStore, KeepsTokensAndRaisesTheRevision) {
  TokenStore kept;
  EXPECT_TRUE(kept.store.list_tokens().value().is_empty());
  const auto before = kept.store.token_revision().value();
  ASSERT_TRUE(kept.store.add_token(made(1, Role::Write)).ok());
  EXPECT_GT(kept.store.token_revision().value(), before);
  EXPECT_EQ(kept.store.list_tokens().value().tokens, std::vector<Token>{made(1, Role::Write)});
  EXPECT_TRUE(kept.store.check().is_healthy);
}

TEST(TokenStore, RevokedTokensStayListed) {
  TokenStore kept;
  ASSERT_TRUE(kept.store.add_token(made(1)).ok());
  const auto before = kept.store.token_revision().value();
  ASSERT_TRUE(kept.store.revoke_token(made(1).id, "2026-02-01T00:00:00Z").ok());
  EXPECT_GT(kept.store.token_revision().value(), before);
  ASSERT_TRUE(kept.store.revoke_token(made(1).id, "2026-03-01T00:00:00Z").ok()) << "once more does no harm";
  const TokenList list = kept.store.list_tokens().value();
  ASSERT_EQ(list.tokens.size(), 1U);
  EXPECT_EQ(list.tokens.front().revoked_at, "2026-02-01T00:00:00Z");
  EXPECT_EQ(kept.store.revoke_token("ffffffff", examples::kNow).error().code, ErrorCode::NotFound);
}

TEST(TokenStore, RefusesTheSameIdentifierAndNamesThatBreakLines) {
  TokenStore kept;
  ASSERT_TRUE(kept.store.add_token(made(1)).ok());
  EXPECT_EQ(kept.store.add_token(made(1)).error().code, ErrorCode::Mismatch);
  for (const std::string& name : {std::string("a\nb"), std::string(65, 'x')}) {
    Token token = made(2);
    token.name = name;
    EXPECT_EQ(kept.store.add_token(token).error().code, ErrorCode::InvalidSpec);
  }
}

TEST(TokenStore, ChangedRowsLetNobodyInAndAreReported) {
  for (const char* change : {"role = 'admin'", "role = 'x'", "revoked_at = ''", "expires_at = '9999'", "name = 'x'",
                             "hash = '00'", "id = 'ffffffff'", "created_at = ''", "checksum = ''"}) {
    TokenStore kept;
    ASSERT_TRUE(kept.store.add_token(made(1)).ok());
    ASSERT_TRUE(kept.store.revoke_token(made(1).id, "2026-02-01T00:00:00Z").ok());
    execute(kept.path, std::string("UPDATE token SET ") + change);
    const TokenList list = kept.store.list_tokens().value();
    EXPECT_TRUE(list.tokens.empty()) << change;
    EXPECT_EQ(list.damaged_count, 1) << change;
    EXPECT_FALSE(list.is_empty()) << change;
    EXPECT_FALSE(kept.store.check().is_healthy) << change;
  }
}

TEST(TokenStore, TokensAreNeitherExportedNorMerged) {
  TokenStore one, two;
  ASSERT_TRUE(one.store.add_token(made(1)).ok());
  EXPECT_EQ(one.store.export_json().value().find(made(1).hash), std::string::npos);
  ASSERT_TRUE(two.store.merge(one.store).ok());
  EXPECT_TRUE(two.store.list_tokens().value().is_empty());
}

} // namespace
} // namespace mc2::store::token_test
