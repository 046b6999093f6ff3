#pragma once

#include <vector>

#include "mc2/client/plan_source.hpp"
#include "mc2/planner/cost_model.hpp"

namespace mc2::embed {

/// What plans are made from.
struct OwnModels {
  std::vector<planner::CostModel> given; ///< asked first
  client::SharedLayers* kept = nullptr;  ///< null, or outlives the source
  bool may_transfer = true;
};

/// The plan as a source answers with it.
[[nodiscard]] client::FoundPlan as_found(planner::Plan plan, std::string source);

/// A plan made here: from the model of the operator, else from the nearest other n and k's, marked as transferred.
[[nodiscard]] client::PlanSource own_plans(OwnModels models);

} // namespace mc2::embed
