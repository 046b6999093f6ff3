#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "mc2/client/client.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/finder/shared_layers.hpp"

#pragma GCC visibility push(default)

namespace mc2::client {

/// How the purposes (store::PlanKey) of copies of a service's answers begin, which plan_service() keeps.
inline constexpr std::string_view kServedBy = "served by ";

/// Whether plans of this purpose are such copies.
[[nodiscard]] inline bool is_served_copy(std::string_view purpose) noexcept { return purpose.starts_with(kServedBy); }

/// How long to wait for a service, and how to cache its answers.
struct ServiceOptions {
  /// Per question; with 20 ms to plan locally instead, 50 ms in all. Over https the first question may take 20 ms more:
  /// the set-up of TLS on this side does not count
  std::chrono::milliseconds patience{30};
  std::chrono::milliseconds refresh{30'000}; ///< an answer of this age is asked for again, in the background
  std::chrono::milliseconds retry{5'000};    ///< for this time after a failure, no question waits for the service
  std::size_t cached_answer_count = 4096;
  std::function<void()> on_change = {}; ///< called, on any thread, after a new answer has replaced a different one
  bool watches = true; ///< asks again as soon as the service reports a change; uses one more connection
  /// What those who run the program call `patience`, for the message that it is over
  std::string patience_name = "ServiceOptions::patience";
};

/// A place that asks a service for plans. Answers are cached in memory.
/// - A question with a cached answer gets it at once, whatever the state of the service. An answer older than `refresh`
///   is asked for again in the background.
/// - After the first answer, the service is watched for changes if `watches`. Questions that a change may affect are
///   asked again in the background.
/// - A question without a cached answer waits for `patience`. If the service fails or is late, the question is asked
///   again in the background, and the answer is cached for the next time. Meanwhile `keeper`, if there is one, answers
///   with what the service answered an earlier process. For `retry` after a failure, no question waits.
/// Every failure of the service is a miss with its reason. So is a question that names a variant, since a service
/// cannot choose by variant.
/// @param keeper   keeps answers beyond the process, under the purpose "served by URL"; null, or outlives the place
/// @param utc_now  returns the current time as ISO 8601: the date of the answers that are kept
/// Threads: safe to share. The last copy of the place stores what is still to be kept and ends the threads.
[[nodiscard]] finder::PlanSource plan_service(const Client& client, const ServiceOptions& options,
                                              finder::SharedLayers* keeper = nullptr,
                                              std::function<std::string()> utc_now = {});

} // namespace mc2::client

#pragma GCC visibility pop
