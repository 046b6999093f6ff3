#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "mc2/client/client.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/finder/shared_layers.hpp"

#pragma GCC visibility push(default)

namespace mc2::client {

/// How long a service is waited for.
struct ServiceOptions {
  std::chrono::milliseconds patience{30};    ///< of one question: with 20 ms to plan here, 50 ms in all
  std::chrono::milliseconds refresh{30'000}; ///< an answer of this age is asked for anew, in the background
  std::chrono::milliseconds retry{5'000};    ///< after a failure nobody waits for the service for so long
  std::size_t cached_answer_count = 4096;
  std::function<void()> on_change = {}; ///< told, on any thread, that an answer has taken another one's place
  bool watches = true; ///< asks anew as soon as the service says that something has changed, by one connection more
};

/// The plans of a service. Answers are cached in memory, and in `keeper` if there is one; a cached answer is given at
/// once, however the service is. Once there is one, the service is watched for changes, and what may have another
/// answer by them is asked for anew, in the background; a service that cannot be watched is asked once per `refresh`. A
/// question without one waits for `patience`; what came too late, or failed, is asked again in the background and
/// cached for the next time. After a failure the service is waited for once per `retry` at most. Everything that a
/// service can do wrong is a miss with its reason; so is a question that names a variant, by which no service chooses.
/// @param keeper   keeps answers beyond the process, under the purpose "served by URL"; null or outlives the place
/// @param utc_now  the time as ISO 8601, for what is kept
/// Threads: safe to share; the last copy of the place ends its thread, after keeping what it has.
[[nodiscard]] finder::PlanSource plan_service(const Client& client, const ServiceOptions& options,
                                              finder::SharedLayers* keeper = nullptr,
                                              std::function<std::string()> utc_now = {});

} // namespace mc2::client

#pragma GCC visibility pop
