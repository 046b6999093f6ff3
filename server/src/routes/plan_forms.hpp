#pragma once

#include <optional>
#include <string>

#include "context.hpp"
#include "mc2/store/store.hpp"

namespace mc2::server {

/// A kept plan as its document, drawn (svg), as the program prints it (text), or as a Chrome trace.
/// @param name  of the form; where it is not given, the request's Accept chooses
/// Errors: UnknownName (format); Infeasible for a drawing of a plan that contradicts itself.
[[nodiscard]] Result<Response> plan_in_form(const store::StoredPlan& stored, const std::optional<std::string>& name,
                                            const Request& request);

} // namespace mc2::server
