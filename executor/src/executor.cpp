#include "mc2/executor/executor.hpp"
#include "mc2/planner/text.hpp"

#include <string>

#include "stage.hpp"

namespace mc2::executor {
namespace {

Result<void> check_fingerprint(const planner::Fingerprint& plan, const planner::Fingerprint& machine) {
  const auto differences = machine.differences(plan);
  if (differences.empty()) return {};
  return Error{ErrorCode::Stale, "fingerprint", "the plan was made for another machine: " + list_text(differences)};
}

/// The plan's stages, after the checks that the communicator may run them.
Result<StageList> bind(const planner::Plan& plan, const Communicator& communicator, const ExecuteOptions& options) {
  if (plan.op.world_size != communicator.world_size()) {
    return Error{ErrorCode::InvalidSpec, "world_size",
                 "the plan is for " + std::to_string(plan.op.world_size) + " ranks and the communicator has " +
                     std::to_string(communicator.world_size())};
  }
  if (!options.accept_other_fingerprint) {
    MC2_TRY(check_fingerprint(plan.fingerprint, communicator.fingerprint()));
  }
  return lower(plan.op, plan.cut, plan.schedule);
}

} // namespace

Result<std::unique_ptr<Prepared>> prepare(const planner::Plan& plan, std::span<const RankBuffers> buffers,
                                          Communicator& communicator, const ExecuteOptions& options) {
  const auto stages = bind(plan, communicator, options);
  MC2_TRY(communicator.share_error(stages ? Result<void>{} : stages.error()));
  return communicator.prepare_stages(stages.value(), plan.variant, buffers, options.prepare);
}

} // namespace mc2::executor
