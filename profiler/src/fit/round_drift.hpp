#pragma once

#include "mc2/planner/profile.hpp"
#include "mc2/profiler/drift.hpp"

namespace mc2::profiler::fit {

/// Drift of one component, estimated from all its sizes, contexts and variants, because they share the machine.
/// Outliers and samples with a time or size that is not positive are left out.
[[nodiscard]] Drift drift_of(const planner::Profile& profile, planner::Component component);

/// The level of drift that times are brought to: quantile q of the estimated rounds' factors, with the q of the
/// samples; 1 where no round is estimated.
[[nodiscard]] double reference_factor(const Drift& drift, double q);

} // namespace mc2::profiler::fit
