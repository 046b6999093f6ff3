#pragma once

#include "support.hpp"

namespace mc2::executor {

/// What Prepared::run() of the host backend costs beside the same calls written by hand: a matmul_all_reduce of two
/// ranks on shared memory, whose blocks are so small that they weigh little. By hand, four threads on the same cores
/// call the matmul library for each block, raise a signal, wait for it and sum, without times, deadlines, failures or
/// modes. Both take turns on the same matrices; both results are compared first. Both yield the core after each block,
/// so that a summing thread which shares it starts at once: on such cores that wakes a thread per block, which is most
/// of a small block's time and is not compared. Blocks until done.
/// @param block_count, pair_count  at least 1
/// @return one run of each, by hand first, from the call to its return
/// Errors: as executor::prepare; Cancelled. Throws SystemError, also when the results differ.
[[nodiscard]] Result<cli::Pairs> time_run_overhead(int block_count, int pair_count);

} // namespace mc2::executor
