#include "exporters/table_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/imported.hpp"

namespace mc2::store {
namespace {

/// The columns that a row must have: they determine the plan.
constexpr std::array<std::string_view, 7> kNeeded{"kind", "m", "n", "k", "dtype", "ranks", "blocks"};
constexpr std::string_view kVariant = "variant", kExpertsPerRank = "experts_per_rank", kEpilogue = "epilogue",
                           kExperts = "experts", kTopK = "top_k";
constexpr std::array kIfSaid{kVariant, kExpertsPerRank, kEpilogue, kExperts, kTopK};
constexpr std::string_view kLoss = "neighbour_loss"; ///< belongs to the row, not to its plan

Error malformed_cell(std::string_view column, std::string message) {
  return {ErrorCode::Malformed, std::string(column), std::move(message)};
}

bool is_decision(std::string_view column) {
  return std::ranges::find(kIfSaid, column) != kIfSaid.end() || std::ranges::find(kNeeded, column) != kNeeded.end();
}

constexpr std::string_view kUncut = "uncut";

/// Errors: InvalidSpec.
Result<planner::Cut> cut_of(std::string_view blocks, const planner::OpSpec& op) {
  return blocks == kUncut ? planner::uncut(op) : planner::parse_cut(blocks);
}

/// Whether two cells mean the same. Predictions may differ in the last digits: programs save numbers in their own way.
bool says_the_same(std::string_view column, std::string_view one, std::string_view other, const planner::Plan& plan) {
  constexpr double kDigits = 1e-6;
  if (one == other) return true;
  if (column == "blocks") {
    const auto cut = cut_of(one, plan.op);
    return cut && cut.value() == plan.cut;
  }
  if (is_decision(column)) return false;
  const auto a = number_in<double>(one), b = number_in<double>(other);
  return a && b && std::abs(*a - *b) <= kDigits * std::max(std::abs(*a), std::abs(*b));
}

/// "blocks is 512 + 7 x 512 where its plan has 8 x 512; ..."; empty if nothing differs.
/// Errors: Malformed for a prediction that differs, and for a variant that was deleted.
Result<std::string> changes_in(const TableRow& row, const std::vector<TableColumn>& columns) {
  std::vector<std::string> changes;
  const ExportItem item{*row.plan, {}};
  for (const TableColumn& column : columns) {
    const auto cell = row.cells.find(column.name);
    if (cell == row.cells.end() || column.name == kLoss) continue;
    const std::string own = column.cell(item);
    if (says_the_same(column.name, cell->second, own, *row.plan)) continue;
    if (column.name == kVariant && trimmed(cell->second).empty())
      return malformed_cell(kVariant, "is empty where its plan has " + own + "; restore it, or name another");
    const std::string change =
        std::string(column.name) + " is " + one_line(cell->second, 64) + " where its plan has " + own;
    if (!is_decision(column.name))
      return malformed_cell(column.name, change + "; predictions cannot be edited, only " + list_text(kNeeded) + ", " +
                                             list_text(kIfSaid));
    changes.push_back(change);
  }
  return list_text(changes, "; ");
}

class RowReader {
 public:
  explicit RowReader(const TableRow& row) : row_(row) {}

  [[nodiscard]] std::string_view text(std::string_view column) const {
    const auto found = row_.cells.find(column);
    return found == row_.cells.end() ? std::string_view() : std::string_view(found->second);
  }
  template <typename Number>
  [[nodiscard]] Result<Number> number(std::string_view column) const {
    const auto value = number_in<Number>(text(column));
    if (value) return *value;
    return malformed_cell(column, in_quotes(text(column)) + " is no whole number");
  }

  /// Errors: Malformed.
  [[nodiscard]] Result<planner::OpSpec> op() const {
    planner::OpSpec spec = row_.plan ? row_.plan->op : planner::OpSpec{};
    MC2_ASSIGN(spec.kind, planner::parse_op_kind(text("kind")));
    MC2_ASSIGN(spec.dtype, planner::parse_dtype(text("dtype")));
    MC2_ASSIGN(spec.m, number<std::int64_t>("m"));
    MC2_ASSIGN(spec.n, number<std::int64_t>("n"));
    MC2_ASSIGN(spec.k, number<std::int64_t>("k"));
    MC2_ASSIGN(spec.world_size, number<int>("ranks"));
    if (!text(kExpertsPerRank).empty()) {
      MC2_ASSIGN(spec.experts_per_rank, number<std::int64_t>(kExpertsPerRank));
    }
    if (row_.cells.contains(kExperts)) spec.experts.reset();
    if (!text(kExperts).empty() || !text(kTopK).empty()) {
      spec.experts.emplace();
      MC2_ASSIGN(spec.experts->count, number<std::int64_t>(kExperts));
      MC2_ASSIGN(spec.experts->top_k, number<std::int64_t>(kTopK));
    }
    if (!text(kEpilogue).empty()) {
      MC2_ASSIGN(spec.epilogue, planner::parse_epilogue(text(kEpilogue)));
    }
    MC2_TRY(spec.validate());
    return spec;
  }

 private:
  const TableRow& row_;
};

/// The plan without predictions that the cells describe. Errors: as plan_of_row, but with any code.
Result<planner::Plan> plan_by_value(const TableRow& row, const std::string& reason) {
  const RowReader reader(row);
  MC2_ASSIGN(const auto op, reader.op());
  MC2_ASSIGN(auto cut, cut_of(reader.text("blocks"), op));
  const planner::Variant variant =
      planner::parse_variant(reader.text(kVariant).empty() ? "imported" : reader.text(kVariant));
  const planner::Fingerprint machine =
      row.plan ? row.plan->fingerprint : planner::Fingerprint{imported_fields("unknown")};
  MC2_ASSIGN(auto plan, planner::unpredicted_plan(op, machine, variant, std::move(cut)));
  plan.reason = reason;
  return plan;
}

} // namespace

Result<planner::Plan> plan_of_row(TableRow row, const std::vector<TableColumn>& columns) {
  std::string reason = "read from a row that was written by hand";
  if (row.plan) {
    MC2_ASSIGN(const auto changes, changes_in(row, columns));
    if (changes.empty()) return *row.plan;
    for (const TableColumn& column : columns) row.cells.try_emplace(column.name, column.cell({*row.plan, {}}));
    reason = "read from an edited table: " + changes +
             (row.plan->counts.empty() ? "" : "; of full pairs, where it was for counts");
  }
  std::vector<std::string_view> missing;
  std::ranges::copy_if(kNeeded, std::back_inserter(missing),
                       [&](std::string_view column) { return !row.cells.contains(column); });
  if (!missing.empty()) return malformed_cell("", "holds no plan of mc2's and lacks " + list_text(missing));
  auto plan = plan_by_value(row, reason);
  if (plan) return plan;
  return malformed_cell(plan.error().field, plan.error().message + (row.plan ? " (" + reason + ")" : ""));
}

} // namespace mc2::store
