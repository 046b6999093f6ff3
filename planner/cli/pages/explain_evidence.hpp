#pragma once

#include <optional>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/explanation.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/planner/speed_spread.hpp"
#include "mc2/store/store.hpp"
#include "pages/explain_curves.hpp"

namespace mc2::cli {

/// What a report shows in addition to the explanation itself.
struct Evidence {
  std::string digest;                            ///< of the plan as a document
  std::string kept_at;                           ///< empty for a plan that is not kept
  std::optional<planner::CostModel> model;       ///< as it was profiled
  std::optional<planner::CostModel> now;         ///< as a plan that was not raced is made from it; unset: as `model`
  std::optional<planner::Profile> profile;       ///< of the model's operator
  std::optional<store::Measurement> measurement; ///< the last race of this cut
  std::vector<std::string> notes;                ///< what was not found, and why
};

/// Evidence with the plan's digest and date only.
[[nodiscard]] Evidence evidence_of(const store::StoredPlan& stored);

/// The model as the plan was made from it.
[[nodiscard]] std::optional<planner::CostModel> model_of_plan(const Evidence& evidence);

/// Looks up in the store what `evidence` does not have yet: model, samples and the last race of the plan's cut.
void look_up(Evidence& evidence, const planner::Plan& plan, store::Layers& layers);

/// Adds notes that what `evidence` does not have is not in the store, and why.
void note_missing(Evidence& evidence, const std::string& why);

/// Removes a model or samples of another operator, and adds a note about it. Also notes a model that does not know the
/// plan's variant. Another m of the same operator is fine.
void drop_foreign(Evidence& evidence, const planner::Plan& plan);

/// The curves of both lanes for the plan's variant, compute first; empty without a model that knows the variant.
[[nodiscard]] std::vector<CurveEvidence> curve_evidence(const planner::Plan& plan, const Evidence& evidence);

} // namespace mc2::cli
