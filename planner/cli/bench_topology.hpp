#pragma once

#include <filesystem>

#include "context.hpp"

namespace mc2::cli {

/// Prints the collective model beside every published point in `data`/published, with published constants and
/// calibrated from the small-scale part of each curve, and the errors of both. Errors: as read_topology, read_points,
/// profiler::calibrate_topology.
[[nodiscard]] Result<ExitCode> bench_topology(const std::filesystem::path& data);

} // namespace mc2::cli
