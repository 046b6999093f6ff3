#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "http/target.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/server/message.hpp"

namespace mc2::server {

/// How long a question is planned: for its parameter deadline_ms, as long as somebody waits for the answer, and for
/// kDrainTime at most once the service ends. Must not outlive the request. Threads: of one request.
class Deadline {
 public:
  static constexpr std::chrono::milliseconds kUsual{2'000}, kLongest{60'000}, kDrainTime{500};
  /// Some clients close their sending half with the request; what they ask quickly is answered all the same.
  static constexpr std::chrono::milliseconds kFirstLook{100};

  /// Errors: InvalidSpec for a deadline_ms that is not 1 to kLongest.
  [[nodiscard]] static Result<Deadline> read(const Query& query, const Request& request,
                                             const std::atomic<bool>& is_draining);

  /// A planner::StopCheck.
  [[nodiscard]] bool is_over();
  /// What to say where planning was given up: why, and what would fit. Of Cancelled.
  [[nodiscard]] Error error() const;

 private:
  enum class Reason : std::uint8_t { None, Time, GivenUp, Draining };
  Deadline(const Request& request, std::chrono::milliseconds allowed, const std::atomic<bool>& is_draining)
      : request_(&request), allowed_(allowed), is_draining_(&is_draining), next_look_(request.arrived + kFirstLook) {}
  [[nodiscard]] Reason look();

  const Request* request_;
  std::chrono::milliseconds allowed_; ///< from when the request arrived
  const std::atomic<bool>* is_draining_;
  Reason reason_ = Reason::None;
  std::chrono::steady_clock::time_point next_look_; ///< whether somebody waits, which is a system call
};

} // namespace mc2::server
