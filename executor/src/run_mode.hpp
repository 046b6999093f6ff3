#pragma once

#include "mc2/executor/communicator.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

[[nodiscard]] constexpr bool runs_lane(RunMode mode, planner::Lane lane) noexcept {
  if (mode == RunMode::ComputeOnly) return lane == planner::Lane::Compute;
  if (mode == RunMode::CommunicationOnly) return lane == planner::Lane::Communication;
  return true;
}

} // namespace mc2::executor
