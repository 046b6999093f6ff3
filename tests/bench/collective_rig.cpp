#include "collective_rig.hpp"

#include <CLI/CLI.hpp>

#include "mc2/executor/verify.hpp"
#include "mc2/planner/planner.hpp"
#include "options/numbers.hpp"
#include "support.hpp"

namespace mc2::cli {

std::vector<planner::Variant> CollectiveSite::variants(const planner::OpSpec& op) const {
  auto proposed = backend->variants(op, options);
  std::erase_if(proposed, [](const auto& variant) { return variant.fields.contains("tile"); });
  return proposed;
}

void CollectiveOptions::add_to(CLI::App& app) {
  machine.add_to(app);
  app.add_option("--dtype", dtype, "element type: f32, f16, bf16")->capture_default_str();
  app.add_option("--ranks", ranks, "ranks that take part")
      ->capture_default_str()
      ->check(whole_number(2, planner::kMaxWorldSize));
}

Result<CollectiveSite> CollectiveOptions::site() const {
  CollectiveSite site;
  MC2_ASSIGN(site.backend, machine.find());
  MC2_ASSIGN(site.options, machine.communicator_options(ranks));
  if (site.options.virtual_compute)
    return Error{ErrorCode::InvalidSpec, "--virtual-compute", "leave it out: no matmul is timed here"};
  MC2_ASSIGN(site.dtype, planner::parse_dtype(dtype));
  return site;
}

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
