#include "deadline.hpp"

#include <string>

namespace mc2::server {

Result<Deadline> Deadline::read(const Query& query, const Request& request, const std::atomic<bool>& is_draining) {
  MC2_ASSIGN(const auto given, query.integer("deadline_ms", 1, kLongest.count()));
  return Deadline(request, given ? std::chrono::milliseconds(*given) : kUsual, is_draining);
}

bool Deadline::is_over() {
  if (reason_ == Reason::None) reason_ = look();
  return reason_ != Reason::None;
}

Deadline::Reason Deadline::look() {
  constexpr std::chrono::milliseconds kBetweenLooks{100};
  const auto now = std::chrono::steady_clock::now();
  if (now - request_->arrived >= allowed_) return Reason::Time;
  if (*is_draining_ && !drains_since_) drains_since_ = now;
  if (drains_since_ && now - *drains_since_ >= kDrainTime) return Reason::Draining;
  if (!request_->is_given_up || now < next_look_) return Reason::None;
  next_look_ = now + kBetweenLooks;
  return request_->is_given_up() ? Reason::GivenUp : Reason::None;
}

Error Deadline::error() const {
  if (reason_ == Reason::Draining)
    return {ErrorCode::Cancelled, "", "the service is stopping; ask another service, or ask again later"};
  if (reason_ == Reason::GivenUp) return {ErrorCode::Cancelled, "", "the client has gone"};
  return {ErrorCode::Cancelled, "deadline_ms",
          "is " + std::to_string(allowed_.count()) +
              ", too short for this question just now; ask for less (strategy search, a larger alignment, a shorter "
              "range, fewer questions at a time), or give up to " +
              std::to_string(kLongest.count())};
}

} // namespace mc2::server
