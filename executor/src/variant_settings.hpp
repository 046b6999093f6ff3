#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "mc2/planner/cost_model.hpp"

namespace mc2::executor {

/// Reads a setting of a variant, a whole number from `least` to `most`. If the variant does not have it, the result is
/// `fallback`. Errors: InvalidSpec for a value out of range, or a missing setting without fallback.
[[nodiscard]] Result<int> whole_setting(const planner::Variant& variant, std::string_view key, int least, int most,
                                        std::optional<int> fallback = std::nullopt);

/// Checks that the variant has no settings other than the legal ones. Errors: InvalidSpec.
[[nodiscard]] Result<void> check_settings(const planner::Variant& variant, std::span<const std::string_view> legal);

} // namespace mc2::executor
