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

/// Keeps the store a replica of the store of another service, its leader, as long as this object lives. While the
/// leader does not answer, the store stays as it is and the leader is asked again and again. Threads: safe to share.
class Follower {
 public:
  /// Makes the store a replica before it is served. Takes a snapshot of the leader's store unless the store is a
  /// replica already, and waits up to 10 s for a leader that does not answer yet. Errors: those of the client; as
  /// store::Store::become_replica.
  [[nodiscard]] static Result<void> prepare(const Config& config, const Surroundings& surroundings);

  /// @param store    one that prepare() has made a replica
  /// @param answers  emptied whenever another snapshot is taken
  /// Errors: as client::Options::validate.
  [[nodiscard]] static Result<std::unique_ptr<Follower>> open(const Config& config, StoreGate& store,
                                                              AnswerCache& answers, Surroundings surroundings);

  struct State {
    bool is_connected = false;           ///< whether the leader answered when it was last asked
    std::int64_t leader_revision = 0;    ///< when the leader last answered
    std::chrono::milliseconds behind{0}; ///< since the store last had all that the leader's had, or since the start
  };
  [[nodiscard]] State state() const;
  /// Stops asking the leader; send_on() gives up waiting for the leader, too. Threads: any.
  void stop() noexcept { ends_.request_stop(); }

  /// The state for a header, as a dictionary of RFC 8941: "behind-ms=12, connected=?1".
  [[nodiscard]] std::string state_text() const;

  /// Forwards a request that changes documents to the leader and returns its answer. Waits up to 1 s until the change
  /// has arrived in this store, too. Forwards nothing unless the leader says that it still has the store that this one
  /// copies: a change that was meant for that store must not be made to another one.
  [[nodiscard]] Response send_on(const Request& request) const;
  /// Whether this follower has forwarded a request with this header Via before.
  [[nodiscard]] bool has_sent(std::string_view via) const noexcept { return via.find(name_) != std::string_view::npos; }

  ~Follower() { stop(); }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  Follower(const Config& config, client::Client client, StoreGate& store, AnswerCache& answers,
           Surroundings surroundings);
  void follow(const std::stop_token& ends);
  /// Asks the leader once and takes over what has changed. Returns whether to ask again at once. Errors: why the leader
  /// cannot be followed.
  [[nodiscard]] Result<bool> step(const std::stop_token& ends);
  [[nodiscard]] Result<void> take_snapshot(const std::stop_token& ends);
  /// Asks the leader, because it may have been replaced since the last step(). Errors: as Client::require_position.
  [[nodiscard]] Result<void> require_same_store(const std::stop_token& ends) const;
  void note_current(std::int64_t leader_revision);
  void note_lost(const std::string& why);

  const Config& config_;
  std::string name_; ///< of this follower in headers Via; random
  client::Client client_;
  StoreGate& store_;
  AnswerCache& answers_;
  Surroundings surroundings_;
  std::stop_source ends_;
  mutable std::mutex mutex_;
  State state_;                  ///< under mutex_; `behind` is not kept here
  Clock::time_point current_at_; ///< under mutex_
  std::string told_;             ///< the reason that note_lost() told last; under mutex_
  std::jthread thread_;          ///< last, because it uses the members above
};

} // namespace mc2::server
