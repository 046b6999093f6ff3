#pragma once

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/fit.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// Corrects every lane of a published model for which there are samples. The variant of a sample does not matter.
///   three sizes or more   the curve is fitted to the samples and counts as measured. Where the fit fails, the lane is
///                         corrected as with fewer sizes.
///   fewer, matmul         the published times are multiplied by the geometric mean of measured / published.
///   fewer, collective     the published curve is multiplied by measured / published at the measured sizes. Between
///                         them the factor is interpolated in log size; beyond them it fades to 1 within two octaves,
///                         because one size tells nothing about sizes far away.
/// Scaled and corrected curves stay analytic, and their quality.reason names the correction. Outliers and co-run
/// samples are left out. Errors: InvalidSpec (a model without variants, samples that are not positive), CannotFit for
/// samples that differ from the published time by more than a factor of 4: collectives that waited for other ranks,
/// wrong sizes, another device.
[[nodiscard]] Result<FitSummary> override_model(planner::CostModel model, const planner::Profile& profile);

} // namespace mc2::profiler

#pragma GCC visibility pop
