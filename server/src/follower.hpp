#pragma once

#include <chrono>
#include <cstdint>
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
  /// Makes the store a replica of the leader's before it is served: takes a snapshot where it is none yet, or where the
  /// leader tells of its changes no longer. A replica whose leader does not answer is served as it is. Errors: those of
  /// the client for a store that is no replica yet; InvalidSpec for one with documents of its own; Unsupported for a
  /// leader of another mc2.
  [[nodiscard]] static Result<void> prepare(const Config& config, const Surroundings& surroundings);

  /// @param store    prepared
  /// @param answers  forgotten where another snapshot is taken
  /// Errors: as client::Options::validate.
  [[nodiscard]] static Result<std::unique_ptr<Follower>> open(const Config& config, StoreGate& store,
                                                              AnswerCache& answers, Surroundings surroundings);

  struct State {
    bool is_connected = false;           ///< the leader has answered when it was asked last
    std::int64_t leader_revision = 0;    ///< when it was
    std::chrono::milliseconds behind{0}; ///< since the store had everything that the leader's had
  };
  [[nodiscard]] State state() const;
  /// For a header, as a dictionary of RFC 8941: "behind-ms=12, connected=?1".
  [[nodiscard]] std::string state_text() const;

  /// Lets the leader answer a request that would change its documents, and waits a moment for the change to come back.
  [[nodiscard]] Response send_on(const Request& request) const;

 private:
  using Clock = std::chrono::steady_clock;

  Follower(client::Client client, StoreGate& store, AnswerCache& answers, Surroundings surroundings);
  void follow(const std::stop_token& ends);
  /// Asks once and takes over what has changed. Errors: why it is not followed.
  [[nodiscard]] Result<void> step(const std::stop_token& ends);
  [[nodiscard]] Result<void> take_over(const store::Changes& changes, std::int64_t since);
  [[nodiscard]] Result<void> take_snapshot(std::int64_t since, const std::stop_token& ends);
  void note_current(std::int64_t leader_revision);
  void note_lost(const Error& why);

  client::Client client_;
  StoreGate& store_;
  AnswerCache& answers_;
  Surroundings surroundings_;
  bool is_checked_ = false; ///< of the thread: the leader's store has our last change
  mutable std::mutex mutex_;
  State state_;                  ///< under mutex_, without `behind`
  Clock::time_point current_at_; ///< under mutex_
  ErrorCode told_{};             ///< likewise: why it is not followed, as was told last
  std::jthread thread_;          ///< last: it works with what stands above
};

} // namespace mc2::server
