#pragma once

#include "support.hpp"

namespace mc2::executor {

/// Times Prepared::run() of the host backend and the same calls written by hand: a matmul_all_reduce of two ranks on
/// shared memory, with blocks so small that their work weighs little. By hand, four threads on the same cores call the
/// matmul library for each block, raise a signal, wait for it and sum, without times, deadlines, failures or modes. The
/// results are compared first; then both take turns on the same matrices. Both yield the core after each block, so that
/// a summing thread which shares it starts at once. Waking that thread takes most of a small block's time and is the
/// same on both sides. Blocks until done.
/// @param block_count, pair_count  at least 1
/// @return pairs of one run each, by hand first, from the call to its return
/// Errors: as executor::prepare; Cancelled. Throws SystemError, also when the results differ.
[[nodiscard]] Result<cli::Pairs> time_run_overhead(int block_count, int pair_count);

} // namespace mc2::executor
