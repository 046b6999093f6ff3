#pragma once

#include <string>

#include "commands/commands.hpp"
#include "context.hpp"
#include "mc2/client/client.hpp"
#include "mc2/client/plan_service.hpp"
#include "mc2/finder/plan_source.hpp"

namespace mc2::cli {

/// `--server URL` and what goes with it, before the command or after it; MC2_SERVER in the environment. One object for
/// the whole command line.
struct ServerOptions {
  std::string url;          ///< empty: none
  bool is_explicit = false; ///< named on the command line, not in the environment
  std::string token_file, ca_file;
  double wait_s = 0.03;

  void add_to(CLI::App& app);
  /// For a command that asks no service, so that check_use() can say why not. Not shown by --help.
  void add_hidden_to(CLI::App& app);
  /// Completes the options from the environment.
  void take_environment();
  [[nodiscard]] bool is_given() const noexcept { return !url.empty(); }

  /// Errors: InvalidSpec for a token file that cannot be read; as client::Client::open.
  [[nodiscard]] Result<client::Client> open() const;
  /// Waits for `wait_s`; keeps answers in the layers.
  /// Errors: as open().
  [[nodiscard]] Result<finder::PlanSource> source(finder::SharedLayers& layers) const;
  /// Errors: InvalidSpec when a server was named on the command line although `option` answers without one.
  [[nodiscard]] Result<void> refuse_beside(const char* option, const std::string& reason) const;

 private:
  /// MC2_SERVER_TOKEN, or the first line of --token-file; empty when neither is given.
  [[nodiscard]] Result<std::string> token() const;
};

/// Tells on standard error of a token that leaves this machine without TLS.
void note_unencrypted_token(const std::string& url);

/// The first line of a file. Errors: InvalidSpec, and as read_file.
[[nodiscard]] Result<std::string> read_token(const std::string& file);

/// Errors: InvalidSpec when a server was named for a command that asks none, with the reason.
[[nodiscard]] Result<void> check_server_use(const ServerOptions& server, const Command& command);

/// Tells on standard error where a plan came from and why sources before had none.
void note_source(const finder::FoundPlan& found);

} // namespace mc2::cli
