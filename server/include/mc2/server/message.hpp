#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mc2::server {

/// What a client may do, and what a route requires. Each level includes the levels before it.
enum class Access : std::uint8_t {
  Open,  ///< needs no token: the answer holds no document of the store
  Read,  ///< ask questions and read documents
  Write, ///< add to the store
  Admin, ///< remove from the store, manage tokens
};

/// The kind of work that answering a request takes. Each kind but Quick has threads of its own, so that a request waits
/// only for requests of its own kind.
enum class Work : std::uint8_t {
  Quick, ///< never waits; done on the connection's thread
  Read,  ///< reads the store, and so waits while another process writes to it
  Plan,  ///< may make a plan, at most until the question's deadline
  Write, ///< changes the store; one request at a time
  Copy,  ///< copies the whole store; one request at a time
};

struct Needs {
  Work work = Work::Quick;
  bool upload = false; ///< the body may have up to Limits::upload_bytes
  bool log = false;    ///< the body is another program's log; else it is JSON
  bool own = false;    ///< changes what a replica keeps for itself (tokens), so a replica does it, too
};

struct Route;

/// The route of a request. Where there is none, the methods that the path has.
struct Match {
  const Route* route = nullptr;
  Needs needs = {};
  std::string id;
  std::string allowed; ///< where `route` is null: "GET, HEAD, POST"; empty: no such path
};

/// Bytes of a request, in memory or in a mapped file. Copies share the bytes.
class Body {
 public:
  Body() = default;
  Body(std::string bytes); // NOLINT: implicit by design
  /// @param owner  keeps `bytes` alive
  Body(std::shared_ptr<const void> owner, std::string_view bytes) : owner_(std::move(owner)), bytes_(bytes) {}

  operator std::string_view() const noexcept { return bytes_; } // NOLINT: implicit by design

 private:
  std::shared_ptr<const void> owner_;
  std::string_view bytes_;
};

/// A request as it came off the wire, complete and within the limits.
struct Request {
  std::string method = {};
  std::string target = {}; ///< path and query, undecoded
  Body body = {};
  std::string content_type = {};
  std::string accept = {};
  std::string if_match = {}, if_none_match = {};
  std::string accept_encoding = {};
  std::string user_agent = {};
  std::string via = {};            ///< header Via: whom the request came through (RFC 9110 §7.6.3)
  std::string last_event_id = {};  ///< header Last-Event-ID, where a client resumes a stream of events
  std::string id = {};             ///< the client's X-Request-Id, or a number of this service
  Access granted = Access::Open;   ///< from Service::admit, as is `match`
  std::optional<Match> match = {}; ///< unset: not looked up yet
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now(); ///< when all of it was there
  std::function<bool()> is_given_up = {}; ///< whether the client has gone; empty: it has not
  std::optional<std::int64_t> told = {};  ///< set to have a waiting answer made anew: its Watch::told
};

/// Attached to an answer that waits for the next change of the store, or goes on with each change.
struct Watch {
  std::int64_t told = 0;                 ///< the revision of the store up to which the answer tells
  bool is_stream = false;                ///< later changes are appended; else the next answer replaces this one
  std::chrono::milliseconds patience{0}; ///< how long to wait for a change; of no use to a stream
};

using Header = std::pair<std::string, std::string>;

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::shared_ptr<const std::string> body = {}; ///< shared with the cache of answers; null: no body, or `file`
  std::string etag = {};                        ///< with its quotes; empty: none
  std::vector<Header> headers = {};
  std::optional<Watch> watch = std::nullopt;
  Body file = {}; ///< the body where `body` is null

  [[nodiscard]] std::string_view bytes() const noexcept { return body ? std::string_view(*body) : file; }
};

} // namespace mc2::server
