#pragma once

#include <string>

#include "context.hpp"
#include "mc2/store/imported.hpp"

namespace mc2::cli {

/// What every layer holds of a machine that `--device` names.
/// Errors: Stale when logs of the machine contradict each other, naming the field.
[[nodiscard]] Result<store::ImportedMachine> find_imported(const store::Layers& layers, const std::string& device);

/// That nothing of the operator was, on a machine of which other things may have been.
[[nodiscard]] Error nothing_imported(const planner::OpSpec& op, const std::string& device);

} // namespace mc2::cli
