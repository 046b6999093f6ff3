#include "mc2/finder/plan_llm.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mc2/planner/text.hpp"

namespace mc2::finder {
namespace {

using planner::LlmPoint;
using planner::LlmSite;

LlmPoint point_of(const planner::Plan& plan, std::int64_t tokens) {
  return {tokens,         plan.op,         plan.cut,      plan.variant,
          plan.serial_us, plan.compute_us, plan.makespan, plan.benefit_interval};
}

/// The layer's step of that many tokens, planned by the model that answers the question.
Result<LlmPoint> planned_point(const FindModel& find, const PlanQuestion& question, const LlmSite& site,
                               std::int64_t tokens) {
  MC2_ASSIGN(const auto found, find(question));
  MC2_ASSIGN(const auto plan, plan_with(found, question));
  LlmPoint point = point_of(plan, tokens);
  if (site.layer.parallelism == planner::Parallelism::Column)
    point.compute_us = planner::plain_matmul_us(plan.op, as_it_is_now(found, question.op), tokens, plan.compute_us);
  return point;
}

bool ends_all(const Error& error) { return error.code == ErrorCode::InvalidSpec || error.code == ErrorCode::Cancelled; }

std::vector<std::int64_t> steps_of(const LlmQuestion& asked) {
  return planner::steps_between(asked.first_tokens, asked.last_tokens, asked.steps_per_doubling);
}

bool has_op(const LlmSite& site) { return site.op.has_value(); }

/// The layer with experts where its description names none: one on each rank, to one of which a token goes. So a step
/// has as many tokens in this layer as in the others.
planner::LayerShape with_experts(planner::LayerShape layer, int ranks) {
  if (!layer.experts && !planner::divides_an_axis(layer.parallelism)) layer.experts = planner::ExpertCount{ranks, 1};
  return layer;
}

/// Numbers of ranks above this are rare, and few of them divide a model's layers.
constexpr int kMostHintedRanks = 128;

/// The numbers of ranks that can share every layer, since the reason of one layer names a number for that layer alone:
/// "; all layers can be shared by 2 or 4 ranks".
std::string ranks_of_all_layers(const std::vector<planner::LayerShape>& layers) {
  const auto can_share = [&](int ranks) {
    return std::ranges::all_of(layers, [&](const planner::LayerShape& layer) {
      return std::ranges::all_of(layer.kinds(), [&](planner::OpKind kind) {
        return layer.op(kind, layer.rows_of(ranks, kind, ranks), ranks).ok();
      });
    });
  };
  std::vector<std::string> shared;
  for (int ranks = 2; ranks <= kMostHintedRanks; ++ranks)
    if (can_share(ranks)) shared.push_back(std::to_string(ranks));
  if (shared.empty()) return "; no number of ranks up to " + std::to_string(kMostHintedRanks) + " can share all layers";
  const std::string last = shared.back();
  shared.pop_back();
  return "; all layers can be shared by " + (shared.empty() ? "" : list_text(shared) + " or ") + last + " ranks";
}

/// Adds to the reasons that name a wrong number of ranks which numbers are right.
void add_ranks_of_all_layers(const LlmQuestion& question, std::vector<LlmSite>& sites,
                             const std::vector<std::size_t>& refused) {
  if (refused.empty()) return;
  const std::string hint = ranks_of_all_layers(question.layers);
  for (const std::size_t i : refused) sites[i].reason += hint;
}

} // namespace

Result<std::vector<LlmSite>> sites_of(const LlmQuestion& question) {
  std::vector<LlmSite> sites;
  std::vector<std::size_t> refused; // for the number of ranks
  for (const auto& described : question.layers) {
    const planner::LayerShape layer = with_experts(described, question.ranks);
    for (const planner::OpKind kind : layer.kinds()) {
      LlmSite site{layer, kind};
      const auto op = layer.op(kind, layer.rows_of(question.last_tokens, kind, question.ranks), question.ranks);
      if (op)
        site.op = op.value();
      else
        site.reason = op.error().text();
      if (!op && op.error().field == "ranks") refused.push_back(sites.size());
      sites.push_back(std::move(site));
    }
  }
  add_ranks_of_all_layers(question, sites, refused);
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
    MC2_ASSIGN(auto point, planned_point(find, each, site, tokens));
    site.points.push_back(std::move(point));
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
