#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mc2/executor/communicator.hpp"

namespace mc2::executor {

// A rank's times as numbers, which is how processes exchange them.

[[nodiscard]] constexpr std::size_t time_count(std::size_t stage_count) noexcept { return 4 * stage_count + 2; }

template <typename Times, typename Visit>
void visit_times(Times& times, Visit visit) {
  for (auto& time : times.compute) visit(time);
  for (auto& time : times.communication) visit(time);
  visit(times.local);
}

/// Gives `numbers` the time_count() numbers of the rank's times.
inline void pack_times(const RankTimes& times, std::vector<std::int64_t>& numbers) {
  numbers.clear();
  visit_times(times, [&](const StageTime& time) {
    numbers.insert(numbers.end(), {time.start.count(), time.end.count()});
  });
}

/// @param times  has as many stages as the times that were packed
inline void unpack_times(std::span<const std::int64_t> numbers, RankTimes& times) noexcept {
  visit_times(times, [at = numbers.begin()](StageTime& time) mutable {
    time.start = std::chrono::nanoseconds{*at++};
    time.end = std::chrono::nanoseconds{*at++};
  });
}

} // namespace mc2::executor
