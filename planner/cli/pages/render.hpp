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

/// A table that is at most as wide as the terminal.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

/// The notes one below the other, each wrapped to the terminal's width.
[[nodiscard]] std::string notes_text(const std::vector<std::string>& notes);

/// What a sweep measured, with one row for each case; `is_full` adds all that is known of a case.
[[nodiscard]] std::string sweep_page(const profiler::SweepSummary& summary, bool is_full);

} // namespace mc2::cli
