#include "mc2/server/listener.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <exception>
#include <filesystem>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "http/session.hpp"
#include "http/tls.hpp"

namespace mc2::server {
namespace {

using boost::system::error_code;

template <typename Protocol>
using Acceptor = net::basic_socket_acceptor<Protocol, net::any_io_executor>;
using GenericSocket = PlainStream::socket_type;

/// Errors: Unsupported if there is an error.
Result<void> require_listening(const error_code& error, const std::string& name) {
  if (!error) return {};
  return Error{ErrorCode::Unsupported, "", "cannot listen on " + name + ": " + error.message()};
}

/// Opens and binds. Errors: Unsupported.
template <typename Protocol>
Result<void> bind_to(Acceptor<Protocol>& acceptor, const typename Protocol::endpoint& endpoint,
                     const std::string& name) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  return require_listening(error, name);
}

/// Connections above the limit that get a 503 at a time. Further ones are closed without an answer, as each answer
/// costs a socket and a handshake.
constexpr int kMostTurnedAway = 64;

} // namespace

struct Listener::Impl {
  std::unique_ptr<Service> service; ///< set by open()
  const Config config;
  LiveLimits limits{config.limits};
  Logs logs;
  std::unique_ptr<Tls> tls; ///< null: plain HTTP
  SessionList sessions;
  std::atomic<int> turned_away_count{0}; ///< connections that are getting a 503 now
  RateLimiter rates;
  UploadRoom uploads;
  net::thread_pool upload_pool{1};  // one at a time, to bound the memory for parsed bodies
  net::thread_pool writing_pool{1}; // the store has one writer
  net::thread_pool reading_pool{2};
  // Two threads at least, so that one long question does not block the others.
  net::thread_pool planning_pool{std::max(2U, std::thread::hardware_concurrency() / 2)};
  net::thread_pool copying_pool{1};
  net::io_context io;
  Acceptor<net::ip::tcp> tcp{io};
  Acceptor<net::local::stream_protocol> local{io};
  bool has_socket_file = false; ///< that this listener made
  net::steady_timer drain_timer{io};
  std::atomic<bool> is_stopping{false};

  Impl(const Config& given, Logs told)
      : config(given),
        logs(std::move(told)),
        rates(given.limits.requests_per_s),
        uploads(given.store.parent_path(), given.limits.upload_count) {}
  ~Impl() { remove_socket_file(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] SessionContext session_context() {
    return {*service,    limits,       logs.access,  sessions,      rates,       uploads,
            upload_pool, writing_pool, reading_pool, planning_pool, copying_pool};
  }
  [[nodiscard]] Result<void> require_guarded(const Config& wanted) const;
  [[nodiscard]] std::string tcp_name() const { return config.address + " port " + std::to_string(config.port); }
  [[nodiscard]] Result<void> bind_tcp();
  [[nodiscard]] Result<void> bind_local();
  /// Before the socket is closed: then a successor may make a file of its own.
  void remove_socket_file() {
    if (std::exchange(has_socket_file, false)) unlink(config.unix_socket.c_str());
  }
  [[nodiscard]] Result<void> listen();
  template <typename Protocol, typename Name>
  [[nodiscard]] net::awaitable<void> accept(Acceptor<Protocol>& acceptor, Name name_of);
  template <typename Socket, typename Name>
  void take(const net::any_io_executor& strand, Socket socket, Name name_of);
  void begin_session(const net::any_io_executor& strand, PlainStream stream, std::string client, bool has_tls);
  void begin_refusal(const net::any_io_executor& strand, PlainStream stream, bool has_tls);
  [[nodiscard]] net::awaitable<void> follow_certificate();
  [[nodiscard]] net::awaitable<void> wait_for_sessions();
  void begin_stop();
  void run_io();
  /// Ends what was spawned: an exception ends only its own connection.
  [[nodiscard]] auto ended() const {
    return [this](const std::exception_ptr& fault) {
      if (fault) tell_of_fault(fault);
    };
  }
  void tell_of_fault(const std::exception_ptr& fault) const noexcept;
  void tell(const std::string& event) const {
    if (logs.event) logs.event(event);
  }
};

/// Refuses an address beyond loopback, unless there are tokens and TLS, or `wanted` allows it without. Errors:
/// InvalidSpec.
Result<void> Listener::Impl::require_guarded(const Config& wanted) const {
  const bool asks_for_tokens = wanted.requires_tokens.value_or(service && service->has_tokens());
  if (net::ip::make_address(config.address).is_loopback() || wanted.allows_insecure_network || (asks_for_tokens && tls))
    return {};
  return Error{
      ErrorCode::InvalidSpec, "address",
      config.address +
          " can be reached from the network, which requires tokens (mc2 token create) and TLS (--tls-certificate, "
          "--tls-key); --insecure-network allows it without them, e.g. behind a proxy that has both"};
}

Result<void> Listener::Impl::bind_tcp() {
  if (config.has_tls()) {
    MC2_ASSIGN(tls, Tls::open({config.tls_certificate, config.tls_key}));
  }
  error_code error;
  const auto address = net::ip::make_address(config.address, error);
  if (error)
    return Error{ErrorCode::InvalidSpec, "address",
                 "is \"" + config.address + "\"; must be an IP address such as 127.0.0.1 or ::1"};
  return bind_to(tcp, {address, config.port}, tcp_name());
}

Result<void> Listener::Impl::bind_local() {
  if (config.unix_socket.empty()) return {};
  const std::string path = config.unix_socket.string();
  constexpr std::size_t kLongest = 107; // sockaddr_un::sun_path without the terminating 0
  if (path.size() > kLongest) return Error{ErrorCode::InvalidSpec, "unix_socket", "is longer than 107 bytes"};
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode))
      return Error{ErrorCode::InvalidSpec, "unix_socket", path + " is there and no socket"};
    net::local::stream_protocol::socket probe(io);
    error_code error;
    probe.connect({path}, error);
    if (!error) return Error{ErrorCode::Unsupported, "unix_socket", path + " is in use by another program"};
    unlink(path.c_str()); // left by a service that was killed
  }
  const mode_t before = umask(0177); // from the first moment on, no other user may connect
  auto bound = bind_to(local, net::local::stream_protocol::endpoint(path), path);
  umask(before);
  has_socket_file = bound.ok();
  return bound;
}

/// Lets clients connect. Errors: Unsupported.
Result<void> Listener::Impl::listen() {
  error_code error;
  tcp.listen(net::socket_base::max_listen_connections, error);
  MC2_TRY(require_listening(error, tcp_name()));
  if (local.is_open()) local.listen(net::socket_base::max_listen_connections, error);
  return require_listening(error, config.unix_socket.string());
}

template <typename Protocol, typename Name>
net::awaitable<void> Listener::Impl::accept(Acceptor<Protocol>& acceptor, Name name_of) {
  while (!is_stopping) {
    error_code error;
    const net::any_io_executor strand = net::make_strand(io);
    typename Protocol::socket::template rebind_executor<net::any_io_executor>::other socket(strand);
    co_await acceptor.async_accept(socket, net::redirect_error(net::use_awaitable, error));
    if (is_stopping) break;
    if (error) { // too many descriptors, or the client has gone already: pause until there may be room
      net::steady_timer pause(io, std::chrono::milliseconds(10));
      co_await pause.async_wait(net::redirect_error(net::use_awaitable, error));
      continue;
    }
    try {
      take(strand, std::move(socket), name_of);
    } catch (const std::exception&) { // out of memory for this connection; the next one may succeed
      tell_of_fault(std::current_exception());
    }
  }
}

/// Serves an accepted connection, or refuses it because there are too many.
template <typename Socket, typename Name>
void Listener::Impl::take(const net::any_io_executor& strand, Socket socket, Name name_of) {
  constexpr bool kIsTcp = std::is_same_v<typename Socket::protocol_type, net::ip::tcp>;
  const bool has_tls = kIsTcp && tls != nullptr;
  std::string client = name_of(socket);
  const auto now = limits.get();
  const bool is_greedy = kIsTcp && now->connection_count_of_address > 0 &&
                         std::cmp_greater_equal(sessions.size_of(client), now->connection_count_of_address);
  if (is_greedy || std::cmp_greater_equal(sessions.size(), now->connection_count)) {
    service->count_refused_connection(is_greedy ? "address" : "limit");
    if (turned_away_count < kMostTurnedAway)
      begin_refusal(strand, PlainStream(GenericSocket(std::move(socket))), has_tls);
    return;
  }
  error_code ignored;
  if constexpr (kIsTcp) socket.set_option(net::ip::tcp::no_delay(true), ignored); // sends small answers at once
  begin_session(strand, PlainStream(GenericSocket(std::move(socket))), std::move(client), has_tls);
}

void Listener::Impl::begin_session(const net::any_io_executor& strand, PlainStream stream, std::string client,
                                   bool has_tls) {
  if (has_tls) {
    const auto certificate = tls->context();
    net::co_spawn(strand,
                  serve_connection(TlsStream(std::move(stream), *certificate), std::move(client), session_context()),
                  ended());
  } else {
    net::co_spawn(strand, serve_connection(std::move(stream), std::move(client), session_context()), ended());
  }
}

void Listener::Impl::begin_refusal(const net::any_io_executor& strand, PlainStream stream, bool has_tls) {
  PlaceTaken place(turned_away_count);
  if (has_tls) {
    const auto certificate = tls->context();
    net::co_spawn(strand, turn_away(TlsStream(std::move(stream), *certificate), std::move(place)), ended());
  } else {
    net::co_spawn(strand, turn_away(std::move(stream), std::move(place)), ended());
  }
}

/// Looks for new files every second, because the programs that renew certificates do not know this service.
net::awaitable<void> Listener::Impl::follow_certificate() {
  constexpr std::chrono::seconds kInterval{1};
  net::steady_timer timer(io);
  while (!is_stopping) {
    error_code ignored;
    timer.expires_after(kInterval);
    co_await timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
    const auto followed = tls->follow_files();
    if (!followed)
      tell("the previous certificate stays in use: " + followed.error().text());
    else if (followed.value())
      tell("the certificate was renewed");
  }
}

/// Stops `io` when the last connection has ended, or drain_timeout is up.
net::awaitable<void> Listener::Impl::wait_for_sessions() {
  const auto deadline = std::chrono::steady_clock::now() + limits.get()->drain_timeout;
  while (sessions.size() > 0 && std::chrono::steady_clock::now() < deadline) {
    error_code ignored;
    drain_timer.expires_after(std::chrono::milliseconds(5));
    co_await drain_timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }
  io.stop();
}

void Listener::Impl::tell_of_fault(const std::exception_ptr& fault) const noexcept {
  try {
    std::rethrow_exception(fault);
  } catch (const std::exception& error) {
    try {
      tell(std::string("a connection was given up: ") + error.what());
    } catch (const std::exception&) { // no memory for the message
    }
  }
}

/// Runs handlers until `io` is stopped. An exception of an operation arrives here, after unwinding has ended its
/// connection.
void Listener::Impl::run_io() {
  while (!io.stopped()) {
    try {
      io.run();
    } catch (const std::exception&) {
      tell_of_fault(std::current_exception());
    }
  }
}

void Listener::Impl::begin_stop() {
  error_code ignored;
  tcp.close(ignored);
  remove_socket_file();
  local.close(ignored);
  sessions.stop();
  net::co_spawn(io, wait_for_sessions(), net::detached);
}

Listener::Listener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Listener::~Listener() = default;

Result<std::unique_ptr<Listener>> Listener::open(const OpenService& open_service, const Config& config, Logs logs) {
  auto impl = std::make_unique<Impl>(config, std::move(logs));
  MC2_TRY(impl->bind_tcp());
  std::error_code unknown;
  const bool is_there = std::filesystem::exists(config.store, unknown) || unknown;
  const bool is_empty = is_there && std::filesystem::file_size(config.store, unknown) == 0 && !unknown;
  const bool is_new = (!is_there || is_empty) && !config.is_replica();
  if (is_new) MC2_TRY(impl->require_guarded(config)); // a new store has no tokens; none is made for a refusal
  MC2_ASSIGN(impl->service, open_service());
  MC2_TRY(impl->require_guarded(config));
  MC2_TRY(impl->bind_local()); // late: until it listens, it looks to others like one that a killed service has left
  MC2_TRY(impl->listen());
  return std::unique_ptr<Listener>(new Listener(std::move(impl)));
}

Result<void> Listener::reload(const Config& config) {
  MC2_TRY(config.validate());
  MC2_TRY(impl_->require_guarded(config));
  if (impl_->tls && config.has_tls()) MC2_TRY(impl_->tls->load({config.tls_certificate, config.tls_key}));
  impl_->limits.set(config.limits);
  impl_->rates.set_rate(config.limits.requests_per_s);
  impl_->service->reload(config);
  return {};
}

std::uint16_t Listener::port() const noexcept {
  error_code ignored;
  return impl_->tcp.local_endpoint(ignored).port();
}

void Listener::run() {
  Impl& impl = *impl_;
  const auto address_of = [](const auto& socket) {
    error_code ignored;
    return socket.remote_endpoint(ignored).address().to_string();
  };
  net::co_spawn(impl.io, impl.accept(impl.tcp, address_of), net::detached);
  if (impl.local.is_open())
    net::co_spawn(impl.io, impl.accept(impl.local, [](const auto&) { return std::string("unix"); }), net::detached);
  if (impl.tls) net::co_spawn(impl.io, impl.follow_certificate(), net::detached);
  const int count = impl.config.thread_count > 0 ? impl.config.thread_count
                                                 : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::jthread> threads;
  for (int i = 1; i < count; ++i) threads.emplace_back([&impl] { impl.run_io(); });
  impl.run_io();
  threads.clear();
  impl.upload_pool.join();
  impl.writing_pool.join();
  impl.reading_pool.join();
  impl.planning_pool.join();
  impl.copying_pool.join();
}

void Listener::stop() noexcept {
  if (impl_->is_stopping.exchange(true)) return;
  impl_->service->start_draining();
  net::post(impl_->io, [impl = impl_.get()] { impl->begin_stop(); });
}

} // namespace mc2::server
