#include "mc2/finder/plan_llm.hpp"

#include <algorithm>
#include <utility>

namespace mc2::finder {
namespace {

using planner::LlmPoint;
using planner::LlmSite;

LlmPoint point_of(const planner::Plan& plan, std::int64_t tokens) {
  return {tokens,         plan.op,         plan.cut,      plan.variant,
          plan.serial_us, plan.compute_us, plan.makespan, plan.benefit_interval};
}

bool ends_all(const Error& error) { return error.code == ErrorCode::InvalidSpec || error.code == ErrorCode::Cancelled; }

std::vector<std::int64_t> steps_of(const LlmQuestion& asked) {
  return planner::steps_between(asked.first_tokens, asked.last_tokens, asked.steps_per_doubling);
}

bool has_op(const LlmSite& site) { return site.op.has_value(); }

} // namespace

Result<std::vector<LlmSite>> sites_of(const LlmQuestion& question) {
  std::vector<LlmSite> sites;
  for (const auto& layer : question.layers)
    for (const planner::OpKind kind : layer.kinds()) {
      LlmSite site{layer, kind};
      const auto op = layer.op(kind, layer.rows_of(question.last_tokens, kind, question.ranks), question.ranks);
      if (op)
        site.op = op.value();
      else
        site.reason = op.error().text();
      sites.push_back(std::move(site));
    }
  if (std::ranges::none_of(sites, has_op)) return Error{ErrorCode::Infeasible, "", sites.front().reason};
  return sites;
}

Result<void> plan_site(const FindModel& find, const LlmQuestion& question, LlmSite& site) {
  if (!site.op) return {};
  PlanQuestion each = question.plan;
  each.op = *site.op;
  const auto rows = [&](std::int64_t tokens) { return site.layer.rows_of(tokens, site.kind, question.ranks); };
  auto ranges = find_ranges(find, each, rows(question.first_tokens));
  if (!ranges && ends_all(ranges.error())) return ranges.error();
  if (!ranges) {
    site.reason = ranges.error().text();
    return {};
  }
  site.ranges = std::move(ranges).value();
  site.fused = planner::fused_runs(site, question.first_tokens, question.last_tokens);
  for (const std::int64_t tokens : steps_of(question)) {
    each.op.m = rows(tokens);
    if (site.ranges->find(each.op.m) == nullptr) continue; // a gap, which has the reason
    MC2_ASSIGN(const auto found, find(each));
    MC2_ASSIGN(const auto plan, plan_with(found, each));
    site.points.push_back(point_of(plan, tokens));
  }
  return {};
}

Result<void> check_any_planned(const std::string& name, const std::vector<LlmSite>& sites) {
  if (std::ranges::any_of(sites, [](const LlmSite& site) { return site.ranges.has_value(); })) return {};
  return Error{ErrorCode::NotFound, "",
               "no plan for any layer of " + name + ": " + std::ranges::find_if(sites, has_op)->reason};
}

planner::LlmPlan llm_plan_of(const LlmQuestion& question, std::vector<LlmSite> sites) {
  planner::LlmPlan plan{.name = question.name,
                        .config = question.config,
                        .fingerprint = question.plan.machine,
                        .ranks = question.ranks,
                        .first_tokens = question.first_tokens,
                        .last_tokens = question.last_tokens};
  plan.sites = std::move(sites);
  plan.steps = planner::steps_of(plan.sites, steps_of(question));
  if (question.config) plan.rest = planner::rest_of(*question.config);
  return plan;
}

} // namespace mc2::finder
