#pragma once

#include <string>
#include <vector>

#include "mc2/profiler/sweep.hpp"
#include "mc2/render/answer.hpp"
#include "mc2/render/plan_page.hpp"
#include "mc2/render/text.hpp"

namespace mc2::cli {

using render::draw_timeline;
using render::model_page;
using render::plan_page;

/// As wide as the terminal at most.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

/// One after the other, each wrapped to the terminal.
[[nodiscard]] std::string notes_text(const std::vector<std::string>& notes);

/// What a sweep measured, one row per case; all that is known of each where it is full.
[[nodiscard]] std::string sweep_page(const profiler::SweepSummary& summary, bool is_full);

} // namespace mc2::cli
