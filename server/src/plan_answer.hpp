#pragma once

#include <optional>

#include "context.hpp"
#include "mc2/store/answer.hpp"
#include "plan_question.hpp"

namespace mc2::server {

/// A plan and where it came from, as answers carry them.
struct SourcedPlan {
  std::string_view source; ///< "stored", "model" or "what_if"
  std::string document;    ///< mc2.plan/1, canonical
  planner::Provenance provenance = planner::Provenance::Analytic;
  std::string created_at;                                   ///< of a stored plan
  std::optional<store::Staleness> staleness = std::nullopt; ///< likewise
};

/// {"schema": "mc2.answer/1", ...} around a plan.
[[nodiscard]] Answer to_answer(const SourcedPlan& plan, std::int64_t epoch);

[[nodiscard]] KeyedQuestion with_key(PlanQuestion question);

/// The plans of all m of a range, for a question that has a first m (finder/find_ranges.hpp); the plan of one m for any
/// other. That is the tuned plan that is kept for the operator and machine, unless planning options ask for another;
/// else one from the kept model. Equal questions get equal bytes until the store's revision moves. Errors: NotFound
/// saying what the store has; InvalidSpec for a machine that is not said or not unique; Stale for an epoch whose answer
/// is no longer known; as planner::make_plan.
[[nodiscard]] Result<Answer> answer_plan(Context& context, const KeyedQuestion& question,
                                         const planner::StopCheck& is_stopped);

/// The same where it need not be made: kept, and of the question's epoch. Does not wait.
[[nodiscard]] std::optional<Answer> known_answer(Context& context, const KeyedQuestion& question);

} // namespace mc2::server
