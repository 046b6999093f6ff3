#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "access_log.hpp"
#include "commands/commands.hpp"
#include "mc2/server/listener.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/dates.hpp"
#include "options/numbers.hpp"
#include "options/server_options.hpp"

namespace mc2::cli {
namespace {

/// The settings as people type them; those of `config` that need no conversion go there directly.
struct ServeSettings {
  server::Config config;
  StoreOptions store;
  std::int64_t history_interval_s = config.history_interval.count();
  std::string keep_samples, keep_models, keep_measurements; ///< how long, e.g. "180d"; empty: for ever
  std::string follow_token_file;
};

struct ServeCommand {
  ServeSettings settings;
  std::optional<ServeSettings> given; ///< from command line and environment; set before the file is first read
  std::string config_file;
  CLI::App* options = nullptr;
  std::vector<CLI::Option*> from_file;
  std::map<std::string, std::string> in_force; ///< the value of every option that the process runs with

  void add_to(CLI::App& app);
  void add_limits_to(CLI::App& app);
  void add_access_to(CLI::App& app);
  void add_replica_to(CLI::App& app);
  /// Takes from the file the settings that neither the command line nor the environment has. Errors: Malformed naming
  /// file and setting.
  [[nodiscard]] Result<void> read_config_file();
  /// The settings that are valid now. Reads the file each time it is called.
  [[nodiscard]] Result<server::Config> complete();
  void reload(server::Listener& listener);
  [[nodiscard]] Result<ExitCode> run();
};

const std::string kVariablePrefix = "MC2_SERVE_";

/// The environment variable of an option: MC2_SERVE_PORT for "port".
std::string variable_of(const std::string& option) {
  std::string variable = kVariablePrefix + option;
  for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

template <typename Value>
CLI::Option* add(CLI::App& app, const std::string& name, Value& value, const std::string& help) {
  return app.add_option("--" + name, value, help)->envname(variable_of(name))->capture_default_str();
}

/// Refuses words that are no truth value. CLI11 would throw an exception of the standard library for them.
CLI::Validator true_or_false() {
  return {[](std::string& text) {
            static const std::set<std::string> kLegal{"true", "on", "yes", "1", "false", "off", "no", "0"};
            const bool is_legal = kLegal.contains(CLI::detail::to_lower(text));
            return is_legal ? std::string()
                            : "is '" + text.substr(0, 32) + "'; legal: true or false (or on, yes, 1, off, no, 0)";
          },
          ""};
}

void add_flag(CLI::App& app, const std::string& name, std::function<void(bool)> set, const std::string& help) {
  app.add_flag_function(
         "--" + name, [set = std::move(set)](std::int64_t count) { set(count > 0); }, help)
      ->envname(variable_of(name))
      ->check(true_or_false());
}

/// Refuses numbers below 0, which an unsigned value would wrap.
CLI::Validator a_size() { return whole_number(0, std::numeric_limits<std::int64_t>::max()); }

/// Refuses other texts, for which CLI11 does not say what is legal.
CLI::Validator within(server::WholeRange legal) { return whole_number(legal.low, legal.high); }

CLI::Validator a_rate() { return real_number(0, server::kMostPerSecond); }

/// Tells of variables that look like settings and are none. They are no error: Kubernetes makes such ones of a
/// service's name.
void note_unknown_variables(const CLI::App& app) {
  std::set<std::string> known;
  for (const CLI::Option* option : app.get_options()) known.insert(option->get_envname());
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string name(*each, std::strcspn(*each, "="));
    if (name.starts_with(kVariablePrefix) && !known.contains(name))
      std::cerr << "mc2: note: " + name + " is set, but mc2 serve has no such setting; mc2 serve --help lists them\n";
  }
}

void ServeCommand::add_to(CLI::App& app) {
  options = &app;
  server::Config& config = settings.config;
  add(app, "config", config_file, "a JSON object with these options, e.g. {\"port\": 9000}");
  add(app, "address", config.address,
      "IP address to listen on; an address other than loopback can be reached from the network");
  add(app, "port", config.port, "TCP port; 0 takes a free port and prints it")->check(whole_number(0, 65'535));
  add(app, "unix-socket", config.unix_socket, "listen on this Unix socket, too");
  add(app, "store", settings.store.path, "the store to serve");
  add(app, "threads", config.thread_count, "threads that answer; 0: as many as cores")
      ->check(within(server::kLegalThreads));
  add(app, "cached-answers", config.cached_answer_count, "answers kept in memory")->check(a_size());
  add(app, "cached-answer-bytes", config.cached_answer_bytes,
      "most memory for cached answers, their compressed copies and their questions")
      ->check(a_size());
  add(app, "access-log", config.has_access_log, "a JSON line on standard error for every answer")
      ->check(true_or_false());
  add_access_to(app);
  add_replica_to(app);
  add_limits_to(app);
  app.footer(
      "The command line overrides the environment (MC2_SERVE_PORT for --port), which\n"
      "overrides --config. SIGTERM or Ctrl-C stops the service after the requests in\n"
      "flight; SIGHUP makes it read --config and the certificate again.\n\n"
      "Example:\n  mc2 serve --port 8471 &\n  curl 'http://127.0.0.1:8471/v1/plan?m=1024&n=1024&k=1024'");
}

void ServeCommand::add_access_to(CLI::App& app) {
  add(app, "tls-certificate", settings.config.tls_certificate,
      "PEM file with the certificate and its chain; the service then speaks TLS only");
  add(app, "tls-key", settings.config.tls_key, "PEM file of the certificate's key, without passphrase");
  add_flag(
      app, "require-tokens", [this](bool is_on) { settings.config.requires_tokens = is_on; },
      "answer only requests with a token (mc2 token create); default: on once the store has had a token");
  add_flag(
      app, "public-read", [this](bool is_on) { settings.config.has_public_read = is_on; },
      "requests that only read need no token");
  add_flag(
      app, "insecure-network", [this](bool is_on) { settings.config.allows_insecure_network = is_on; },
      "allow an address that the network can reach without tokens or TLS, e.g. behind a proxy that has both");
}

void ServeCommand::add_replica_to(CLI::App& app) {
  server::Leader& leader = settings.config.leader;
  add(app, "follow", leader.url, "serve a replica of the store of this service, the leader");
  add(app, "follow-token-file", settings.follow_token_file, "file with the token for the leader");
  add(app, "follow-ca", leader.ca_file, "trusted certificates (PEM) for the leader's https; default: the system's");
  add_flag(
      app, "forward-writes", [this](bool is_on) { settings.config.leader.is_sent_documents = is_on; },
      "replica: forward writes and removals to the leader with that token, for clients with a token of this replica; "
      "default: refuse them");
}

void ServeCommand::add_limits_to(CLI::App& app) {
  server::Limits& limits = settings.config.limits;
  const auto add_count = [&app](const std::string& name, auto& value, server::WholeRange legal,
                                const std::string& help) { add(app, name, value, help)->check(within(legal)); };
  add_count("header-bytes", limits.header_bytes, server::kLegalHeaderBytes, "most bytes of a request's headers");
  add_count("body-bytes", limits.body_bytes, server::kLegalBodyBytes, "most bytes of a request's body");
  add_count("upload-bytes", limits.upload_bytes, server::kLegalBodyBytes,
            "most bytes of an upload (model, samples or logs)");
  add_count("uploads", limits.upload_count, server::kLegalUploads,
            "most uploads above --body-bytes at a time; more are answered 503");
  add_count("connections", limits.connection_count, server::kLegalConnections,
            "most connections at a time; more are answered 503");
  add_count("connections-of-address", limits.connection_count_of_address, server::kLegalConnectionsOfAddress,
            "most connections of one client address; 0: no limit");
  add_count("watchers", limits.watcher_count, server::kLegalWatchers,
            "most clients that wait for changes at a time; more are answered 503");
  add(app, "least-free-bytes", limits.least_free_bytes,
      "least free space on the store's disk; with less, /readyz answers 503")
      ->check(a_size());
  add(app, "requests-per-s", limits.requests_per_s, "most requests per second of one client address; 0: no limit")
      ->check(a_rate());
  add(app, "refused-tokens-per-s", limits.refused_tokens_per_s,
      "most answers 401 per second to one client address, then 429; 0: no limit")
      ->check(a_rate());
  add(app, "keep-samples", settings.keep_samples, "remove samples older than this, e.g. 180d; default: never");
  add(app, "keep-models", settings.keep_models, "remove models older than this, even those in use; default: never");
  add(app, "keep-measurements", settings.keep_measurements, "remove measurements older than this; default: never");
  add(app, "history-interval", settings.history_interval_s,
      "seconds between points of the store's history; 0: keep no history")
      ->check(whole_number(0, 86'400));
  const auto add_time = [&app](const std::string& name, std::chrono::milliseconds& value, const std::string& help) {
    add_seconds(app, name, value, help)->envname(variable_of(name));
  };
  add_time("header-timeout", limits.header_timeout, "seconds to receive a request's headers");
  add_time("body-timeout", limits.body_timeout, "seconds to receive a body, and to send each 256 KiB of an answer");
  add_time("idle-timeout", limits.idle_timeout, "seconds that a connection may stay open between requests");
  add_time("drain-timeout", limits.drain_timeout, "seconds that a stop waits for requests in flight");
}

Result<void> ServeCommand::read_config_file() {
  if (config_file.empty()) return {};
  MC2_ASSIGN(const auto content, read_file(config_file));
  if (const auto fault = store::require_json(content); !fault) return document_error(config_file, fault.error());
  const auto json = nlohmann::json::parse(content);
  if (!json.is_object())
    return Error{ErrorCode::Malformed, config_file, "must be a JSON object of options, e.g. {\"port\": 9000}"};
  for (const auto& [key, value] : json.items()) {
    const bool is_setting = key != "config" && !key.starts_with("help");
    CLI::Option* option = is_setting ? options->get_option_no_throw("--" + key) : nullptr;
    if (option == nullptr)
      return Error{ErrorCode::Malformed, config_file, "\"" + key.substr(0, 64) + "\" is no option of mc2 serve"};
    if (!value.is_string() && !value.is_number() && !value.is_boolean())
      return Error{ErrorCode::Malformed, config_file,
                   "\"" + key + "\" is " + value.type_name() + "; needs a string, a number, true or false"};
    if (option->count() > 0) continue; // given by the command line or the environment
    try {
      from_file.push_back(option);
      option->add_result(value.is_string() ? value.get<std::string>() : value.dump());
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      return Error{ErrorCode::Malformed, config_file, error.what()};
    }
  }
  return {};
}

Result<server::Config> ServeCommand::complete() {
  if (!given) given = settings;
  settings = *given;
  for (CLI::Option* option : std::exchange(from_file, {})) option->clear();
  MC2_TRY(read_config_file());
  server::Config result = settings.config;
  MC2_ASSIGN(const auto path, settings.store.writable_path());
  result.store = std::filesystem::absolute(path);
  for (const auto& [text, name, kept_for] :
       {std::tuple(&settings.keep_samples, "keep-samples", &result.retention.samples),
        {&settings.keep_models, "keep-models", &result.retention.models},
        {&settings.keep_measurements, "keep-measurements", &result.retention.measurements}}) {
    if (text->empty()) continue;
    MC2_ASSIGN(const auto seconds, store::parse_duration_s(*text, std::string("--") + name));
    *kept_for = std::chrono::seconds(seconds);
  }
  if (!settings.follow_token_file.empty()) {
    MC2_ASSIGN(result.leader.token, read_token(settings.follow_token_file));
    note_unencrypted_token(result.leader.url);
  }
  result.history_interval = std::chrono::seconds(settings.history_interval_s);
  if (const auto legal = result.validate(); !legal) {
    std::string option = "--" + legal.error().field;
    std::ranges::replace(option, '_', '-');
    const bool is_option = options->get_option_no_throw(option) != nullptr;
    return Error{legal.error().code, is_option ? option : legal.error().field, legal.error().message};
  }
  return result;
}

/// The value of every option, by name.
std::map<std::string, std::string> texts_of(const CLI::App& app) {
  std::map<std::string, std::string> texts;
  for (const CLI::Option* option : app.get_options())
    texts[option->get_name()] = option->count() > 0 ? option->results().back() : option->get_default_str();
  return texts;
}

void ServeCommand::reload(server::Listener& listener) {
  const auto config = complete();
  const auto taken = config ? listener.reload(config.value()) : Result<void>(config.error());
  if (!taken) {
    std::cerr << "mc2: not reloaded, everything stays as it is: " + taken.error().text() + "\n";
    return;
  }
  static const std::set<std::string> kFixed{
      "--address",          "--port",           "--unix-socket",         "--store",
      "--threads",          "--cached-answers", "--cached-answer-bytes", "--access-log",
      "--history-interval", "--keep-samples",   "--keep-models",         "--keep-measurements",
      "--follow",           "--follow-ca",      "--follow-token-file",   "--forward-writes"};
  std::string changes, later;
  for (const auto& [name, text] : texts_of(*options)) {
    std::string& running = in_force.at(name);
    if (running == text) continue;
    const bool is_fixed = kFixed.contains(name);
    (is_fixed ? later : changes) += " " + name + "=" + text;
    if (!is_fixed) running = text; // what only a restart changes is told at each reload until then
  }
  std::cerr << "mc2: reloaded:" + (changes.empty() ? " no setting has changed" : changes) +
                   (later.empty() ? "" : "; only a restart changes" + later) + "\n";
}

/// Tells systemd the state of the service, if systemd has asked for it (sd_notify(3)).
void notify_supervisor(const std::string& state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path == nullptr || *path == '\0' || std::strlen(path) >= sizeof address.sun_path) return;
  std::strcpy(address.sun_path, path);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0'; // in the abstract namespace
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  static_cast<void>(
      sendto(socket, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), length));
  close(socket);
}

/// Blocks the signals that end or reload a service in this thread and the threads that it starts, so that one thread
/// can wait for them.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  /// Calls `stop` for SIGTERM and SIGINT, and `reload` for SIGHUP. Returns when `ends` is requested.
  void wait(const std::stop_token& ends, const std::function<void()>& stop, const std::function<void()>& reload) const {
    while (!ends.stop_requested()) {
      const timespec moment{.tv_sec = 0, .tv_nsec = 100'000'000};
      const int signal = sigtimedwait(&signals_, nullptr, &moment);
      if (signal == SIGTERM || signal == SIGINT) stop();
      if (signal == SIGHUP) reload();
    }
  }

 private:
  sigset_t signals_{}, before_{};
};

/// Raises the limit of open files, as every connection takes a descriptor and the usual soft limit is no higher than
/// --connections.
void raise_descriptor_limit(int connection_count) {
  constexpr rlim_t kOthers = 128; // for the store's readers, the log and the program itself
  rlimit limit{};
  const rlim_t wanted = static_cast<rlim_t>(connection_count) + kOthers;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= wanted) return;
  std::cerr << "mc2: note: this process may open " + std::to_string(limit.rlim_cur) + " files only, --connections " +
                   std::to_string(connection_count) + " takes " + std::to_string(wanted) + "; raise ulimit -n\n";
}

std::string url_of(const server::Config& config, std::uint16_t port) {
  const bool is_v6 = config.address.find(':') != std::string::npos;
  return (config.has_tls() ? "https://" : "http://") + (is_v6 ? "[" + config.address + "]" : config.address) + ":" +
         std::to_string(port);
}

std::string monotonic_us() {
  return std::to_string(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

/// Stops the listener or reloads its settings as signals ask, until `ends` is requested.
void obey(const BlockedSignals& signals, const std::stop_token& ends, server::Listener& listener,
          const std::function<void()>& reload) {
  const auto stop = [&] {
    notify_supervisor("STOPPING=1");
    listener.stop();
  };
  signals.wait(ends, stop, [&] {
    notify_supervisor("RELOADING=1\nMONOTONIC_USEC=" + monotonic_us());
    try {
      reload();
    } catch (const std::exception& error) { // a failed reload does not end the service
      std::cerr << std::string("mc2: not reloaded: ") + error.what() + "\n";
    }
    notify_supervisor("READY=1");
  });
}

void tell(const std::string& event) { std::cerr << "mc2: " + event + "\n"; }

/// @param opening  a stop is requested if a signal ends the service before it is open
Result<std::unique_ptr<server::Service>> open_service(const server::Config& config, const BlockedSignals& signals,
                                                      std::stop_source& opening) {
  std::jthread waiter;
  if (config.is_replica()) // the first snapshot may take long
    waiter = std::jthread([&](const std::stop_token& ends) {
      signals.wait(
          ends, [&] { opening.request_stop(); }, [] {});
    });
  return server::Service::open(config, {&utc_now, tell, opening.get_token()});
}

Result<ExitCode> ServeCommand::run() {
  note_unknown_variables(*options);
  MC2_ASSIGN(const auto config, complete());
  in_force = texts_of(*options);
  raise_descriptor_limit(config.limits.connection_count);
  const BlockedSignals signals; // before any thread starts
  std::stop_source opening;
  auto opened = server::Listener::open([&] { return open_service(config, signals, opening); }, config,
                                       {config.has_access_log ? make_access_log() : server::AccessLog(), tell});
  if (opening.stop_requested()) {
    std::cerr << "mc2: stopped\n";
    return ExitCode::Success;
  }
  if (!opened) return opened.error();
  server::Listener& listener = *opened.value();
  {
    const std::jthread waiter(
        [&](const std::stop_token& ends) { obey(signals, ends, listener, [&] { reload(listener); }); });
    std::cerr << "mc2: serving " + config.store.string() + " on " + url_of(config, listener.port()) + "\n";
    notify_supervisor("READY=1");
    listener.run();
  }
  std::cerr << "mc2: stopped\n";
  return ExitCode::Success;
}

} // namespace

Command add_serve(CLI::App& app) {
  auto command = std::make_shared<ServeCommand>();
  auto* sub = app.add_subcommand("serve", "answer queries for plans over HTTP");
  command->add_to(*sub);
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
