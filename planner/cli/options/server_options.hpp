#pragma once

#include <chrono>
#include <string>

#include "commands/commands.hpp"
#include "context.hpp"
#include "mc2/client/client.hpp"
#include "mc2/client/plan_service.hpp"
#include "mc2/finder/plan_source.hpp"

namespace mc2::cli {

/// `--server URL` and the options that belong to it, or MC2_SERVER in the environment. They may be given before or
/// after the command; both set the same object.
struct ServerOptions {
  std::string url;          ///< empty: no server
  bool is_explicit = false; ///< given on the command line, not in the environment
  std::string token_file, ca_file;
  std::chrono::milliseconds wait = client::ServiceOptions().patience;

  void add_to(CLI::App& app);
  /// Adds --server, hidden from --help, to a command that asks no service, so that check_server_use() can say why not.
  void add_hidden_to(CLI::App& app);
  /// Takes options that are not given from the environment.
  void take_environment();
  [[nodiscard]] bool is_given() const noexcept { return !url.empty(); }

  /// Errors: InvalidSpec for a token file that cannot be read; as client::Client::open.
  [[nodiscard]] Result<client::Client> open() const;
  /// The service as a place of plans. Waits for an answer for at most `wait`, and keeps answers in the layers.
  /// Errors: as open().
  [[nodiscard]] Result<finder::PlanSource> source(finder::SharedLayers& layers) const;
  /// Errors: InvalidSpec when a server was given on the command line together with `option`, which answers without a
  /// server.
  [[nodiscard]] Result<void> refuse_beside(const char* option, const std::string& reason) const;

 private:
  /// The first line of --token-file, else MC2_SERVER_TOKEN; empty when neither is given. Errors: as read_token.
  [[nodiscard]] Result<std::string> token() const;
};

/// Warns on standard error if a token sent to `url` leaves this machine without TLS.
void note_unencrypted_token(const std::string& url);

/// The token in the first line of a file. Errors: InvalidSpec for an empty line; as read_file.
[[nodiscard]] Result<std::string> read_token(const std::string& file);

/// Errors: InvalidSpec, with the reason, when a server was given on the command line for a command that asks none.
[[nodiscard]] Result<void> check_server_use(const ServerOptions& server, const Command& command);

/// Tells on standard error where a plan came from, and why earlier sources had none.
void note_source(const finder::FoundPlan& found);

} // namespace mc2::cli
