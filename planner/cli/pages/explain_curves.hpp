#pragma once

#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/profiler/curve_samples.hpp"
#include "mc2/render/markup.hpp"

namespace mc2::cli {

using profiler::CurveSample;

/// One lane's curve with what it came from and where the plan uses it.
struct CurveEvidence {
  planner::Lane lane = planner::Lane::Compute;
  planner::LaneCost cost;
  std::vector<CurveSample> samples; ///< empty where they are not kept
  std::vector<double> block_x;      ///< distinct sizes of the plan's blocks, ascending
};

/// Samples, fit, interval and valid range, with the plan's block sizes marked; residuals below on the same axis.
[[nodiscard]] render::Markup curve_chart(const CurveEvidence& evidence);

} // namespace mc2::cli
