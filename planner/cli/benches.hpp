#pragma once

#include <string>

#include "context.hpp"

namespace mc2::cli {

/// `mc2 bench cases`: reproduces a file of published cases and compares mc2's plans with the published ones.
/// Errors: as read_file and parse_published_cases.
[[nodiscard]] Result<ExitCode> bench_published_cases(const std::string& file);

} // namespace mc2::cli
