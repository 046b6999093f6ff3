#pragma once

#include <optional>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/store/store.hpp"

namespace mc2::cli {

/// `--variant NAME[(field=value,...)]`: only this variant is profiled, planned with, raced and run. Without the option,
/// every variant that the backend offers.
struct VariantOption {
  std::optional<std::string> text;

  void add_to(CLI::App& app);
  [[nodiscard]] bool is_given() const noexcept { return text.has_value(); }

  /// The variants to measure. Errors: as Backend::check_variant, naming --variant; InvalidSpec for a text that names no
  /// variant.
  [[nodiscard]] Result<std::vector<planner::Variant>> choose(const executor::Backend& backend,
                                                             const executor::CommunicatorOptions& options,
                                                             const planner::OpSpec& op) const;

  /// The variant asked for, if any. Errors: InvalidSpec for a text that names no variant.
  [[nodiscard]] Result<std::optional<planner::Variant>> chosen() const;
};

} // namespace mc2::cli
