#pragma once

#include <string>

#include "mc2/profiler/sweep.hpp"
#include "mc2/render/answer.hpp"
#include "mc2/render/plan_page.hpp"
#include "mc2/render/text.hpp"

namespace mc2::cli {

using render::draw_timeline;
using render::model_page;
using render::plan_page;
using render::table;

/// What a sweep measured, one row per case.
[[nodiscard]] std::string sweep_page(const profiler::SweepSummary& summary);

} // namespace mc2::cli
