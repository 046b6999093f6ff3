#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "answer_cache.hpp"
#include "mc2/client/client.hpp"
#include "mc2/server/config.hpp"
#include "mc2/server/message.hpp"
#include "mc2/server/service.hpp"
#include "store_gate.hpp"

namespace mc2::server {

/// Keeps the store the replica of another service's, its leader's, as long as it lives. Where the leader does not
/// answer, the store stays as it is and the leader is asked again. Threads: safe to share.
class Follower {
 public:
  /// Makes the store a replica of the leader's before it is served: takes a snapshot where it is none yet, for which it
  /// waits a little. Errors: those of the client; as store::Store::become_replica.
  [[nodiscard]] static Result<void> prepare(const Config& config, const Surroundings& surroundings);

  /// @param store    prepared
  /// @param answers  forgotten where another snapshot is taken
  /// Errors: as client::Options::validate.
  [[nodiscard]] static Result<std::unique_ptr<Follower>> open(const Config& config, StoreGate& store,
                                                              AnswerCache& answers, Surroundings surroundings);

  struct State {
    bool is_connected = false;           ///< the leader has answered when it was asked last
    std::int64_t leader_revision = 0;    ///< when it was
    std::chrono::milliseconds behind{0}; ///< since the store had everything that the leader's had, or since the start
  };
  [[nodiscard]] State state() const;
  /// The leader is asked no more, and who waits for it is told so. Threads: any.
  void stop() noexcept { ends_.request_stop(); }

  /// For a header, as a dictionary of RFC 8941: "behind-ms=12, connected=?1".
  [[nodiscard]] std::string state_text() const;

  /// Lets the leader answer a request that would change its documents, and waits a moment for the change to come back.
  [[nodiscard]] Response send_on(const Request& request) const;
  /// Whether a request with this header Via was sent on here before.
  [[nodiscard]] bool has_sent(std::string_view via) const noexcept { return via.find(name_) != std::string_view::npos; }

  ~Follower() { stop(); }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  Follower(const Config& config, client::Client client, StoreGate& store, AnswerCache& answers,
           Surroundings surroundings);
  void follow(const std::stop_token& ends);
  /// Asks once and takes over what has changed. Returns whether to ask again at once. Errors: why it is not followed.
  [[nodiscard]] Result<bool> step(const std::stop_token& ends);
  [[nodiscard]] Result<void> take_snapshot(const std::stop_token& ends);
  void note_current(std::int64_t leader_revision);
  void note_lost(const std::string& why);

  const Config& config_;
  std::string name_; ///< in headers Via: nobody else's
  client::Client client_;
  StoreGate& store_;
  AnswerCache& answers_;
  Surroundings surroundings_;
  std::stop_source ends_;
  mutable std::mutex mutex_;
  State state_;                  ///< under mutex_, without `behind`
  Clock::time_point current_at_; ///< under mutex_
  std::string told_;             ///< likewise: why it is not followed, as was told last
  std::jthread thread_;          ///< last: it works with what stands above
};

} // namespace mc2::server
