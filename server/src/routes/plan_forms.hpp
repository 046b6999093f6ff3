#pragma once

#include <optional>
#include <string>

#include "context.hpp"
#include "mc2/store/store.hpp"

namespace mc2::server {

/// A kept plan as its document (json), a drawing (svg), the page that the program prints (text), or a Chrome trace
/// (trace).
/// @param name  of the form; without it, the request's Accept chooses, or 406
/// Errors: UnknownName (format); Infeasible for a plan that contradicts itself, in every form but json.
[[nodiscard]] Result<Response> plan_in_form(const store::StoredPlan& stored, const std::optional<std::string>& name,
                                            const Request& request);

} // namespace mc2::server
