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

/// A plan to be exported.
struct ExportItem {
  planner::Plan plan;
  /// For a table of plans for several m. Among the m that have this entry as their nearest: the largest loss that the
  /// model predicts against the m's own best plan, relative. Unset if it was not computed.
  std::optional<double> neighbour_loss{};
  bool operator==(const ExportItem&) const = default;
};

/// Facts that some formats need and a plan does not have.
struct ExportOptions {
  std::string algorithm; ///< NCCL's ("ring", "nvls", ...), or HCCL's engine:executor:template ("aicpu:sole:nhr")
  std::string protocol;  ///< NCCL's: ll, ll128 or simple
  std::optional<int> channels = std::nullopt; ///< NCCL's, 1 to 64, for plans that do not name them
};

/// One row of the table in src/exporters/exporter_registry.cpp.
struct Exporter {
  std::string_view name;
  std::string_view description;
  bool takes_many; ///< whether the format holds a table of plans rather than one plan
  /// Writes plans. Errors: InvalidSpec, naming the option that the format needs; Infeasible for a plan that the format
  /// cannot express.
  Result<std::string> (*write)(std::span<const ExportItem> items, const ExportOptions& options);
  /// Reads a text of `write` back into plans that are equal to the byte; null if the format does not hold the plan. If
  /// the text was edited or written by hand, reads its blocks, and Plan::reason says what was changed.
  /// Errors: Malformed if the text does not give a plan.
  Result<std::vector<ExportItem>> (*read)(std::string_view text);
  /// Writes the plans of all m of a range as rules; null if the format has no rules. Errors: Infeasible as `write`.
  Result<std::string> (*write_ranges)(const planner::PlanRanges& ranges) = nullptr;
};

[[nodiscard]] std::span<const Exporter> exporter_registry() noexcept;

/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<const Exporter*> find_exporter(std::string_view name);

} // namespace mc2::store

#pragma GCC visibility pop
