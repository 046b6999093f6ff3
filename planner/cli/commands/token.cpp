#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>

#include "commands/commands.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "pages/render.hpp"
#include "pages/report.hpp"

namespace mc2::cli {
namespace {

struct TokenCommand {
  StoreOptions store;
  std::string role, name, id;
  std::optional<std::string> expires;
  bool is_json = false;
  Action action; ///< of the subcommand that was parsed

  [[nodiscard]] Result<ExitCode> create() const;
  [[nodiscard]] Result<ExitCode> list() const;
  [[nodiscard]] Result<ExitCode> revoke() const;
};

Result<ExitCode> TokenCommand::create() const {
  MC2_ASSIGN(const auto parsed_role, store::parse_role(role));
  const auto made = store::make_token(parsed_role, name, expires, utc_now());
  if (!made) return Error{made.error().code, "--" + made.error().field, made.error().message};
  const auto& [text, token] = made.value();
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::ReadWrite));
  MC2_TRY(opened.add_token(token));
  std::cerr << "mc2: token " + token.id + " (" + role + ", " +
                   (token.expires_at.empty() ? "never expires" : "until " + token.expires_at) +
                   ") follows; it is not shown again\n";
  std::cout << text << "\n";
  return ExitCode::Success;
}

std::string state_of(const store::Token& token, const std::string& now) {
  if (!token.revoked_at.empty()) return "revoked " + token.revoked_at;
  return store::is_valid_at(token, now) ? "valid" : "expired";
}

std::string tokens_page(const store::TokenList& listed, const std::string& now) {
  std::vector<std::vector<std::string>> rows{{"token", "role", "name", "made", "expires", "state"}};
  for (const store::Token& token : listed.tokens)
    rows.push_back({token.id, std::string(to_string(token.role)), token.name.empty() ? "-" : token.name,
                    token.created_at, token.expires_at.empty() ? "never" : token.expires_at, state_of(token, now)});
  return table(rows);
}

Result<ExitCode> TokenCommand::list() const {
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::ReadOnly));
  MC2_ASSIGN(const auto listed, opened.list_tokens());
  if (is_json)
    std::cout << store::pretty(store::encode(listed, utc_now()));
  else
    std::cout << tokens_page(listed, utc_now());
  if (listed.damaged_count > 0)
    std::cerr << "mc2: note: " << listed.damaged_count
              << " damaged tokens are not listed and let nobody in; mc2 db check says which\n";
  return ExitCode::Success;
}

Result<ExitCode> TokenCommand::revoke() const {
  MC2_TRY(store.open_own(store::OpenMode::ReadOnly)); // a store that is missing is not made
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::ReadWrite));
  MC2_TRY(opened.revoke_token(id, utc_now()));
  std::cout << "token " << id << " lets nobody in any more\n";
  return ExitCode::Success;
}

} // namespace

Command add_token(CLI::App& app) {
  auto command = std::make_shared<TokenCommand>();
  auto* token = app.add_subcommand("token", "manage the tokens that the service accepts");
  token->require_subcommand(1);
  auto* create = add_part(*token, command, "create", "make a token and print it; it is not shown again",
                          "create --role write --name ci --expires 90d", &TokenCommand::create);
  create->add_option("--role", command->role, "read (ask only), write (also add) or admin (also remove)")->required();
  create->add_option("--name", command->name, "name of the token in lists, e.g. its purpose");
  create->add_option("--expires", command->expires, "when the token expires, e.g. 12h, 30d or 2027-01-31 (UTC)");
  add_json(*add_part(*token, command, "list", "list the tokens with role, name and state, not their secrets", "list",
                     &TokenCommand::list),
           command->is_json, "the tokens");
  add_part(*token, command, "revoke", "stop accepting a token, also in a running service", "revoke 1f2e3d4c",
           &TokenCommand::revoke)
      ->add_option("TOKEN", command->id, "the token's id, the first column of mc2 token list")
      ->required();
  token->footer(
      "Once a store has a token, mc2 serve answers only requests with a token.\n\nExamples:\n  mc2 token create --role "
      "read\n"
      "  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8471/v1/plans");
  return {token, [command] { return command->action(); }};
}

} // namespace mc2::cli
