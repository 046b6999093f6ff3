#include <algorithm>

#include "mc2/embed/plan_finder.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::embed {
namespace {

Result<const executor::Backend*> backend_of(const planner::Fingerprint& machine) {
  const std::string_view name = machine.field("backend");
  if (name.empty())
    return Error{ErrorCode::UnknownName, "fingerprint", "names no backend; take that of a communicator"};
  return executor::find_backend(name);
}

/// Options of a communicator on that machine, as far as they decide which variants a backend has.
executor::CommunicatorOptions options_of(const planner::OpSpec& op, const planner::Fingerprint& machine) {
  executor::CommunicatorOptions options;
  options.world_size = op.world_size;
  if (const std::string_view here = machine.field("ranks_per_host"); !here.empty()) {
    executor::ProcessPlace& place = options.process.emplace();
    place.address = "several hosts";
    place.local_size = number_in<int>(here).value_or(0);
  }
  if (const auto link = executor::parse_link(machine.field("link"))) options.link = link.value();
  return options;
}

} // namespace

Result<planner::Plan> uncut_plan(const planner::OpSpec& op, const planner::Fingerprint& machine) {
  MC2_TRY(op.validate());
  MC2_TRY(machine.require_ranks(op.world_size));
  MC2_ASSIGN(const auto* backend, backend_of(machine));
  const auto options = options_of(op, machine);
  MC2_TRY(backend->takes(op, options));
  const auto variants = backend->variants(op, options);
  // Slices overlap the lanes even of an uncut plan.
  const auto whole =
      std::ranges::find_if(variants, [](const auto& variant) { return planner::slices_of(variant).count() == 1; });
  if (whole == variants.end()) {
    return Error{ErrorCode::Unsupported, "op",
                 "the " + std::string(backend->name()) + " backend has no variant for " + op.text()};
  }
  planner::Plan plan;
  plan.op = op;
  plan.fingerprint = machine;
  plan.strategy = "given";
  plan.variant = *whole;
  plan.cut = planner::uncut(op);
  plan.schedule = planner::Schedule::Serial;
  plan.reason = "uncut: matmul and collective one after the other";
  return plan;
}

} // namespace mc2::embed
