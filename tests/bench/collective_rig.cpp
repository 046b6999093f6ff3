#include "collective_rig.hpp"

#include "mc2/executor/verify.hpp"
#include "mc2/planner/planner.hpp"
#include "support.hpp"

namespace mc2::cli {

CollectiveRig::CollectiveRig(const planner::OpSpec& op, executor::Communicator& communicator)
    : op_(op), communicator_(communicator), problem_(op, fresh_seed(), communicator) {}

Result<void> CollectiveRig::add(const planner::Variant& variant, std::int64_t block_count) {
  const std::int64_t length = planner::traits_of(op_.kind).cut_axis_length(op_);
  const planner::Cut cut{std::vector<std::int64_t>(static_cast<std::size_t>(block_count), length / block_count)};
  MC2_ASSIGN(const auto plan, planner::unpredicted_plan(op_, communicator_.fingerprint(), variant, cut));
  MC2_ASSIGN(auto prepared, executor::prepare(plan, problem_.buffers(), communicator_));
  problem_.poison();
  prepared->run(executor::RunMode::Fused);
  problem_.fetch_results();
  MC2_TRY(executor::verify_result(op_, problem_.host().buffers(), cut, 1));
  prepared_.push_back(std::move(prepared));
  return {};
}

const executor::RunRecord& CollectiveRig::run(std::size_t variant) {
  return prepared_[variant]->run(executor::RunMode::CommunicationOnly, executor::RunDetail::Makespan);
}

} // namespace mc2::cli
