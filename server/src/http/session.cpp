#include "http/session.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/read_size.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/http/span_body.hpp>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "http/target.hpp"
#include "http/waiter.hpp"

namespace mc2::server {
namespace {

namespace http = beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using RequestHeader = http::request_header<http::fields>;
using Message = http::response<http::span_body<const char>>; // a view of the bytes that the answer holds

/// Parses a request. Unlike Beast's parser it bounds the trailers by the limit of headers, and drops them: nothing here
/// reads trailers, and among the headers they would be taken for headers.
template <typename Body>
class BodyParser : public http::request_parser<Body> {
 public:
  explicit BodyParser(std::size_t header_bytes) : trailer_room_(header_bytes) {
    this->header_limit(static_cast<std::uint32_t>(header_bytes));
    this->body_limit(std::numeric_limits<std::uint64_t>::max()); // admit() decides first; the limit is set afterwards
  }
  /// Continues after the header that another parser has read.
  template <typename Other>
  BodyParser(BodyParser<Other>&& header, std::size_t header_bytes)
      : http::request_parser<Body>(static_cast<http::request_parser<Other>&&>(header)), trailer_room_(header_bytes) {}

 private:
  void on_field_impl(http::field name, beast::string_view name_text, beast::string_view value,
                     error_code& error) override {
    if (!this->is_header_done()) return this->get().insert(name, name_text, value);
    const std::size_t byte_count = name_text.size() + value.size();
    if (byte_count > trailer_room_)
      error = http::error::header_limit;
    else
      trailer_room_ -= byte_count;
  }

  std::size_t trailer_room_; ///< bytes
};
using Parser = BodyParser<http::string_body>;

/// Whether the other end has closed its sending half, as a client does that has gone. Threads: any, while the socket is
/// open.
bool has_hung_up(int socket) {
  pollfd state{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/// Completion token that suspends the coroutine and stores the error in `error`.
auto into(error_code& error) { return net::redirect_error(net::use_awaitable, error); }

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

/// The client's X-Request-Id if it is fit for a log (1 to 64 letters, digits and "-_."), else a number of this service.
std::string request_id(std::string_view given) {
  static std::atomic<std::uint64_t> last{0};
  const auto is_fit = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  constexpr std::size_t kMaxLength = 64;
  if (!given.empty() && given.size() <= kMaxLength && std::ranges::all_of(given, is_fit)) return std::string(given);
  char text[24] = "mc2-";
  const auto [end, error] = std::to_chars(text + 4, text + sizeof text, ++last, 16);
  return {text, end};
}

/// The whole of a list that may be spread over several headers (RFC 9110 §5.3).
std::string joined(const Parser::value_type& message, http::field name) {
  std::string list;
  const auto [first, end] = message.equal_range(name);
  for (auto header = first; header != end; ++header) list.append(list.empty() ? "" : ",").append(view(header->value()));
  return list;
}

/// The parts of a target. Proxies write it with scheme and host (RFC 9112 §3.2.2).
struct TargetParts {
  std::string_view host; ///< empty: the target has none
  std::string_view path; ///< with the query
};

TargetParts parts_of(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::size_t path = std::min(rest.find('/'), rest.size());
    return {rest.substr(0, path), path == rest.size() ? "/" : rest.substr(path)};
  }
  return {{}, target};
}

/// The host that a request names: that of its target, if it has one, counts instead of the header.
std::string_view host_of(const Parser::value_type& message) {
  const std::string_view host = parts_of(view(message.target())).host;
  return host.empty() ? view(message[http::field::host]) : host;
}

/// The request without its body.
Request to_request(const Parser::value_type& message) {
  return {.method = std::string(view(message.method_string())),
          .target = std::string(parts_of(view(message.target())).path),
          .content_type = std::string(view(message[http::field::content_type])),
          .accept = joined(message, http::field::accept),
          .if_match = joined(message, http::field::if_match),
          .if_none_match = joined(message, http::field::if_none_match),
          .accept_encoding = joined(message, http::field::accept_encoding),
          .user_agent = std::string(view(message[http::field::user_agent])),
          .via = joined(message, http::field::via),
          .last_event_id = std::string(view(message["Last-Event-ID"])),
          .id = request_id(view(message["X-Request-Id"]))};
}

/// The value of a header; empty if it is given twice, as a proxy may have read the other value.
std::string_view only_one(const Parser::value_type& message, http::field name) {
  return message.count(name) == 1 ? view(message[name]) : std::string_view();
}

constexpr std::size_t kShownCoding = 64; ///< characters, in messages
constexpr std::string_view kTooManyUploads = "too many large bodies at a time; send it again in a second";

/// Appends bytes. Returns why there is no room for them; empty on success.
std::string_view try_append(Upload& upload, std::string_view bytes) {
  try {
    return upload.append(bytes) ? std::string_view() : kTooManyUploads;
  } catch (const SystemError&) { // the disk is full or fails
    return "no space to store the body while it arrives";
  }
}

/// Refuses a request whose end or host is ambiguous (RFC 9112 §3.2, §6.1, §6.3). A proxy may read it otherwise, so that
/// a part of it is taken for another request (request smuggling).
std::optional<Response> refuse_framing(const Parser& parser, std::string_view request_id) {
  const auto& header = parser.get();
  if (header.count(http::field::host) > 1) return problem(400, "has two headers Host; send one", request_id);
  if (header.version() >= 11 && header.count(http::field::host) == 0)
    return problem(400, "has no header Host, which HTTP/1.1 requires", request_id);
  if (header.count(http::field::transfer_encoding) == 0) return std::nullopt;
  if (header.version() < 11)
    return problem(400, "HTTP/1.0 has no Transfer-Encoding; send a Content-Length", request_id);
  const std::string coding = joined(header, http::field::transfer_encoding);
  if (beast::iequals(coding, "chunked")) return std::nullopt;
  const std::string wrong =
      "Transfer-Encoding is \"" + coding.substr(0, kShownCoding) + "\"; must be chunked, and nothing else";
  return problem(parser.chunked() ? 501 : 400, wrong, request_id);
}

std::optional<Body> try_finish(Upload& upload) {
  try {
    return upload.finish();
  } catch (const SystemError&) {
    return std::nullopt;
  }
}

Response busy(std::string_view detail, std::string_view request_id) {
  return problem(503, detail, request_id, {{"Retry-After", "1"}});
}

/// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 §5.6.7), whatever the locale.
std::string http_date(std::time_t now) {
  constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm t{};
  gmtime_r(&now, &t);
  char text[40];
  std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[static_cast<std::size_t>(t.tm_wday)],
                t.tm_mday, kMonths[static_cast<std::size_t>(t.tm_mon)], t.tm_year + 1900, t.tm_hour, t.tm_min,
                t.tm_sec);
  return text;
}

Message to_message(const Response& response, const Request& request, unsigned version, bool keeps_alive) {
  Message message{static_cast<http::status>(response.status), version};
  const std::string_view phrase = phrase_of(response.status);
  message.reason({phrase.data(), phrase.size()}); // empty: Beast's
  message.set(http::field::server, "mc2");
  message.set(http::field::date, http_date(std::time(nullptr)));
  message.set("X-Request-Id", request.id);
  if (!response.content_type.empty()) message.set(http::field::content_type, response.content_type);
  if (!response.etag.empty()) message.set(http::field::etag, response.etag);
  for (const auto& [name, value] : response.headers) message.insert(name, value); // not set(): Vary may come twice
  message.keep_alive(keeps_alive);
  const std::string_view bytes = response.bytes();
  const bool is_head = request.method == "HEAD";
  const bool has_no_length = response.status == 204 || response.status == 304 ||
                             (is_head && response.content_type == "text/event-stream"); // to GET a stream without end
  if (!is_head) message.body() = {bytes.data(), bytes.size()};
  if (!has_no_length) message.content_length(bytes.size());
  return message;
}

/// The answer to a request that cannot be read; nothing where the client has gone.
std::optional<Response> refusal(const error_code& error, const Request& request, const Limits& limits) {
  const auto refuse = [&request](int status, std::string_view detail) {
    return std::optional(problem(status, detail, request.id));
  };
  const auto too_large = [](const char* part, std::size_t limit, const char* option) {
    return std::string(part) + " above " + std::to_string(limit) + " bytes, the most that is taken here (mc2 serve " +
           option + ")";
  };
  if (error == http::error::header_limit)
    return refuse(431, too_large("the headers are", limits.header_bytes, "--header-bytes"));
  if (error == http::error::body_limit)
    return refuse(413, request.match && request.match->needs.upload
                           ? too_large("the body is", limits.upload_bytes, "--upload-bytes")
                           : too_large("the body is", limits.body_bytes, "--body-bytes"));
  const bool is_of_http = error.category() == make_error_code(http::error::bad_method).category();
  if (is_of_http && error != http::error::end_of_stream && error != http::error::partial_message)
    return refuse(400, "this is no HTTP/1.1 request: " + error.message());
  return std::nullopt;
}

/// The answer to a client that speaks plain HTTP on a port with TLS.
constexpr std::string_view kTlsOnly =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 36\r\nConnection: close\r\n\r\n"
    "this port speaks TLS: ask https://\r\n";

/// Takes the place of a request that was not read, or could not be.
/// @param id  the client's, if as much was read
Request nameless(std::string_view id) { return {.method = "-", .target = "-", .id = request_id(id)}; }

/// What was read of a request whose headers have no end.
Request unread(const Parser::value_type& header) {
  Request request = nameless(view(header["X-Request-Id"]));
  if (header.method_string().empty()) return request;
  request.method = view(header.method_string());
  request.target = parts_of(view(header.target())).path;
  return request;
}

/// The part of a connection that stopping uses, on the connection's executor only.
template <typename Socket>
struct Idle {
  Socket* stream = nullptr; ///< null after the end of the connection
  bool is_waiting = false;  ///< for its next request
};

/// One connection. Each step returns whether the connection goes on.
template <typename Stream>
class Connection {
  using Lowest = beast::lowest_layer_type<Stream>;

 public:
  Connection(Stream& stream, std::string client, SessionContext& context)
      : stream_(stream),
        lowest_(beast::get_lowest_layer(stream)),
        client_(std::move(client)),
        context_(context),
        buffer_(kMaxHeaderBytes + kReadAhead) {
    idle_->stream = &lowest_;
    context_.service.count_connection(true);
    place_ = context_.sessions.add(client_, [idle = idle_, executor = stream_.get_executor()] {
      net::post(executor, [idle] {
        if (idle->stream != nullptr && idle->is_waiting) idle->stream->cancel();
      });
    });
  }
  ~Connection() {
    idle_->stream = nullptr;
    context_.service.count_connection(false);
    context_.sessions.remove(place_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  net::awaitable<void> serve() {
    bool goes_on = true;
    if constexpr (kHasTls) goes_on = co_await shake_hands();
    for (bool is_first = true; goes_on; is_first = false) goes_on = co_await serve_one(is_first);
    co_await say_goodbye();
  }

 private:
  static constexpr std::size_t kReadAhead = 64 << 10;

  net::awaitable<bool> shake_hands() {
    error_code error;
    lowest_.expires_after(limits_->header_timeout);
    co_await stream_.async_handshake(net::ssl::stream_base::server, into(error));
    if (!error) co_return true;
    context_.service.count_refused_connection(error == beast::error::timeout ? "timeout" : "tls");
    const bool is_plain = error.category() == net::error::get_ssl_category() &&
                          ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
    if (is_plain) co_await net::async_write(lowest_, net::buffer(kTlsOnly), into(error));
    is_encrypted_ = false;
    co_return false;
  }

  /// Ends TLS properly: else a client cannot tell the end of the answers from a cut connection.
  net::awaitable<void> say_goodbye() {
    error_code ignored;
    if constexpr (kHasTls) {
      constexpr std::chrono::seconds kMostTime{1};
      lowest_.expires_after(kMostTime);
      if (is_encrypted_) co_await stream_.async_shutdown(into(ignored));
    }
    lowest_.socket().shutdown(net::socket_base::shutdown_send, ignored);
    co_return;
  }

  net::awaitable<bool> serve_one(bool is_first) {
    error_code error;
    limits_ = context_.limits.get();
    if (buffer_.size() == 0) {
      // A new connection has to send soon; a connection that was served may stay idle for longer.
      lowest_.expires_after(is_first ? limits_->header_timeout : limits_->idle_timeout);
      idle_->is_waiting = true;
      if (context_.sessions.is_stopping()) co_return false;
      const std::size_t count = co_await stream_.async_read_some(buffer_.prepare(kFirstRead), into(error));
      idle_->is_waiting = false;
      buffer_.commit(count);
      if (error == beast::error::timeout && is_first) context_.service.count_refused_connection("timeout");
      if (error) co_return false;
    }
    begun_ = Clock::now();
    Parser parser(limits_->header_bytes);
    lowest_.expires_after(limits_->header_timeout);
    error = co_await read(parser, Part::Header);
    if (error) {
      // Named, because GCC 12 destroys temporaries of such expressions too early.
      const Request request = unread(parser.get());
      co_return co_await refuse(error, request);
    }
    co_return co_await read_and_answer(parser);
  }

  enum class Part : std::uint8_t { Header, Whole };

  /// Reads and parses until the part is complete. Beast's own read operations are not used: where the parser throws,
  /// e.g. without memory, they end the process, because Asio starts them inside a noexcept function.
  template <typename AnyParser>
  net::awaitable<error_code> read(AnyParser& parser, Part part) {
    constexpr std::size_t kMostAtOnce = 64 << 10;
    parser.eager(part == Part::Whole);
    error_code error;
    while (!error && !(part == Part::Header ? parser.is_header_done() : parser.is_done())) {
      if (buffer_.size() > 0) {
        buffer_.consume(parser.put(buffer_.data(), error));
        if (error != http::error::need_more) continue;
        error = {};
      }
      const std::size_t room = beast::read_size(buffer_, kMostAtOnce);
      if (room == 0) co_return http::error::header_limit; // of trailers: all else leaves the buffer when parsed
      buffer_.commit(co_await stream_.async_read_some(buffer_.prepare(room), into(error)));
    }
    co_return error == net::error::eof ? error_code(http::error::partial_message) : error;
  }

  net::awaitable<bool> read_and_answer(Parser& parser) {
    error_code error;
    const auto& header = parser.get();
    Request request = to_request(header);
    if (const auto unsafe = refuse_framing(parser, request.id)) co_return co_await refuse(*unsafe, request);
    Admission admission = admit(header, request);
    if (admission.refusal) co_return co_await turn_away(parser, request, admission);
    request.granted = admission.granted;
    const Needs needs = admission.match.needs;
    request.match = std::move(admission.match);
    const bool is_upload = !parser.is_done() && needs.upload;
    const std::size_t limit = is_upload ? limits_->upload_bytes : limits_->body_bytes;
    if (parser.content_length() && *parser.content_length() > limit)
      co_return co_await refuse(http::error::body_limit, request);
    parser.body_limit(limit);
    const bool is_small = parser.content_length() && *parser.content_length() <= limits_->body_bytes;
    const bool may_be_large = is_upload && !is_small;
    if (may_be_large && parser.content_length() && context_.uploads.is_full()) {
      // Named, because GCC 12 destroys such a temporary while the coroutine that got it still runs.
      const Admission full{.refusal = busy(kTooManyUploads, request.id)};
      co_return co_await turn_away(parser, request, full);
    }
    lowest_.expires_after(limits_->body_timeout * (1 + parser.content_length().value_or(0) / kBytesPerBodyTimeout));
    const bool asks_first = header.version() >= 11 && beast::iequals(header[http::field::expect], "100-continue");
    if (asks_first && !parser.is_done()) {
      http::response<http::empty_body> go_on{http::status::continue_, header.version()};
      co_await http::async_write(stream_, go_on, into(error));
      if (error) co_return false;
    }
    if (may_be_large) co_return co_await read_upload(std::move(parser), std::move(request), admission.token_id);
    error = co_await read(parser, Part::Whole);
    if (error) co_return co_await refuse(error, request);
    request.body = std::move(parser.get().body());
    co_return co_await answer(parser, std::move(request), admission.token_id,
                              is_upload ? &context_.upload_pool : pool_for(needs));
  }

  net::awaitable<bool> read_upload(Parser&& header, Request request, const std::string& token_id) {
    constexpr std::size_t kPieceBytes = 64 << 10;
    Upload upload(context_.uploads, limits_->body_bytes);
    BodyParser<http::buffer_body> parser(std::move(header), limits_->header_bytes);
    std::vector<char> piece(kPieceBytes);
    auto& target = parser.get().body();
    while (!parser.is_done()) {
      target = {.data = piece.data(), .size = piece.size(), .more = true};
      const error_code error = co_await read(parser, Part::Whole);
      if (error && error != http::error::need_buffer) co_return co_await refuse(error, request);
      const std::string_view fault = try_append(upload, {piece.data(), piece.size() - target.size});
      if (fault.empty()) continue;
      const Response full = busy(fault, request.id);
      co_return co_await refuse(full, request);
    }
    auto body = try_finish(upload);
    if (!body) {
      const Response unreadable = busy("the body cannot be read again", request.id);
      co_return co_await refuse(unreadable, request);
    }
    request.body = std::move(*body);
    co_return co_await answer(parser, std::move(request), token_id, &context_.upload_pool);
  }

  /// Called before the body is read, so that a client without rights costs no more than its headers.
  Admission admit(const Parser::value_type& header, const Request& request) {
    if (!context_.rates.admit(client_, Clock::now()))
      return {.refusal = problem(429, "too many requests from this address; wait a second", request.id,
                                 {{"Retry-After", "1"}})};
    return context_.service.admit(head_of(header, request));
  }

  [[nodiscard]] RequestHead head_of(const Parser::value_type& header, const Request& request) const {
    return {.client = client_,
            .method = request.method,
            .target = request.target,
            .authorization = only_one(header, http::field::authorization),
            .origin = view(header[http::field::origin]),
            .host = host_of(header),
            .content_encoding = view(header[http::field::content_encoding]),
            .content_type = view(header[http::field::content_type]),
            .fetch_site = view(header["Sec-Fetch-Site"]),
            .via = request.via,
            .id = request.id};
  }

  net::awaitable<bool> turn_away(const Parser& parser, const Request& request, const Admission& admission) {
    const bool goes_on = keeps_alive(parser) && parser.is_done();
    note_refusal(request, *admission.refusal, admission.token_id);
    const bool is_written = co_await write(to_message(*admission.refusal, request, parser.get().version(), goes_on));
    if (is_written && !parser.is_done()) co_await end_early();
    co_return is_written&& goes_on;
  }

  /// The threads for this kind of work; null: the connection's thread.
  net::thread_pool* pool_for(const Needs& needs) const {
    switch (needs.work) {
      case Work::Read: return &context_.reading_pool;
      case Work::Plan: return &context_.planning_pool;
      case Work::Write: // what a replica keeps itself, such as tokens, must not wait for its leader
        return needs.own && context_.service.forwards_writes() ? &context_.reading_pool : &context_.writing_pool;
      case Work::Copy: return &context_.copying_pool;
      case Work::Quick: break;
    }
    return nullptr;
  }

  /// @param pool  makes the answer, unless it is known; null: the connection's thread
  template <typename AnyParser>
  net::awaitable<bool> answer(const AnyParser& parser, Request request, const std::string& token_id,
                              net::thread_pool* pool) {
    request.arrived = Clock::now();
    request.is_given_up = [socket = lowest_.socket().native_handle()] { return has_hung_up(socket); };
    Response response;
    if (auto known = pool != nullptr ? context_.service.known(request) : std::nullopt)
      response = *std::move(known);
    else
      response = co_await make(request, pool);
    if constexpr (std::is_same_v<AnyParser, Parser>) {
      if (response.watch && response.watch->is_stream)
        co_return co_await stream(parser, std::move(request), std::move(response), token_id, pool);
      if (response.watch) response = co_await wait_for_more(parser, request, std::move(response), pool);
    }
    log(request, response, token_id, Clock::now() - request.arrived);
    request.body = {}; // frees its place before the answer is sent
    const bool goes_on = keeps_alive(parser);
    co_return co_await write(to_message(response, request, parser.get().version(), goes_on)) && goes_on;
  }

  net::awaitable<Response> make(const Request& request, net::thread_pool* pool) {
    if (pool == nullptr) co_return context_.service.answer(request);
    const auto work = [&]() -> net::awaitable<Response> { co_return context_.service.answer(request); };
    // Named, because GCC 12 destroys temporaries of such expressions too early.
    Response response = co_await net::co_spawn(*pool, work, net::use_awaitable); // continues here
    co_return response;
  }

  /// Makes the answer to a waiting request again. Pauses if it tells nothing new, as with a store that was replaced by
  /// an earlier copy, so that the caller does not spin.
  net::awaitable<Response> make_anew(Request& request, Response before, net::thread_pool* pool) {
    constexpr std::chrono::milliseconds kPause{100};
    request.told = before.watch->told;
    Response response = co_await make(request, pool);
    if (response.watch && response.watch->told == *request.told) {
      net::steady_timer pause(stream_.get_executor(), kPause);
      error_code ignored;
      co_await pause.async_wait(into(ignored));
    }
    co_return response;
  }

  /// How often a waiting client is checked: whether it is still there, and still has its rights.
  static constexpr std::chrono::milliseconds kBetweenLooks{1'000};

  /// A refusal that ends a wait early: too many wait, or e.g. the token was revoked meanwhile.
  std::optional<Response> refuse_to_wait(const Waiter& waiter, const Parser& parser, const Request& request) const {
    if (waiter.is_turned_away())
      return busy("too many clients wait for changes (mc2 serve --watchers); ask without waiting, or again in a second",
                  request.id);
    return context_.service.admit(head_of(parser.get(), request)).refusal;
  }

  /// Waits until there is news and returns the answer that tells it, or the given answer once its patience has ended.
  net::awaitable<Response> wait_for_more(const Parser& parser, Request& request, Response response,
                                         net::thread_pool* pool) {
    Waiter waiter(stream_.get_executor(), context_.service, limits_->watcher_count);
    const auto until = request.arrived + response.watch->patience;
    while (response.watch) {
      if (auto refusal = refuse_to_wait(waiter, parser, request)) {
        response = *std::move(refusal);
        break;
      }
      const auto left = until - Clock::now();
      if (left <= Clock::duration::zero() || request.is_given_up()) break;
      co_await waiter.wait(response.watch->told, std::min<Clock::duration>(left, kBetweenLooks));
      if (!context_.service.has_news(response.watch->told)) continue;
      response = co_await make_anew(request, std::move(response), pool);
    }
    context_.service.count_elsewhere(request.method, request.target, response.status);
    co_return response;
  }

  /// Sends changes as they come, until the client goes or loses its rights, or the service stops. The connection ends
  /// then.
  net::awaitable<bool> stream(const Parser& parser, Request request, Response response, const std::string& token_id,
                              net::thread_pool* pool) {
    Waiter waiter(stream_.get_executor(), context_.service, limits_->watcher_count);
    if (const auto refusal = refuse_to_wait(waiter, parser, request)) co_return co_await refuse(*refusal, request);
    const bool is_chunked = parser.get().version() >= 11;
    std::size_t byte_count = response.body->size();
    context_.service.count_elsewhere(request.method, request.target, 200);
    bool is_heard = co_await write_head(response, request, parser.get().version()) &&
                    co_await write_piece(*response.body, is_chunked);
    auto told_at = Clock::now();
    while (is_heard && response.watch && !request.is_given_up() && !refuse_to_wait(waiter, parser, request)) {
      co_await waiter.wait(response.watch->told, kBetweenLooks);
      std::string piece;
      if (context_.service.has_news(response.watch->told)) {
        response = co_await make_anew(request, std::move(response), pool);
        if (response.status != 200) break; // the client connects again, and then gets the reason
        piece = *response.body;
      }
      if (piece.empty() && Clock::now() - told_at >= kLongestSilence)
        piece = ":\n\n"; // a comment, so that no proxy takes the connection for dead
      if (piece.empty()) continue;
      is_heard = co_await write_piece(piece, is_chunked);
      told_at = Clock::now();
      byte_count += piece.size();
    }
    if (is_heard && is_chunked) co_await write_piece({}, is_chunked);
    log(request, 200, byte_count, token_id, Clock::now() - request.arrived);
    co_return false;
  }
  static constexpr std::chrono::seconds kLongestSilence{15};

  /// Writes the headers of an answer of unknown length.
  net::awaitable<bool> write_head(const Response& response, const Request& request, unsigned version) {
    Message message = to_message(response, request, version, false);
    message.content_length(boost::none);
    if (version >= 11) message.chunked(true);
    http::response_serializer<http::span_body<const char>> serializer(message);
    error_code error;
    lowest_.expires_after(limits_->body_timeout);
    co_await http::async_write_header(stream_, serializer, into(error));
    co_return !error;
  }

  /// @param text  empty: the end of a chunked answer
  net::awaitable<bool> write_piece(std::string_view text, bool is_chunked) {
    if (text.empty() && !is_chunked) co_return true;
    std::string bytes(text);
    if (is_chunked) {
      std::array<char, 24> size{};
      std::snprintf(size.data(), size.size(), "%zx\r\n", text.size());
      bytes = size.data() + bytes + "\r\n";
    }
    error_code error;
    lowest_.expires_after(limits_->body_timeout);
    co_await net::async_write(stream_, net::buffer(bytes), into(error));
    co_return !error;
  }

  template <typename AnyParser>
  bool keeps_alive(const AnyParser& parser) const {
    return parser.get().keep_alive() && !context_.sessions.is_stopping();
  }

  void log(const Request& request, const Response& response, const std::string& token_id, Clock::duration took) const {
    log(request, response.status, response.bytes().size(), token_id, took);
  }
  void log(const Request& request, int status, std::size_t byte_count, const std::string& token_id,
           Clock::duration took) const {
    if (!context_.log) return;
    context_.log({client_, request.method, Service::loggable(request.target), request.id, token_id, status, byte_count,
                  std::chrono::duration<double, std::micro>(took).count()});
  }

  /// Counts and logs the refusal of a request that Service::answer() does not get.
  void note_refusal(const Request& request, const Response& response, const std::string& token_id) const {
    context_.service.count_elsewhere(request.method, request.target, response.status);
    log(request, response, token_id, {});
  }

  /// Counts and logs a request that did not arrive in time. It gets no answer: Beast has closed the connection.
  void give_up(const Request& request) const {
    constexpr int kStatus = 408;
    context_.service.count_refused_connection("timeout");
    log(request, kStatus, 0, {}, Clock::now() - begun_);
  }

  /// Answers why, and ends the connection, because the next request's start is not known.
  net::awaitable<bool> refuse(const error_code& why, const Request& request) {
    if (why == beast::error::timeout) {
      give_up(request);
      co_return false;
    }
    const auto response = refusal(why, request, *limits_);
    if (!response) co_return false;
    co_return co_await refuse(*response, request);
  }

  net::awaitable<bool> refuse(Response response, const Request& request) {
    note_refusal(request, response, {});
    co_await write(to_message(response, request, 11, false));
    co_await end_early();
    co_return false;
  }

  /// Ends a connection that has unread bytes of the request.
  net::awaitable<void> end_early() {
    error_code ignored;
    lowest_.socket().shutdown(net::socket_base::shutdown_send, ignored);
    co_await drain();
  }

  /// Writes in parts of kPartBytes. Each part may take body_timeout, because a large answer takes long on a slow line.
  net::awaitable<bool> write(Message message) {
    error_code error;
    http::response_serializer<http::span_body<const char>> serializer(message);
    serializer.limit(kPartBytes);
    std::size_t part_bytes = 0;
    lowest_.expires_after(limits_->body_timeout);
    while (!error && !serializer.is_done()) {
      part_bytes += co_await http::async_write_some(stream_, serializer, into(error));
      if (part_bytes < kPartBytes) continue;
      part_bytes = 0;
      lowest_.expires_after(limits_->body_timeout);
    }
    co_return !error;
  }
  static constexpr std::size_t kPartBytes = 256 << 10;
  /// A body of 64 MiB gets 90 s by default, enough for a line of 6 Mbit/s.
  static constexpr std::uint64_t kBytesPerBodyTimeout = 8 << 20;

  /// Reads on for a moment: closing with unread bytes would destroy the answer before a client that is still sending
  /// gets it.
  net::awaitable<void> drain() {
    constexpr std::size_t kMostBytes = 1 << 20;
    constexpr std::chrono::milliseconds kMostTime{500};
    error_code error;
    lowest_.expires_after(kMostTime);
    for (std::size_t count = 0; !error && count < kMostBytes;) {
      buffer_.clear();
      count += co_await stream_.async_read_some(buffer_.prepare(kFirstRead), into(error));
    }
  }

  static constexpr std::size_t kFirstRead = 4096;

  static constexpr bool kHasTls = std::is_same_v<Stream, TlsStream>;
  static constexpr std::size_t kMaxHeaderBytes = 64 << 10; ///< as Config::validate

  Stream& stream_;
  Lowest& lowest_; ///< the layer with the socket and the timeouts
  std::shared_ptr<Idle<Lowest>> idle_ = std::make_shared<Idle<Lowest>>();
  SessionList::Place place_;
  bool is_encrypted_ = kHasTls;
  std::string client_;
  SessionContext& context_;
  std::shared_ptr<const Limits> limits_ = context_.limits.get(); ///< shared: see LiveLimits::get()
  beast::flat_buffer buffer_;
  Clock::time_point begun_{}; ///< when the first bytes of the request that is being read were there
};

} // namespace

SessionList::Place SessionList::add(std::string client, Interrupt interrupt) {
  const std::lock_guard lock(mutex_);
  ++count_of_[client];
  return open_.insert(open_.end(), Open{std::move(client), std::move(interrupt)});
}

void SessionList::remove(Place place) {
  const std::lock_guard lock(mutex_);
  if (const auto count = count_of_.find(place->client); --count->second == 0) count_of_.erase(count);
  open_.erase(place);
}

std::size_t SessionList::size() const {
  const std::lock_guard lock(mutex_);
  return open_.size();
}

std::size_t SessionList::size_of(const std::string& client) const {
  const std::lock_guard lock(mutex_);
  const auto found = count_of_.find(client);
  return found == count_of_.end() ? 0 : found->second;
}

void SessionList::stop() {
  is_stopping_ = true;
  const std::lock_guard lock(mutex_);
  for (const Open& one : open_) one.interrupt();
}

template <typename Stream>
net::awaitable<void> serve_connection(Stream stream, std::string client, SessionContext context) {
  Connection<Stream> connection(stream, std::move(client), context);
  co_await connection.serve();
}

template <typename Stream>
net::awaitable<void> turn_away(Stream stream, [[maybe_unused]] PlaceTaken place) {
  constexpr std::chrono::seconds kMostTime{5};
  constexpr std::size_t kMostBytes = 64 << 10;
  error_code error;
  auto& lowest = beast::get_lowest_layer(stream);
  lowest.expires_after(kMostTime); // for all that follows
  if constexpr (std::is_same_v<Stream, TlsStream>)
    co_await stream.async_handshake(net::ssl::stream_base::server, into(error));
  const Request none = nameless({});
  const Response full = busy("too many connections; come back in a second", none.id);
  Message message = to_message(full, none, 11, false);
  if (!error) co_await http::async_write(stream, message, into(error));
  error_code ignored;
  if constexpr (std::is_same_v<Stream, TlsStream>) {
    if (!error) co_await stream.async_shutdown(into(ignored)); // fails if a request came in meanwhile
  }
  lowest.socket().shutdown(net::socket_base::shutdown_send, ignored);
  // Closing with an unread request would destroy the answer before the client gets it.
  std::vector<char> piece(4096);
  for (std::size_t count = 0; !error && count < kMostBytes;)
    count += co_await lowest.async_read_some(net::buffer(piece), into(error));
}

template net::awaitable<void> turn_away(PlainStream, PlaceTaken);
template net::awaitable<void> turn_away(TlsStream, PlaceTaken);
template net::awaitable<void> serve_connection(PlainStream, std::string, SessionContext);
template net::awaitable<void> serve_connection(TlsStream, std::string, SessionContext);

} // namespace mc2::server
