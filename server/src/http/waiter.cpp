#include "http/waiter.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>

namespace mc2::server {

namespace net = boost::asio;

struct Waiter::Alarm {
  net::steady_timer timer;
};

Waiter::Waiter(const net::any_io_executor& executor, Service& service, int most)
    : service_(service), alarm_(std::make_shared<Alarm>(net::steady_timer(executor))) {
  const auto wake = [alarm = std::weak_ptr(alarm_), executor] {
    try {
      // Posted behind what the coroutine does now: afterwards it either waits, or asks for news before it waits.
      net::post(executor, [alarm] {
        if (const auto held = alarm.lock()) held->timer.cancel();
      });
    } catch (const std::exception&) { // no memory: the coroutine looks again when its time is up
    }
  };
  subscription_ = service.subscribe(wake, most);
}

Waiter::~Waiter() = default;

net::awaitable<void> Waiter::wait(std::int64_t told, std::chrono::steady_clock::duration patience) {
  if (service_.has_news(told)) co_return;
  boost::system::error_code ignored;
  alarm_->timer.expires_after(patience);
  co_await alarm_->timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
}

} // namespace mc2::server
