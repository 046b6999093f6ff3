#pragma once

#include <memory>
#include <span>

#include "mc2/executor/communicator.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

struct ExecuteOptions {
  bool accept_other_fingerprint = false; ///< run a plan that was made for another machine
  PrepareOptions prepare;
};

/// Binds a plan to the caller's buffers on a communicator. Decides nothing: the plan says how to cut.
/// Order: *collective* over processes; an error on one process is returned on all, with its rank.
/// Errors: Stale when the plan's fingerprint is not the communicator's (naming the differences), InvalidSpec for a
/// world size, block list or buffer that does not fit, UnknownName and Unsupported as Communicator::prepare_stages.
[[nodiscard]] Result<std::unique_ptr<Prepared>> prepare(const planner::Plan& plan, std::span<const RankBuffers> buffers,
                                                        Communicator& communicator, const ExecuteOptions& options = {});

} // namespace mc2::executor

#pragma GCC visibility pop
