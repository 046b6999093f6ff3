#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// What a kept plan is predicted to lose to another cut at the speed that its operator's later runs had.
struct Staleness {
  double loss = 0;          ///< kept / best - 1
  std::string best_blocks;  ///< "320 + 11 x 64"
  std::string best_variant; ///< Variant::text()
  std::string why;          ///< "by its last 3 runs: compute 1.12x, communication 0.99x the profiled time", or what of
                            ///< the race that chose it where the speed is the same
  bool operator==(const Staleness&) const = default;
};

/// As an answer carries it.
[[nodiscard]] std::string encode(const Staleness& stale);

/// A plan, and where a service got it from (schemas/openapi.yaml, Answer).
struct PlanAnswer {
  planner::Plan plan;
  std::string document;   ///< of the plan, canonical
  std::string digest;     ///< of the document
  std::int64_t epoch = 0; ///< the change of the service's store since which this is its answer
  std::string source;     ///< "stored", "model" or "what_if"
  std::string provenance; ///< of the predicted makespan
  std::string created_at; ///< of a stored plan, else empty
  std::optional<Staleness> staleness = std::nullopt; ///< of a stored plan, where it is worth tuning again
};

/// What a service answered. Keys of the answer itself that are not known are passed over: a newer service may say more.
/// Errors: as decode_plan; Mismatch where the plan is not the one whose digest the answer names.
[[nodiscard]] Result<PlanAnswer> decode_answer(std::string_view json);

} // namespace mc2::store

#pragma GCC visibility pop
