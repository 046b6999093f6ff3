#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "http/target.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/server/message.hpp"

namespace mc2::server {

/// Says when planning for a question has to end: when its parameter deadline_ms is up, when the client has gone, or,
/// once the service ends, kDrainTime after that began. The request must outlive it. Threads: one.
class Deadline {
 public:
  static constexpr std::chrono::milliseconds kUsual{2'000}, kLongest{60'000}, kDrainTime{500};
  /// Whether the client has gone is not looked at before this. Some clients close their sending half with the request,
  /// which looks like leaving; they get the answers that take less time.
  static constexpr std::chrono::milliseconds kFirstLook{100};

  /// Errors: InvalidSpec for a deadline_ms that is not 1 to kLongest.
  [[nodiscard]] static Result<Deadline> read(const Query& query, const Request& request,
                                             const std::atomic<bool>& is_draining);

  /// Whether planning has to end; serves as a planner::StopCheck.
  [[nodiscard]] bool is_over();
  /// The error (Cancelled) where planning was given up: the reason, and what would need less time.
  [[nodiscard]] Error error() const;

 private:
  enum class Reason : std::uint8_t { None, Time, GivenUp, Draining };
  Deadline(const Request& request, std::chrono::milliseconds allowed, const std::atomic<bool>& is_draining)
      : request_(&request), allowed_(allowed), is_draining_(&is_draining), next_look_(request.arrived + kFirstLook) {}
  [[nodiscard]] Reason look();

  const Request* request_;
  std::chrono::milliseconds allowed_; ///< since the request arrived
  const std::atomic<bool>* is_draining_;
  std::optional<std::chrono::steady_clock::time_point> drains_since_; ///< as seen here
  Reason reason_ = Reason::None;
  std::chrono::steady_clock::time_point next_look_; ///< when to look again for the client, by a system call
};

} // namespace mc2::server
