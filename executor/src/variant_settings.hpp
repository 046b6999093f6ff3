#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "mc2/planner/cost_model.hpp"

namespace mc2::executor {

/// A setting that is a whole number from `least` to `most`; `fallback` where the variant does not have it.
/// Errors: InvalidSpec.
[[nodiscard]] Result<int> whole_setting(const planner::Variant& variant, std::string_view key, int least, int most,
                                        std::optional<int> fallback = std::nullopt);

/// Errors: InvalidSpec for a setting that is none of the legal ones.
[[nodiscard]] Result<void> check_settings(const planner::Variant& variant, std::span<const std::string_view> legal);

} // namespace mc2::executor
