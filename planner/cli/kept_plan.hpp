#pragma once

#include <string>

#include "context.hpp"
#include "mc2/store/store.hpp"
#include "variant_option.hpp"

namespace mc2::cli {

/// Reads a plan document, or finds the kept plan with that digest or unique prefix. A plan from a file has no key and
/// no date.
/// Errors: Malformed naming the file; NotFound and the like under `option`.
[[nodiscard]] Result<store::StoredPlan> load_plan(const std::string& name, const char* option,
                                                  const StoreOptions& store);

/// That there is no kept model, and what to run first; other errors as they are.
[[nodiscard]] Error with_advice(const Error& missing);

/// The model kept for this operator and machine. Errors: NotFound saying what to run first; as Layers::find_model.
[[nodiscard]] Result<planner::CostModel> kept_model(const planner::OpSpec& op, const planner::Fingerprint& here,
                                                    const store::Layers& layers);

/// The tuned plan kept for this operator and machine (and variant), or one from the kept model, which has no date.
/// Errors: NotFound saying what to run first; as Layers::find_plan.
[[nodiscard]] Result<store::StoredPlan> find_plan_for(const planner::OpSpec& op, const planner::Fingerprint& here,
                                                      const store::Layers& layers, const VariantOption& variant = {});

} // namespace mc2::cli
