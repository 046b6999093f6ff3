#pragma once

#include <string>

#include "context.hpp"

namespace mc2::cli {

/// `mc2 bench cases`: reproduces a file of published cases and compares mc2's plans with the published ones.
/// Errors: as read_file and parse_published_cases.
[[nodiscard]] Result<ExitCode> bench_published_cases(const std::string& file);

/// `mc2 bench topology`: the collective model beside every published point in `data_folder`/published, with published
/// constants and calibrated from the small-scale part of each curve, and the errors of both.
/// Errors: as read_topology, read_points and profiler::calibrate_topology.
[[nodiscard]] Result<ExitCode> bench_topology(const std::string& data_folder);

} // namespace mc2::cli
