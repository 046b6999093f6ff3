#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// How much longer a kept plan is predicted to take than the best cut, at the speed of the operator's later runs.
struct Staleness {
  double loss = 0;          ///< kept / best - 1
  std::string best_blocks;  ///< "320 + 11 x 64"
  std::string best_variant; ///< Variant::text()
  std::string why;          ///< "by its last 3 runs: compute 1.12x, communication 0.99x the profiled time"; if the
                            ///< speed is unchanged, why the race that chose the plan did not choose the best cut
  bool operator==(const Staleness&) const = default;
};

/// The JSON object within an answer.
[[nodiscard]] std::string encode(const Staleness& stale);

/// A plan, and where the service took it from (schemas/openapi.yaml, Answer).
struct PlanAnswer {
  planner::Plan plan;
  std::string document;   ///< canonical JSON of the plan
  std::string digest;     ///< of the document
  std::int64_t epoch = 0; ///< revision of the service's store from which on this is its answer
  std::string source;     ///< "stored", "model" or "what_if"
  std::string provenance; ///< of the predicted makespan
  std::string created_at; ///< of a stored plan, else empty
  std::optional<Staleness> staleness = std::nullopt; ///< set for a stored plan that is worth tuning again
};

/// Reads the answer of a service. Ignores unknown keys of the answer itself, since a newer service may send more.
/// Errors: as decode_plan; Mismatch if the plan does not have the digest that the answer names.
[[nodiscard]] Result<PlanAnswer> decode_answer(std::string_view json);

} // namespace mc2::store

#pragma GCC visibility pop
