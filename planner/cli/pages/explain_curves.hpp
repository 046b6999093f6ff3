#pragma once

#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/profiler/curve_samples.hpp"
#include "mc2/render/markup.hpp"

namespace mc2::cli {

using profiler::CurveSample;

/// The curve of one lane, with its samples and the sizes at which the plan uses it.
struct CurveEvidence {
  planner::Lane lane = planner::Lane::Compute;
  planner::LaneCost cost;
  std::vector<CurveSample> samples; ///< empty: they are not kept
  std::vector<double> block_x;      ///< distinct sizes of the plan's blocks, ascending
};

/// Draws samples, fit, interval and valid range, and marks the plan's block sizes. The residuals are below, on the same
/// axis.
[[nodiscard]] render::Markup curve_chart(const CurveEvidence& evidence);

} // namespace mc2::cli
