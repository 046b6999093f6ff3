#pragma once

#include <string>

#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::render {

/// What a person wants to know of a plan, in seven lines of `width` columns, or one more for each that is too long: the
/// operator and its machine, which blocks, how much faster, how sure that is, and `next`, what to do with it (left out
/// when empty).
[[nodiscard]] std::string answer(const planner::Plan& plan, const std::string& next, int width);

/// "; the benefit is the median of the pairs' ratios", where the two times beside it say something else: by another
/// sign, or by more than a point; else empty.
[[nodiscard]] std::string ratio_note(const planner::Validation& measured);

/// The plan's operator, and how uneven the counts of rows are that it is for.
[[nodiscard]] std::string question_text(const planner::Plan& plan);

} // namespace mc2::render

#pragma GCC visibility pop
