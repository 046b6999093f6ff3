#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"

namespace mc2::cli {

/// Reads a model document. Errors: as read_document.
[[nodiscard]] Result<planner::CostModel> read_model(const std::filesystem::path& path);

/// Reads a model document; none if `path` is empty. Errors: as read_model.
[[nodiscard]] Result<std::optional<planner::CostModel>> read_model_if_named(const std::string& path);

} // namespace mc2::cli
