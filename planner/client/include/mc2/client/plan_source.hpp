#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "mc2/client/client.hpp"
#include "mc2/store/layers.hpp"

#pragma GCC visibility push(default)

namespace mc2::client {

/// A plan, where it is from, and why the sources asked before had none.
struct FoundPlan {
  store::StoredPlan stored;        ///< without a date unless it was kept or served as kept
  std::string source;              ///< for people, e.g. "service http://plans:8471, tuned plan of epoch 12"
  std::vector<std::string> misses; ///< "NAME: reason", in the order in which they were asked
};

/// A plan that no store holds, as one would hold it: with its document and digest, without a date.
[[nodiscard]] store::StoredPlan unkept(planner::Plan plan);

/// A place where plans come from. Threads: `find` may be called by several at once.
struct PlanSource {
  std::string name;
  std::function<planner::Result<FoundPlan>(const PlanQuestion&)> find;
};

/// The first source that has a plan. What is damaged, unreadable or of a newer version ends the search: another plan in
/// its place would hide it. Errors: that one's, or the last source's code with every source's reason in one line.
[[nodiscard]] planner::Result<FoundPlan> find_plan(std::span<const PlanSource> sources, const PlanQuestion& question);

/// A plan document, for its own operator and machine. Read now.
/// Errors: NotFound; as store::decode_plan, naming the file.
[[nodiscard]] planner::Result<PlanSource> plan_file(const std::filesystem::path& path);

/// Store layers for sources: one connection, so one thread at a time. The layers must outlive it, and nobody else may
/// use them while a source is asked.
class SharedLayers {
 public:
  explicit SharedLayers(store::Layers& layers) : layers_(layers) {}

  template <typename Body>
  auto use(const Body& body) {
    const std::lock_guard lock(mutex_);
    return body(layers_);
  }

 private:
  std::mutex mutex_;
  store::Layers& layers_;
};

/// Plans kept under a purpose (store::PlanKey); none for a question with options. The layers must outlive the source.
[[nodiscard]] PlanSource kept_plans(SharedLayers& layers, std::string purpose = "tuned");

/// What planning here takes.
struct Planning {
  std::function<planner::Result<planner::CostModel>(const PlanQuestion&)> find_model;
  /// Of a question that names none, e.g. planner::default_options_on.
  std::function<planner::PlanOptions(const PlanQuestion&)> default_options;
};

/// A plan made here, from the model that `planning` finds.
[[nodiscard]] PlanSource own_planner(Planning planning);

/// How long a service is waited for.
struct ServiceOptions {
  std::chrono::milliseconds patience{30};    ///< of one question: with 20 ms to plan here, 50 ms in all
  std::chrono::milliseconds refresh{30'000}; ///< an answer of this age is asked for anew, in the background
  std::chrono::milliseconds retry{5'000};    ///< after a failure nobody waits for the service for so long
  std::size_t cached_answer_count = 4096;
};

/// The plans of a service. Answers are cached in memory, and in `keeper` if there is one; a cached answer is given at
/// once, however the service is. A question without one waits for `patience`; what came too late, or failed, is asked
/// again in the background and cached for the next time. After a failure the service is waited for once per `retry` at
/// most. Everything that a service can do wrong is a miss with its reason.
/// @param keeper   keeps answers beyond the process, under the purpose "served by URL"; null or outlives the source
/// @param utc_now  the time as ISO 8601, for what is kept
/// Threads: safe to share; the last copy of the source ends its thread, after keeping what it has.
[[nodiscard]] PlanSource plan_service(const Client& client, const ServiceOptions& options,
                                      SharedLayers* keeper = nullptr, std::function<std::string()> utc_now = {});

} // namespace mc2::client

#pragma GCC visibility pop
