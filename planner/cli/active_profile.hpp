#pragma once

#include "measure.hpp"

namespace mc2::cli {

/// profile_operator with settings.active: measures until the plan is sure enough or the measurements are used up.
[[nodiscard]] Result<profiler::SweepSummary> profile_actively(Workbench& bench, const ProfileSettings& settings,
                                                              store::Store& store);

} // namespace mc2::cli
