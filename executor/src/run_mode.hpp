#pragma once

#include <cstddef>

#include "mc2/executor/communicator.hpp"
#include "mc2/planner/op_spec.hpp"
#include "stage.hpp"

namespace mc2::executor {

inline constexpr std::size_t kRunModeCount = static_cast<std::size_t>(RunMode::SerialCompute) + 1;

/// Whether the second lane starts only when the first has done all its blocks. SerialCompute counts, although only one
/// lane runs.
[[nodiscard]] constexpr bool is_serial(RunMode mode) noexcept {
  return mode == RunMode::Serial || mode == RunMode::SerialCompute;
}

/// The mode that runs if `asked` is asked for: Fused becomes Serial in a serial schedule.
[[nodiscard]] constexpr RunMode mode_of(const StageList& list, RunMode asked) noexcept {
  return list.schedule == planner::Schedule::Serial && asked == RunMode::Fused ? RunMode::Serial : asked;
}

[[nodiscard]] constexpr bool runs_lane(RunMode mode, planner::Lane lane) noexcept {
  if (mode == RunMode::ComputeOnly || mode == RunMode::SerialCompute) return lane == planner::Lane::Compute;
  if (mode == RunMode::CommunicationOnly) return lane == planner::Lane::Communication;
  return true;
}

} // namespace mc2::executor
