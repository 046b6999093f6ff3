#pragma once

#include "context.hpp"

namespace mc2::cli {

/// Prints how long a sweep of 10,000 plans takes on one and on two threads: the layers of data/llm_layers.csv at 2, 4 and
/// 8 ranks, m in steps up to 16384, models that cost nothing to find, the table included.
/// Errors: Cancelled.
[[nodiscard]] Result<ExitCode> bench_sweep();

} // namespace mc2::cli
