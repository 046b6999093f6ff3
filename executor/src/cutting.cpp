#include "mc2/executor/cutting.hpp"

#include "mc2/executor/backend.hpp"

namespace mc2::executor {
namespace {

/// Null for a fingerprint without a backend of this build.
const Backend* backend_of(const planner::Fingerprint& machine) {
  const auto name = machine.fields.find("backend");
  if (name == machine.fields.end()) return nullptr;
  const auto found = find_backend(name->second);
  return found ? found.value() : nullptr;
}

} // namespace

planner::PlanOptions options_on(const planner::Fingerprint& machine, const planner::OpSpec& op,
                                planner::PlanOptions options) {
  const Backend* const backend = backend_of(machine);
  if (backend != nullptr && !backend->supports_cut(op)) options.max_block_count = 1;
  return options;
}

planner::PlanOptions default_options_on(const planner::Fingerprint& machine, const planner::OpSpec& op) {
  planner::PlanOptions options;
  if (const Backend* const backend = backend_of(machine))
    options.alignment = options.min_block_rows = backend->default_alignment();
  return options_on(machine, op, options);
}

} // namespace mc2::executor
