#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mc2/finder/find_ranges.hpp"
#include "mc2/finder/question.hpp"
#include "mc2/planner/llm_plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::finder {

/// What is asked of a whole model.
struct LlmQuestion {
  std::string name;                                        ///< of the model
  std::vector<planner::LayerShape> layers;                 ///< in the order of a pass
  std::optional<planner::LlmConfig> config = std::nullopt; ///< that the layers are of
  int ranks = 2;
  std::int64_t first_tokens = 1, last_tokens = 1; ///< of a step
  int steps_per_doubling = 1;                     ///< that whole times are wanted of: planner::steps_between()
  PlanQuestion plan = {};                         ///< machine, options and the like; its operator does not matter
};

/// The layers of the model as all the kinds that they can be, not planned yet: the order of a pass. Those that the
/// ranks cannot share say why. Errors: Infeasible where they can share none.
[[nodiscard]] Result<std::vector<planner::LlmSite>> sites_of(const LlmQuestion& question);

/// Plans one of them for every m, and for the steps of planner::steps_between(). A site that has no plan says why.
/// Threads: sites may be planned by several at once, each by a `find` of its own.
/// Errors: InvalidSpec and Cancelled as find_ranges.
[[nodiscard]] Result<void> plan_site(const FindModel& find, const LlmQuestion& question, planner::LlmSite& site);

/// Of sites_of(). Errors: NotFound where none of them has a plan, with the reason of the first that the ranks can
/// share.
[[nodiscard]] Result<void> check_any_planned(const std::string& name, const std::vector<planner::LlmSite>& sites);

/// The answer of planned sites.
[[nodiscard]] planner::LlmPlan llm_plan_of(const LlmQuestion& question, std::vector<planner::LlmSite> sites);

} // namespace mc2::finder

#pragma GCC visibility pop
