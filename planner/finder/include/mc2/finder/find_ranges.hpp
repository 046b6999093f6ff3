#pragma once

#include <cstdint>
#include <functional>

#include "mc2/finder/models.hpp"
#include "mc2/finder/question.hpp"
#include "mc2/planner/plan_ranges.hpp"

#pragma GCC visibility push(default)

namespace mc2::finder {

/// Finds the model of one m, as find_model() does.
using FindModel = std::function<Result<FoundModel>(const PlanQuestion&)>;

/// find_model() for questions of one machine and kind that differ in sizes: the models of other sizes, many to read,
/// are listed once. Threads: one at a time; each makes its own.
[[nodiscard]] FindModel finding_often(ModelPlaces places);

/// By models that are made when they are asked for, each for all questions of equal block costs that follow it; of
/// their own machine. Threads: one at a time; each makes its own.
/// @param answers  of equal block costs: whether the model answers for the operator, too; null: it does
[[nodiscard]] FindModel finding_each(
    std::function<Result<planner::CostModel>(const planner::OpSpec&)> make,
    std::function<bool(const planner::CostModel&, const planner::OpSpec&)> answers = nullptr);

/// The plans of all m from first_m to the question's (planner/plan_ranges.hpp): each m by the model that answers for it
/// alone; at the speed of later runs, where there are some, that is learned for the middle of each octave of m; waves
/// and messages as of one m that is at most 6 % longer. m whose
/// blocks are cut from n have a model each; those without one are a gap that says so. Plans that tuning kept do not
/// matter: each is measured, and of one m.
/// Errors: as planner::plan_ranges; as `find` where no m has a model; InvalidSpec for a question that has the uncut
/// parts timed, which are of one m.
[[nodiscard]] Result<planner::PlanRanges> find_ranges(const FindModel& find, const PlanQuestion& question,
                                                      std::int64_t first_m);

/// By finding_often().
[[nodiscard]] Result<planner::PlanRanges> find_ranges(const ModelPlaces& places, const PlanQuestion& question,
                                                      std::int64_t first_m);

} // namespace mc2::finder

#pragma GCC visibility pop
