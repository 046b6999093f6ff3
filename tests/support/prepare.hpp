#pragma once

#include <memory>
#include <span>

#include "mc2/executor/executor.hpp"
#include "mc2/planner/planner.hpp"

namespace mc2::testing {

/// Blocks that nobody planned, bound to buffers. Errors: as planner::unpredicted_plan and executor::prepare.
inline Result<std::unique_ptr<executor::Prepared>> prepare_cut(executor::Communicator& communicator,
                                                               const planner::OpSpec& op, const planner::Cut& cut,
                                                               const planner::Variant& variant,
                                                               std::span<const executor::RankBuffers> buffers,
                                                               const executor::PrepareOptions& options = {}) {
  MC2_ASSIGN(const auto plan, planner::unpredicted_plan(op, communicator.fingerprint(), variant, cut));
  return executor::prepare(plan, buffers, communicator, {.prepare = options});
}

} // namespace mc2::testing
