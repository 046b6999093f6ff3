#pragma once

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/fit.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// The model with every lane for which there are samples corrected by them, whatever variant they are of:
///   three sizes or more   the curve is fitted to the samples, and measured from then on;
///   fewer, matmul         the published rate is scaled by the geometric mean of measured / published;
///   fewer, collective     the published curve is multiplied by measured / published at the sizes measured, by what is
///                         interpolated in log size between them, and by what fades to 1 within two octaves beyond:
///                         it is a fit of its own, which one size says nothing about far away.
/// The last two stay analytic; quality.reason says what was done. Outliers and co-run samples are left out.
/// Errors: InvalidSpec (a model without variants, samples that are not positive), CannotFit for samples that differ
/// from what is published by more than a factor of 4: collectives that waited for other ranks, wrong sizes, another
/// device.
[[nodiscard]] Result<FitSummary> override_model(planner::CostModel model, const planner::Profile& profile);

} // namespace mc2::profiler

#pragma GCC visibility pop
