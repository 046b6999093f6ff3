#include "message_rate.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "backends/host/mechanisms/proxy_threads.hpp"
#include "backends/host/mechanisms/waiting.hpp"
#include "lanes/affinity.hpp"
#include "lanes/symmetric_heap.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor {
namespace {

using namespace host;

constexpr std::uint32_t kSlotCount = 8;
constexpr std::uint32_t kProxyCapacity = 64;
constexpr std::chrono::seconds kDeadline{60};

/// Messages in one direction. Messages are numbered from 1.
class Pipe {
 public:
  Pipe(MessagePath path, std::size_t byte_count, const lanes::RunControl& control)
      : path_(path), byte_count_(byte_count), control_(control), heap_(2, kSlotCount * byte_count) {
    for (const int rank : {0, 1}) std::ranges::fill(heap_.segment(rank), std::byte{1});
    if (path == MessagePath::PushByProxy) proxy_.emplace(kProxyCapacity);
  }
  ~Pipe() {
    if (proxy_) proxy_->wait_idle();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void send(std::uint32_t number) {
    const std::uint32_t credit = number > kSlotCount ? number - kSlotCount : 0;
    const Put put{slot(0, number), slot(1, number), byte_count_, {}, &filled_, &emptied_, credit};
    const auto awaited = [] { return std::string("the sender waited for the receiver"); };
    switch (path_) {
      case MessagePath::Pull: // the message is in its slot already; the slot is free again once it has been read
        await(emptied_, credit, control_, awaited);
        filled_.add();
        return;
      case MessagePath::Push:
        if (carry_out(put, control_) != lanes::WaitResult::Reached) throw lanes::deadline_error(awaited());
        return;
      case MessagePath::PushByProxy:
        // A proxy frees its own queue entry a moment after the receiver may have emptied the slot.
        await(emptied_, number > kProxyCapacity / 2 ? number - kProxyCapacity / 2 : 0, control_, awaited);
        proxy_->post(put, control_);
        return;
    }
  }

  void receive(std::uint32_t number) {
    await(filled_, number, control_, [] { return std::string("the receiver waited for the sender"); });
    if (path_ == MessagePath::Pull) std::memcpy(slot(1, number), slot(0, number), byte_count_);
    emptied_.add();
  }

 private:
  [[nodiscard]] std::byte* slot(int rank, std::uint32_t number) const noexcept {
    return heap_.segment(rank).data() + number % kSlotCount * byte_count_;
  }

  MessagePath path_;
  std::size_t byte_count_;
  const lanes::RunControl& control_;
  lanes::SymmetricHeap heap_;
  lanes::Signal filled_, emptied_;
  std::optional<ProxyThread> proxy_;
};

/// Runs both sides at once. Rethrows an exception of a side, that of the first if both threw.
void run_both(const std::function<void()>& first, const std::function<void()>& second) {
  std::exception_ptr errors[2];
  const auto cores = lanes::allowed_cores();
  const auto side = [&](int rank, const std::function<void()>& work) {
    try {
      if (cores.size() > 1)
        lanes::pin_current_thread(std::span(cores).subspan(static_cast<std::size_t>(rank), 1), rank);
      work();
    } catch (...) {
      errors[rank] = std::current_exception();
    }
  };
  {
    const std::jthread one([&] { side(0, first); });
    const std::jthread other([&] { side(1, second); });
  }
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void stream(MessagePath path, std::size_t byte_count, std::uint32_t count, const lanes::RunControl& control,
            MessageTimes& times) {
  Pipe pipe(path, byte_count, control);
  lanes::Clock::duration lane{}, whole{};
  run_both(
      [&] {
        const auto start = lanes::Clock::now();
        for (std::uint32_t number = 1; number <= count; ++number) pipe.send(number);
        lane = lanes::Clock::now() - start;
      },
      [&] {
        pipe.receive(1); // the clock starts after the first message, when both sides are running
        const auto start = lanes::Clock::now();
        for (std::uint32_t number = 2; number <= count; ++number) pipe.receive(number);
        whole = lanes::Clock::now() - start;
      });
  times.lane_us = planner::to_us(lane) / count;
  times.throughput_us = planner::to_us(whole) / (count - 1);
}

void ping_pong(MessagePath path, std::size_t byte_count, std::uint32_t count, const lanes::RunControl& control,
               MessageTimes& times) {
  Pipe there(path, byte_count, control), back(path, byte_count, control);
  lanes::Clock::duration whole{};
  run_both(
      [&] {
        lanes::Clock::time_point start;
        for (std::uint32_t number = 1; number <= count; ++number) {
          there.send(number);
          back.receive(number);
          if (number == 1) start = lanes::Clock::now();
        }
        whole = lanes::Clock::now() - start;
      },
      [&] {
        for (std::uint32_t number = 1; number <= count; ++number) {
          there.receive(number);
          back.send(number);
        }
      });
  times.latency_us = planner::to_us(whole) / (2.0 * (count - 1));
}

} // namespace

std::string_view to_string(MessagePath path) noexcept {
  switch (path) {
    case MessagePath::Pull: return "pull";
    case MessagePath::Push: return "push, own thread";
    case MessagePath::PushByProxy: return "push, proxy";
  }
  return "?";
}

MessageTimes time_messages(MessagePath path, std::size_t byte_count, int message_count) {
  lanes::RunControl control(2);
  control.begin(RunMode::CommunicationOnly, kDeadline);
  const auto count = static_cast<std::uint32_t>(message_count) + 1; // the first starts the clock
  MessageTimes times;
  stream(path, byte_count, count, control, times);
  ping_pong(path, byte_count, count, control, times);
  return times;
}

} // namespace mc2::executor
