#pragma once

#include <cstdint>

#include "lanes/run_control.hpp"
#include "lanes/signal.hpp"
#include "polling.hpp"

namespace mc2::executor::host {

/// How often a wait polls before it sleeps. The polls take about 5 us, as long as falling asleep and being woken, so a
/// wait costs at most twice what the better choice would have cost (competitive spinning; Karlin et al., SODA 1990).
inline constexpr int kPollCount = 128;

/// Polls `is_there()` up to kPollCount times. False when the condition still does not hold and the caller has to sleep.
template <typename Condition>
[[nodiscard]] bool poll(const Condition& is_there) {
  for (int i = 0; i < kPollCount; ++i) {
    if (is_there()) return true;
    relax_processor();
  }
  return is_there();
}

/// Waits until a signal has reached `count`. Memory that was written before the signal was raised is visible
/// afterwards. Throws RunAborted. Throws SystemError past the run's deadline, with the text of `awaited()`, e.g. "rank
/// 0 waited for block 3 of rank 1".
template <typename Awaited>
void await(const lanes::Signal& signal, std::uint32_t count, const lanes::RunControl& control, const Awaited& awaited) {
  control.throw_if_aborted();
  if (poll([&] { return signal.count() >= count; })) return;
  switch (signal.wait_at_least(count, control.deadline())) {
    case lanes::WaitResult::Reached: return;
    case lanes::WaitResult::Aborted: throw lanes::RunAborted{};
    case lanes::WaitResult::TimedOut: throw lanes::deadline_error(awaited());
  }
}

} // namespace mc2::executor::host
