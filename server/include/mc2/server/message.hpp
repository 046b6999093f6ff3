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

/// What a route asks of a client, and what a client may do: each includes those before it.
enum class Access : std::uint8_t {
  Open,  ///< everybody may: nothing of the store is in the answer
  Read,  ///< ask
  Write, ///< add to the store
  Admin, ///< remove from it
};

/// What answering a request takes, and with whom it therefore shares its threads: none waits for those of another kind.
enum class Work : std::uint8_t {
  Quick, ///< nothing that may wait
  Read,  ///< reads the store, which waits while another process writes to it
  Plan,  ///< may plan; at most for the question's deadline
  Write, ///< changes the store: one at a time
  Copy,  ///< copies all of the store: one at a time
};

struct Needs {
  Work work = Work::Quick;
  bool upload = false; ///< its body may have Limits::upload_bytes
  bool log = false;    ///< its body is what another program wrote; others are JSON
  bool own = false;    ///< changes what a replica has of its own, too
};

struct Route;

/// The route of a request; where there is none, the methods that the path does have.
struct Match {
  const Route* route = nullptr;
  Needs needs = {};
  std::string id;
  std::string allowed; ///< "GET, HEAD, POST"; empty: no such path
};

/// Bytes of a request, in memory or in a file that is mapped. Copies share them.
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
  std::string method;
  std::string target; ///< path and query, undecoded
  Body body;
  std::string content_type;
  std::string accept;
  std::string if_match, if_none_match;
  std::string accept_encoding;
  std::string user_agent;
  std::string via;                 ///< through whom it came (RFC 9110 §7.6.3)
  std::string last_event_id;       ///< of a stream of events that goes on
  std::string id;                  ///< the client's X-Request-Id, or one of ours
  Access granted = Access::Open;   ///< by Service::admit, as the next
  std::optional<Match> match = {}; ///< unset: nobody has looked
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now(); ///< complete
  std::function<bool()> is_given_up = {}; ///< whether nobody waits for the answer any more; empty: somebody does
  std::optional<std::int64_t> told = {};  ///< Watch::told of the answer before, where more of it is asked for
};

/// An answer that goes on, or waits, until there is more to tell of what happens to the store.
struct Watch {
  std::int64_t told = 0;                 ///< the store's revision up to which it tells
  bool is_stream = false;                ///< what is told later follows on this; else it takes the place of this
  std::chrono::milliseconds patience{0}; ///< how long to wait for it, unless it is a stream
};

using Header = std::pair<std::string, std::string>;

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::shared_ptr<const std::string> body; ///< shared with the cache of answers; null: none, or a file
  std::string etag;                        ///< quoted; empty: none
  std::vector<Header> headers = {};
  std::optional<Watch> watch = std::nullopt;
  Body file = {}; ///< in place of `body`

  [[nodiscard]] std::string_view bytes() const noexcept { return body ? std::string_view(*body) : file; }
};

} // namespace mc2::server
