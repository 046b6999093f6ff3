#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "mc2/finder/models.hpp"
#include "mc2/finder/question.hpp"
#include "mc2/planner/plan_ranges.hpp"

#pragma GCC visibility push(default)

namespace mc2::finder {

/// Finds the model that answers a question with one m, as find_model() does.
using FindModel = std::function<Result<FoundModel>(const PlanQuestion&)>;

/// find_model() for questions about one machine and operator kind that differ in sizes. Lists the kept models once,
/// because there can be many to read. Threads: not safe to share; each thread makes its own.
[[nodiscard]] FindModel finding_often(ModelPlaces places);

/// Makes a model for the first question of each block cost and reuses it for the questions that follow with the same
/// block cost. The model answers as if the question were about the machine that the model is of.
/// Threads: not safe to share; each thread makes its own.
/// @param answers  whether a model also answers for an operator that has the same block cost; null: it always does
[[nodiscard]] FindModel finding_each(
    std::function<Result<planner::CostModel>(const planner::OpSpec&)> make,
    std::function<bool(const planner::CostModel&, const planner::OpSpec&)> answers = nullptr);

/// The answer to a question about first_m. All m that were asked for from there to last_m get the same one.
struct AnswerOverM {
  std::int64_t first_m, last_m;
  Result<FoundModel> found;
};

/// The answers to questions that differ in m alone, in ascending m. Asks far fewer questions than there are m.
/// @param all_m  ascending
[[nodiscard]] std::vector<AnswerOverM> find_over(const FindModel& find, const PlanQuestion& question,
                                                 std::span<const std::int64_t> all_m);

/// The plans of all m from first_m to the question's m, as ranges (planner/plan_ranges.hpp). Each m is planned by the
/// model that answers a question about that m alone. Neighbouring m share the times of waves and messages, and the
/// speed of later runs, of one m that is at most 6 % longer. Each m whose blocks are cut from n needs a model of its
/// own; if none is found, that m is a gap with this reason. Plans that tuning kept are not used: each is a measurement
/// of one m. Errors: those of planner::plan_ranges; if no m has a model, that error of `find` which holds for the most
/// m; InvalidSpec for a question with `time_lanes`, since the lanes are timed at one m.
[[nodiscard]] Result<planner::PlanRanges> find_ranges(const FindModel& find, const PlanQuestion& question,
                                                      std::int64_t first_m);

/// Finds the models by finding_often(places).
[[nodiscard]] Result<planner::PlanRanges> find_ranges(const ModelPlaces& places, const PlanQuestion& question,
                                                      std::int64_t first_m);

} // namespace mc2::finder

#pragma GCC visibility pop
