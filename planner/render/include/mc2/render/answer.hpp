#pragma once

#include <string>

#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::render {

/// A plan in a few lines of `width` columns, for people: operator, machine, blocks, benefit, time, how sure that is,
/// and `next`, what to do with the plan. Sentences wrap; a long list of blocks is cut after two lines. An empty field
/// is left out.
[[nodiscard]] std::string answer(const planner::Plan& plan, const std::string& next, int width);

/// "; the benefit is the median of the pairs' ratios" if the two measured times, shown beside the benefit, give a
/// benefit of the other sign or one that differs by more than a percentage point. Else empty.
[[nodiscard]] std::string ratio_note(const planner::Validation& measured);

/// The plan's operator and, if the plan is for counts of rows, how uneven these are.
[[nodiscard]] std::string question_text(const planner::Plan& plan);

} // namespace mc2::render

#pragma GCC visibility pop
