#pragma once

#include <filesystem>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"

namespace mc2::cli {

/// A model document. Errors: as read_document.
[[nodiscard]] Result<planner::CostModel> read_model(const std::filesystem::path& path);

} // namespace mc2::cli
