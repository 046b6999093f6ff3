#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// A plan, and where a service got it from (schemas/openapi.yaml, Answer).
struct PlanAnswer {
  planner::Plan plan;
  std::string document;   ///< of the plan, canonical
  std::string digest;     ///< of the document
  std::int64_t epoch = 0; ///< the change of the service's store since which this is its answer
  std::string source;     ///< "stored", "model" or "what_if"
  std::string provenance; ///< of the predicted makespan
  std::string created_at; ///< of a stored plan, else empty
};

/// What a service answered. Keys of the answer itself that are not known are passed over: a newer service may say more.
/// Errors: as decode_plan; Mismatch where the plan is not the one whose digest the answer names.
[[nodiscard]] Result<PlanAnswer> decode_answer(std::string_view json);

} // namespace mc2::store

#pragma GCC visibility pop
