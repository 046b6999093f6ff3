#include "mc2/executor/cutting.hpp"

#include <algorithm>
#include <numeric>

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

/// Where blocks may be cut: as the plan's own backend does, else as the plan's blocks show.
std::int64_t likely_alignment(const planner::Plan& plan) {
  const std::int64_t alignment = default_options_on(plan.fingerprint).alignment;
  if (!plan.is_cut()) return alignment;
  // One block may be ragged: the one that takes the rest.
  const auto& rows = plan.cut.block_rows;
  const auto common = [&](std::size_t first, std::size_t last) {
    return std::accumulate(rows.begin() + static_cast<std::ptrdiff_t>(first),
                           rows.begin() + static_cast<std::ptrdiff_t>(last), alignment,
                           [](std::int64_t a, std::int64_t b) { return std::gcd(a, b); });
  };
  return std::max(common(0, rows.size() - 1), common(1, rows.size()));
}

} // namespace

planner::PlanOptions default_options_on(const planner::Fingerprint& machine) {
  planner::PlanOptions options;
  if (const Backend* const backend = backend_of(machine))
    options.alignment = options.min_block_rows = backend->default_alignment();
  return options;
}

planner::PlanOptions likely_limits(const planner::Plan& plan, const CutLimits& said) {
  planner::PlanOptions options;
  options.alignment = said.alignment.value_or(likely_alignment(plan));
  const auto shortest = *std::ranges::min_element(plan.cut.block_rows);
  options.min_block_rows = said.min_block_rows.value_or(std::min(options.alignment, shortest));
  const auto count = std::min<std::int64_t>(std::ssize(plan.cut.block_rows), planner::kMaxBlockCount);
  options.max_block_count = said.max_block_count.value_or(std::max(options.max_block_count, count));
  return options;
}

} // namespace mc2::executor
