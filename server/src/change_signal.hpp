#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace mc2::server {

/// Wakes its subscribers when something changes. Copies share their subscribers. Threads: safe to share.
class ChangeSignal {
 public:
  using Wake = std::function<void()>;

  /// @param wake  called on any thread as long as the returned value lives; must neither wait nor throw nor subscribe
  /// @param most  subscribers at a time; null is returned where there are so many already
  [[nodiscard]] std::shared_ptr<void> subscribe(Wake wake, std::size_t most) {
    const std::lock_guard lock(state_->mutex);
    if (state_->wakes.size() >= most) return nullptr;
    const auto place = state_->wakes.insert(state_->wakes.end(), std::move(wake));
    return {state_.get(), [state = state_, place](void*) {
              const std::lock_guard unlisting(state->mutex);
              state->wakes.erase(place);
            }};
  }

  [[nodiscard]] std::size_t subscriber_count() const {
    const std::lock_guard lock(state_->mutex);
    return state_->wakes.size();
  }

  void fire() const {
    const std::lock_guard lock(state_->mutex);
    for (const Wake& wake : state_->wakes) wake();
  }

 private:
  struct State {
    std::mutex mutex;
    std::list<Wake> wakes; ///< under mutex
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

} // namespace mc2::server
