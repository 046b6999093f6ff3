#pragma once

#include <cstddef>
#include <functional>

namespace mc2::cli {

/// Calls work(i) once for every i below `count`, on `thread_count` >= 1 threads that take the next i as they become
/// free. Blocks until every thread has ended. Each thread asks `is_cancelled` before each call, and takes no more once
/// it is true. Meanwhile `watch(done_count)` runs on the calling thread a few times a second. Rethrows the first
/// exception of `work` at the end.
void for_each_index(std::size_t count, int thread_count, const std::function<void(std::size_t)>& work,
                    const std::function<bool()>& is_cancelled, const std::function<void(std::size_t)>& watch);

} // namespace mc2::cli
