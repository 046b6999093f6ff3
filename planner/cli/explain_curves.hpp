#pragma once

#include <cstdint>
#include <vector>

#include "markup.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::cli {

/// One timing that a curve was fitted to, or that was left out.
struct CurveSample {
  double x = 0;       ///< rows or bytes of the block
  double time_us = 0; ///< corrected for drift, as the fit does
  bool is_co_run = false;
  bool is_outlier = false;
};

/// One lane's curve with what it came from and where the plan uses it.
struct CurveEvidence {
  planner::Lane lane = planner::Lane::Compute;
  planner::LaneCost cost;
  std::vector<CurveSample> samples; ///< empty where they are not kept
  std::vector<double> block_x;      ///< distinct sizes of the plan's blocks, ascending
};

/// Samples, fit, interval and valid range, with the plan's block sizes marked; residuals below on the same axis.
[[nodiscard]] Markup curve_chart(const CurveEvidence& evidence);

} // namespace mc2::cli
