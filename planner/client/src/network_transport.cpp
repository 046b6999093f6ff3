#include "transport.hpp"

#include <cpprest/containerstream.h>
#include <cpprest/http_client.h>
#include <openssl/err.h>
#include <pplx/threadpool.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tls_watch.hpp"

namespace mc2::client {
namespace {

namespace http = web::http;
using Bytes = std::vector<std::uint8_t>;

/// The process that has the threads of cpprestsdk's one pool. A child of fork() has no such threads and cannot make
/// any. Sizes the pool on the first call: 2 threads instead of 40 are enough for a few calls at a time.
pid_t pool_owner() {
  static const pid_t owner = [] {
    try {
      crossplat::threadpool::initialize_with_threads(2);
    } catch (const std::exception&) {
      // The program has already sized the pool.
    }
    return ::getpid();
  }();
  return owner;
}

/// @param watch  null without TLS
http::client::http_client_config config_of(const Options& options, const std::shared_ptr<TlsWatch>& watch) {
  http::client::http_client_config config;
  config.set_timeout(options.deadline + kLongestPatience); // limits each silence; call() limits the whole call
  config.set_max_redirects(0);                             // a redirect must not lead the token elsewhere
  if (watch)
    config.set_ssl_context_callback([watch, ca_file = options.ca_file](boost::asio::ssl::context& context) {
      TlsWatch::set_up(context, watch, ca_file);
    });
  return config;
}

/// Stops an answer that grows too large. Also one with a chunk of negative size, which lowers the byte count.
class BodyGuard {
 public:
  explicit BodyGuard(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void operator()(http::message_direction::direction direction, utility::size64_t byte_count) {
    if (direction != http::message_direction::download) return;
    if (byte_count > max_bytes_ || byte_count < last_)
      throw std::length_error("answers with more than " + std::to_string(max_bytes_) + " bytes");
    last_ = byte_count;
  }

 private:
  utility::size64_t max_bytes_, last_ = 0;
};

/// Takes the answer of a call, even if the caller has stopped waiting.
class Arrival {
 public:
  void set(Result<HttpAnswer> answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
    arrived_.notify_all();
  }
  /// The answer; none if none came before `end` or `stop`.
  [[nodiscard]] std::optional<Result<HttpAnswer>> wait(std::chrono::steady_clock::time_point end,
                                                       const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    arrived_.wait_until(lock, stop, end, [this] { return answer_.has_value(); });
    return std::move(answer_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::optional<Result<HttpAnswer>> answer_; ///< under mutex_
};

/// What OpenSSL says about a handshake that failed; empty for another failure. cpprestsdk's own text has no reason.
std::string reason_of_handshake(const http::http_exception& failure, const TlsWatch& watch) {
  if (std::string_view(failure.what()).find("SSL handshake") == std::string_view::npos) return {};
  if (const std::string refusal = watch.refusal(); !refusal.empty())
    return "the TLS handshake failed, as its certificate is refused: " + refusal;
  const char* const reason = ERR_reason_error_string(static_cast<unsigned int>(failure.error_code().value()));
  return reason == nullptr ? std::string() : "the TLS handshake failed: " + std::string(reason);
}

/// @param watch  null without TLS
std::string reason_of(const std::exception_ptr& failure, const TlsWatch* watch) {
  try {
    std::rethrow_exception(failure);
  } catch (const http::http_exception& error) {
    const std::string reason = watch == nullptr ? std::string() : reason_of_handshake(error, *watch);
    return reason.empty() ? error.what() : reason;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown failure";
  }
}

class NetworkTransport : public Transport {
 public:
  explicit NetworkTransport(const Options& options)
      : tls_(web::uri(options.url).scheme() == "https" ? std::make_shared<TlsWatch>() : nullptr),
        client_(std::make_shared<http::client::http_client>(options.url, config_of(options, tls_))),
        token_(options.token),
        max_answer_bytes_(options.max_answer_bytes) {}

  Result<HttpAnswer> call(const HttpRequest& request, std::chrono::milliseconds deadline,
                          const std::stop_token& stop) const override;

 private:
  [[nodiscard]] http::http_request to_request(const HttpRequest& request) const {
    http::http_request message(request.method);
    message.set_request_uri(request.target);
    message.headers().add(http::header_names::user_agent, kUserAgent);
    if (!token_.empty()) message.headers().add(http::header_names::authorization, "Bearer " + token_);
    for (const auto& [name, value] : request.headers) message.headers().add(name, value);
    if (!request.body.empty()) {
      message.headers().set_content_type(request.content_type);
      // A vector, not the string: cpprestsdk would read a string through a reference to a stream of another type.
      message.set_body(Bytes(request.body.begin(), request.body.end()));
    }
    message.set_progress_handler(BodyGuard(max_answer_bytes_));
    return message;
  }

  /// The answer; none if none came in time, or the call is given up. The set-up of TLS does not count.
  [[nodiscard]] std::optional<Result<HttpAnswer>> wait_for(Arrival& arrival, std::chrono::milliseconds deadline,
                                                           const std::stop_token& stop) const;

  std::shared_ptr<TlsWatch> tls_; ///< null for http; co-owned by the contexts of connections
  std::shared_ptr<http::client::http_client>
      client_; ///< co-owned by calls that were given up and still end in the background
  std::string token_;
  std::size_t max_answer_bytes_;
};

HttpAnswer answer_of(const http::http_response& response, const Bytes& body) {
  const auto location = response.headers().find(http::header_names::location);
  return {response.status_code(),
          response.headers().content_type(),
          {body.begin(), body.end()},
          location == response.headers().end() ? "" : location->second};
}

std::optional<Result<HttpAnswer>> NetworkTransport::wait_for(Arrival& arrival, std::chrono::milliseconds deadline,
                                                             const std::stop_token& stop) const {
  const auto began = std::chrono::steady_clock::now();
  if (!tls_) return arrival.wait(began + deadline, stop);
  const auto from = tls_->wait_from(began, stop);
  if (auto answer = arrival.wait(from + deadline, stop)) return answer;
  // A connection may have been set up meanwhile, as the kept one was closed. Not more than once: other calls set up
  // connections, too.
  const auto later = tls_->wait_from(began, stop);
  if (stop.stop_requested() || later <= from) return std::nullopt;
  return arrival.wait(later + deadline, stop);
}

Result<HttpAnswer> NetworkTransport::call(const HttpRequest& request, std::chrono::milliseconds deadline,
                                          const std::stop_token& stop) const {
  if (pool_owner() != ::getpid())
    return Error{
        kUnavailable, "process",
        "cannot be asked over http(s) in a child of fork() whose parent has opened a client; ask through a Unix "
        "socket (unix:PATH), or start the child anew (exec, spawn)"};
  const auto arrival = std::make_shared<Arrival>();
  const concurrency::streams::container_buffer<Bytes> body;
  pplx::cancellation_token_source cancel;
  try {
    http::http_request message = to_request(request);
    message.set_response_stream(body.create_ostream());
    // The continuation owns everything it touches, because it may run after this call has given up.
    client_->request(message, cancel.get_token())
        .then([](const http::http_response& response) { return response.content_ready(); })
        .then([arrival, body, keep = client_, tls = tls_](const pplx::task<http::http_response>& task) mutable {
          try {
            arrival->set(answer_of(task.get(), body.collection()));
          } catch (...) {
            arrival->set(Error{kUnavailable, "", reason_of(std::current_exception(), tls.get())});
          }
        });
  } catch (...) {
    return Error{kUnavailable, "", reason_of(std::current_exception(), tls_.get())};
  }
  if (auto answer = wait_for(*arrival, deadline, stop)) return *std::move(answer);
  cancel.cancel();
  return too_late(deadline);
}

} // namespace

std::unique_ptr<Transport> network_transport(const Options& options) {
  static_cast<void>(pool_owner());
  return std::make_unique<NetworkTransport>(options);
}

std::string network_url_fault(const std::string& url) {
  if (!web::uri::validate(url)) return "is no URL";
  const web::uri uri(url);
  if (uri.scheme() != "http" && uri.scheme() != "https") return "is neither http, https nor unix";
  if (uri.host().empty()) return "names no host";
  if (uri.port() > 65535) return "names a port above 65535";
  if (!uri.user_info().empty()) return "holds a user name, which would be seen; use a token";
  if (!uri.query().empty() || !uri.fragment().empty()) return "has more than host, port and path";
  return {};
}

} // namespace mc2::client
