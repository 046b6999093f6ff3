#include "options/server_options.hpp"

#include <arpa/inet.h>
#include <strings.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "options/numbers.hpp"

namespace mc2::cli {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// Why a command asks no service.
std::string reason_against(const std::string& command) {
  constexpr std::array kReasons{
      std::pair{"serve", "is the service itself; name its store with --store"},
      std::pair{"db", "works on the file of a store; run it where that file lies"},
      std::pair{"token", "works on the file of a store; run it where that file lies"},
      std::pair{"profile", "keeps samples in a store; mc2 push sends them on, mc2 tune --server does it all"},
      std::pair{"fit", "keeps a model in a store; mc2 push sends it on, mc2 tune --server does it all"},
      std::pair{"import", "keeps what it reads in a store; mc2 push sends it on"}};
  for (const auto& [name, reason] : kReasons)
    if (command == name) return reason;
  return "asks no service; leave it out";
}

/// Whether the URL has a loopback address or name, so that what is sent there stays on this machine.
bool is_local(const std::string& url) {
  const std::size_t begin = url.find("://");
  if (begin == std::string::npos) return false;
  const std::string authority = url.substr(begin + 3, url.find('/', begin + 3) - begin - 3);
  const bool has_brackets = authority.starts_with('[');
  const std::string host = authority.substr(0, has_brackets ? authority.find(']') + 1 : authority.find(':'));
  in_addr address{};
  const bool is_ipv4_loopback =
      inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24U) == 127;
  return is_ipv4_loopback || strcasecmp(host.c_str(), "localhost") == 0 || host == "[::1]";
}

} // namespace

void ServerOptions::add_hidden_to(CLI::App& app) {
  app.add_option_function<std::string>("--server",
                                       [this](const std::string& text) {
                                         url = text;
                                         is_explicit = true;
                                       })
      ->group("");
}

void ServerOptions::add_to(CLI::App& app) {
  add_hidden_to(app);
  app.get_option("--server")
      ->description(
          "ask this plan service (mc2 serve), e.g. http://plans:8471 or unix:/run/mc2.sock; default: MC2_SERVER in the "
          "environment")
      ->group("Service");
  app.add_option("--token-file", token_file,
                 "file with the service's token; default: MC2_SERVER_TOKEN in the environment")
      ->group("Service");
  app.add_option("--server-ca", ca_file,
                 "trusted certificates (PEM) for https; default: MC2_SERVER_CA, else the system's")
      ->group("Service");
  add_seconds(app, "server-wait", wait, "seconds to wait for a plan before planning without the service")
      ->group("Service");
}

void ServerOptions::take_environment() {
  if (url.empty()) url = environment("MC2_SERVER");
  if (ca_file.empty()) ca_file = environment("MC2_SERVER_CA");
}

void note_unencrypted_token(const std::string& url) {
  if (strncasecmp(url.c_str(), "http:", 5) == 0 && !is_local(url))
    std::cerr << "mc2: note: the token goes to " + url + " unencrypted; use https\n";
}

Result<std::string> read_token(const std::string& file) {
  MC2_ASSIGN(const auto content, read_file(file));
  const std::string token = content.substr(0, content.find_first_of("\r\n"));
  if (token.empty()) return Error{ErrorCode::InvalidSpec, file, "has no token in its first line"};
  return token;
}

Result<std::string> ServerOptions::token() const {
  return token_file.empty() ? environment("MC2_SERVER_TOKEN") : read_token(token_file);
}

Result<client::Client> ServerOptions::open() const {
  MC2_ASSIGN(const auto secret, token());
  client::Options options;
  options.url = url;
  options.token = secret;
  options.ca_file = ca_file;
  auto opened = client::Client::open(options);
  if (opened && !options.token.empty()) note_unencrypted_token(url);
  return opened;
}

Result<finder::PlanSource> ServerOptions::source(finder::SharedLayers& layers) const {
  MC2_ASSIGN(const auto client, open());
  client::ServiceOptions options;
  options.patience = wait;
  options.patience_name = "--server-wait";
  options.watches = false; // a command asks only once
  return client::plan_service(client, options, &layers, &utc_now);
}

Result<void> ServerOptions::refuse_beside(const char* option, const std::string& reason) const {
  if (!is_explicit) return {};
  return Error{ErrorCode::InvalidSpec, "--server",
               "cannot be combined with " + std::string(option) + ", which " + reason + "; give one of them"};
}

Result<void> check_server_use(const ServerOptions& server, const Command& command) {
  if (!server.is_explicit || command.takes_server) return {};
  return Error{ErrorCode::InvalidSpec, "--server",
               "mc2 " + command.app->get_name() + " " + reason_against(command.app->get_name())};
}

void note_source(const finder::FoundPlan& found) {
  std::string text = "mc2: note: plan from " + found.source;
  for (const auto& miss : found.misses) text += "; " + miss;
  std::cerr << text + "\n";
}

} // namespace mc2::cli
