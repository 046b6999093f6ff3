#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mc2/finder/find_ranges.hpp"
#include "mc2/finder/question.hpp"
#include "mc2/planner/llm_plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::finder {

/// A question about all layers of a language model.
struct LlmQuestion {
  std::string name;                                        ///< of the language model
  std::vector<planner::LayerShape> layers;                 ///< in the order of a pass
  std::optional<planner::LlmConfig> config = std::nullopt; ///< the configuration that the layers were taken from
  int ranks = 2;
  std::int64_t first_tokens = 1, last_tokens = 1; ///< fewest and most tokens of a step
  int steps_per_doubling = 1;                     ///< of the steps to time as a whole: planner::steps_between()
  PlanQuestion plan = {};                         ///< machine, options and the like; its operator is ignored
};

/// The sites to plan, one for each layer and each operator kind that the layer can be, in the order of a pass. A layer
/// of dispatch or combine that names no experts has one on each rank, to one of which a token goes. A site that the
/// ranks cannot share has the reason, with the numbers of ranks that can share all layers. Errors: Infeasible if the
/// ranks can share none.
[[nodiscard]] Result<std::vector<planner::LlmSite>> sites_of(const LlmQuestion& question);

/// Plans one site of sites_of() for every m, and for the steps of planner::steps_between(). If there is no plan, the
/// site gets the reason. Threads: several threads may plan different sites at once, each with a `find` of its own.
/// Errors: InvalidSpec and Cancelled as find_ranges; any error of `find` or plan_with() at a step.
[[nodiscard]] Result<void> plan_site(const FindModel& find, const LlmQuestion& question, planner::LlmSite& site);

/// Checks that at least one planned site has a plan. @param sites  from sites_of(), so the ranks can share at least one
/// Errors: NotFound if none has a plan, with the reason of the first site that the ranks can share.
[[nodiscard]] Result<void> check_any_planned(const std::string& name, const std::vector<planner::LlmSite>& sites);

/// The answer to the question, put together from its planned sites.
[[nodiscard]] planner::LlmPlan llm_plan_of(const LlmQuestion& question, std::vector<planner::LlmSite> sites);

} // namespace mc2::finder

#pragma GCC visibility pop
