#pragma once

#include <optional>

#include "context.hpp"
#include "mc2/store/answer.hpp"
#include "plan_question.hpp"

namespace mc2::server {

/// A plan, and where it came from, for an answer.
struct SourcedPlan {
  std::string_view source; ///< "stored", "model" or "what_if"
  std::string document;    ///< mc2.plan/1, canonical
  planner::Provenance provenance = planner::Provenance::Analytic;
  std::string created_at;                                   ///< of a stored plan; empty: of none
  std::optional<store::Staleness> staleness = std::nullopt; ///< of a stored plan
};

/// The document {"schema": "mc2.answer/1", ...} around a plan.
[[nodiscard]] Answer to_answer(const SourcedPlan& plan, std::int64_t epoch);

[[nodiscard]] KeyedQuestion with_key(PlanQuestion question);

/// Answers a question: the plans of all m of a range where it has a first m (finder/find_ranges.hpp), the plans of a
/// model's layers where it has a model, else one plan. One plan is the tuned plan that is kept for the operator and
/// machine, unless planning options ask for another plan; else it is made from the kept model. Equal questions get
/// equal bytes until the store's revision changes. Errors: NotFound saying what the store has; InvalidSpec for a
/// machine that is missing or not unique; Stale for an epoch whose answer is not known any more; Cancelled; as
/// planner::make_plan.
[[nodiscard]] Result<Answer> answer_plan(Context& context, const KeyedQuestion& question,
                                         const planner::StopCheck& is_stopped);

/// The answer to a question if it is kept and of the question's epoch. Does not wait.
[[nodiscard]] std::optional<Answer> known_answer(Context& context, const KeyedQuestion& question);

} // namespace mc2::server
