#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/plan_ranges.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// A plan on its way out.
struct ExportItem {
  planner::Plan plan;
  /// In a table of several m: the largest relative loss that the model predicts for an m to which this entry is the
  /// nearest, against that m's own best plan. Empty where nobody computed it.
  std::optional<double> neighbour_loss{};
  bool operator==(const ExportItem&) const = default;
};

/// What a plan does not know and some formats need.
struct ExportOptions {
  std::string algorithm; ///< NCCL's ("ring", "nvls", ...), or HCCL's engine:executor:template ("aicpu:sole:nhr")
  std::string protocol;  ///< NCCL's: ll, ll128 or simple
  std::optional<int> channels = std::nullopt; ///< NCCL's, where a plan does not say; 1 to 64
};

/// One row of the table in src/exporters/exporter_registry.cpp.
struct Exporter {
  std::string_view name;
  std::string_view description;
  bool takes_many; ///< a table of plans rather than one
  /// Errors: InvalidSpec naming what must be said beside the plan; Infeasible for a plan that the format cannot
  /// express.
  Result<std::string> (*write)(std::span<const ExportItem> items, const ExportOptions& options);
  /// Reads back what `write` wrote, the same to the byte; null where the format does not hold the plan.
  /// Of what was edited or written by hand the blocks are read; the reason of the plan says what was changed.
  /// Errors: Malformed where that makes no plan.
  Result<std::vector<ExportItem>> (*read)(std::string_view text);
  /// The plans of all m of a range; null where the format has no place for rules. Errors: Infeasible as `write`.
  Result<std::string> (*write_ranges)(const planner::PlanRanges& ranges) = nullptr;
};

[[nodiscard]] std::span<const Exporter> exporter_registry() noexcept;

/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<const Exporter*> find_exporter(std::string_view name);

} // namespace mc2::store

#pragma GCC visibility pop
