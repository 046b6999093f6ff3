#pragma once

#include "mc2/planner/profile.hpp"
#include "mc2/profiler/drift.hpp"

namespace mc2::profiler::fit {

/// Drift of one component over all its sizes, contexts and variants: they share the machine. Without outliers, and
/// without times and sizes that are not positive.
[[nodiscard]] Drift drift_of(const planner::Profile& profile, planner::Component component);

/// The level of drift that times are brought to: the low quantile q of the rounds, as of the samples.
[[nodiscard]] double reference_factor(const Drift& drift, double q);

} // namespace mc2::profiler::fit
