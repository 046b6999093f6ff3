#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace mc2::executor {

/// Calls `work(0)` to `work(count - 1)`, each once, on as many threads as the machine has cores, and returns when all
/// calls have ended. The calls must not depend on each other. If calls throw, no further calls start, and the first
/// exception is thrown.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& work);

/// The lowest index for which `is_found` is true. The result does not depend on the order in which threads run.
[[nodiscard]] std::optional<std::int64_t> parallel_find_first(std::int64_t count,
                                                              const std::function<bool(std::int64_t)>& is_found);

} // namespace mc2::executor
