#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "exporters/parts.hpp"
#include "exporters/table_rows.hpp"
#include "json_parse.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/routing.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/csv.hpp"

namespace mc2::store {
namespace {

using nlohmann::json;
using planner::Plan;

/// A value that the race measured; empty for a plan without a race.
template <double planner::Validation::*kValue>
std::string measured_cell(const ExportItem& item) {
  return item.plan.validation ? number_cell(item.plan.validation.value().*kValue) : std::string();
}

/// A field of OpSpec::experts; empty if the operator has none.
template <std::int64_t planner::ChosenExperts::*kField>
std::string expert_cell(const ExportItem& item) {
  return item.plan.op.experts ? std::to_string(item.plan.op.experts.value().*kField) : std::string();
}

/// An end of the benefit's interval; empty for a plan without one, which an earlier mc2 made.
template <double planner::BenefitInterval::*kEnd>
std::string benefit_cell(const ExportItem& item) {
  return item.plan.benefit_interval ? number_cell(item.plan.benefit_interval.value().*kEnd) : std::string();
}

/// The columns of a table of plans: the decision, predictions, measurements, then optional parts of the operator.
constexpr std::array kColumns{
    TableColumn{"kind", [](const ExportItem& item) { return std::string(to_string(item.plan.op.kind)); }},
    TableColumn{"m", [](const ExportItem& item) { return std::to_string(item.plan.op.m); }},
    TableColumn{"n", [](const ExportItem& item) { return std::to_string(item.plan.op.n); }},
    TableColumn{"k", [](const ExportItem& item) { return std::to_string(item.plan.op.k); }},
    TableColumn{"dtype", [](const ExportItem& item) { return std::string(to_string(item.plan.op.dtype)); }},
    TableColumn{"ranks", [](const ExportItem& item) { return std::to_string(item.plan.op.world_size); }},
    TableColumn{"blocks", [](const ExportItem& item) { return item.plan.cut.text(); }},
    TableColumn{"variant", [](const ExportItem& item) { return item.plan.variant.text(); }},
    TableColumn{"makespan_us", [](const ExportItem& item) { return number_cell(item.plan.makespan.us); }},
    TableColumn{"low_us", [](const ExportItem& item) { return number_cell(item.plan.makespan.low_us); }},
    TableColumn{"high_us", [](const ExportItem& item) { return number_cell(item.plan.makespan.high_us); }},
    TableColumn{"serial_us", [](const ExportItem& item) { return number_cell(item.plan.serial_us); }},
    TableColumn{"benefit", [](const ExportItem& item) { return number_cell(item.plan.benefit()); }},
    TableColumn{"benefit_low", benefit_cell<&planner::BenefitInterval::low>},
    TableColumn{"benefit_high", benefit_cell<&planner::BenefitInterval::high>},
    TableColumn{"provenance",
                [](const ExportItem& item) { return std::string(to_string(item.plan.makespan.provenance)); }},
    TableColumn{"measured_us", measured_cell<&planner::Validation::fused_us>},
    TableColumn{"measured_serial_us", measured_cell<&planner::Validation::serial_us>},
    TableColumn{"measured_benefit", measured_cell<&planner::Validation::benefit>},
    TableColumn{"measured_benefit_low", measured_cell<&planner::Validation::benefit_low>},
    TableColumn{"measured_benefit_high", measured_cell<&planner::Validation::benefit_high>},
    TableColumn{
        "neighbour_loss",
        [](const ExportItem& item) { return item.neighbour_loss ? number_cell(*item.neighbour_loss) : std::string(); }},
    TableColumn{"experts_per_rank",
                [](const ExportItem& item) { return std::to_string(item.plan.op.experts_per_rank); }},
    TableColumn{"epilogue", [](const ExportItem& item) { return std::string(to_string(item.plan.op.epilogue)); }},
    TableColumn{
        "imbalance",
        [](const ExportItem& item) { return number_cell(planner::imbalance_of(item.plan.op, item.plan.counts)); }},
    TableColumn{"experts", expert_cell<&planner::ChosenExperts::count>},
    TableColumn{"top_k", expert_cell<&planner::ChosenExperts::top_k>}};

struct RangeColumn {
  const char* name;
  std::string (*cell)(const planner::PlanRange&);
};

constexpr std::array kRangeColumns{
    RangeColumn{"first_m", [](const planner::PlanRange& range) { return std::to_string(range.first_m); }},
    RangeColumn{"last_m", [](const planner::PlanRange& range) { return std::to_string(range.last_m); }},
    RangeColumn{"rule", [](const planner::PlanRange& range) { return range.rule.text(); }},
    RangeColumn{"block_length", [](const planner::PlanRange& range) { return std::to_string(range.rule.long_rows); }},
    RangeColumn{"min_odd_length",
                [](const planner::PlanRange& range) { return std::to_string(range.rule.min_odd_rows); }},
    RangeColumn{"odd_block",
                [](const planner::PlanRange& range) {
                  return std::string(!range.rule.is_cut() ? "" : range.rule.is_odd_first ? "first" : "last");
                }},
    RangeColumn{"schedule",
                [](const planner::PlanRange& range) { return std::string(to_string(range.rule.schedule)); }},
    RangeColumn{"variant", [](const planner::PlanRange& range) { return range.rule.variant.text(); }},
    RangeColumn{"least_benefit", [](const planner::PlanRange& range) { return number_cell(range.least_benefit); }},
    RangeColumn{"most_benefit", [](const planner::PlanRange& range) { return number_cell(range.most_benefit); }},
    RangeColumn{"benefit_low",
                [](const planner::PlanRange& range) {
                  return range.benefit_interval ? number_cell(range.benefit_interval->low) : std::string();
                }},
    RangeColumn{"benefit_high",
                [](const planner::PlanRange& range) {
                  return range.benefit_interval ? number_cell(range.benefit_interval->high) : std::string();
                }},
    RangeColumn{"loss", [](const planner::PlanRange& range) { return number_cell(range.loss); }},
    RangeColumn{"provenance",
                [](const planner::PlanRange& range) { return std::string(to_string(range.provenance)); }}};

template <typename Columns, typename Rows>
std::string markdown_table(const Columns& columns, const Rows& rows) {
  std::string text = "|", line = "|";
  for (const auto& column : columns) text += " " + std::string(column.name) + " |", line += "---|";
  text += "\n" + line + "\n";
  for (const auto& row : rows) {
    text += "|";
    for (const auto& column : columns) {
      std::string cell = one_line(column.cell(row));
      for (std::size_t at = cell.find_first_of("\\|"); at != std::string::npos; at = cell.find_first_of("\\|", at + 2))
        cell.insert(at, 1, '\\');
      text += " " + cell + " |";
    }
    text += "\n";
  }
  return text;
}

const std::vector<TableColumn>& columns() {
  static const std::vector<TableColumn> kAll(kColumns.begin(), kColumns.end());
  return kAll;
}

/// The row's neighbour_loss; none if it is empty. Errors: Malformed.
Result<std::optional<double>> loss_in(const TableRow& row) {
  const auto cell = row.cells.find("neighbour_loss");
  if (cell == row.cells.end() || cell->second.empty()) return std::optional<double>();
  if (const auto value = number_in<double>(cell->second)) return value;
  return Error{ErrorCode::Malformed, "neighbour_loss", in_quotes(cell->second) + " is no number"};
}

/// Errors: Malformed.
Result<ExportItem> item_of(const TableRow& row) {
  MC2_ASSIGN(auto plan, plan_of_row(row, columns()));
  MC2_ASSIGN(const auto loss, loss_in(row));
  return ExportItem{std::move(plan), loss};
}

constexpr std::string_view kDocument = "document";

/// Errors: Malformed.
Result<ExportItem> item_of(const CsvRow& line, std::span<const CsvColumn> names) {
  TableRow row;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].name != kDocument) {
      if (line.has(i)) row.cells.emplace(names[i].name, line.text(i));
    } else if (const std::string document = line.text(i); !document.empty()) {
      MC2_ASSIGN(row.plan, decode_plan(document));
    }
  }
  return item_of(row);
}

/// An entry of the table by m: values for people, and the plan's document, which is read back.
json m_table_entry(const ExportItem& item) {
  const Plan& plan = item.plan;
  json blocks = json::array();
  for (const auto& group : block_groups(plan.cut)) blocks.push_back({{"rows", group.rows}, {"count", group.count}});
  json entry = {{"blocks", blocks},
                {"variant", plan.variant.text()},
                {"makespan_us", plan.makespan.us},
                {"serial_us", plan.serial_us},
                {"benefit", plan.benefit()},
                {"provenance", to_string(plan.makespan.provenance)},
                {"plan", json::parse(encode(plan))}};
  if (plan.benefit_interval) {
    entry["benefit_low"] = plan.benefit_interval->low;
    entry["benefit_high"] = plan.benefit_interval->high;
  }
  if (plan.validation) {
    entry["measured_us"] = plan.validation->fused_us;
    entry["measured_serial_us"] = plan.validation->serial_us;
    entry["measured_benefit"] = plan.validation->benefit;
    entry["measured_benefit_low"] = plan.validation->benefit_low;
    entry["measured_benefit_high"] = plan.validation->benefit_high;
  }
  if (item.neighbour_loss) entry["neighbour_loss"] = *item.neighbour_loss;
  return entry;
}

/// Errors: InvalidSpec for plans that differ in more than m.
Result<void> require_one_operator(std::span<const ExportItem> items) {
  if (items.empty()) return Error{ErrorCode::InvalidSpec, "PLAN", "a table needs at least one plan"};
  for (const ExportItem& item : items) {
    planner::OpSpec same = item.plan.op;
    same.m = items.front().plan.op.m;
    if (same != items.front().plan.op || !(item.plan.fingerprint == items.front().plan.fingerprint))
      return Error{ErrorCode::InvalidSpec, "PLAN",
                   "a table by m is of one operator on one machine; " + item.plan.op.text() + " stands beside " +
                       items.front().plan.op.text()};
  }
  return {};
}

} // namespace

Result<std::string> write_csv(std::span<const ExportItem> items, const ExportOptions&) {
  std::string text;
  for (const TableColumn& column : kColumns) text += std::string(column.name) + ",";
  text += "document\n";
  for (const ExportItem& item : items) {
    for (const TableColumn& column : kColumns) text += csv_cell(column.cell(item)) + ",";
    text += csv_cell(encode(item.plan)) + "\n";
  }
  return text;
}

Result<std::vector<ExportItem>> read_csv(std::string_view text) {
  const std::string_view heading = text.substr(0, text.find('\n'));
  if (heading.find("first_m") != std::string_view::npos && heading.find("blocks") == std::string_view::npos)
    return Error{ErrorCode::Malformed, "line 1",
                 "is the heading of a table of ranges of m, which is not read back; keep the plans of all m as JSON "
                 "(mc2 plan --m first:last --out)"};
  std::vector<CsvColumn> names;
  for (const TableColumn& column : kColumns) names.push_back({column.name, column.name == std::string_view("blocks")});
  names.push_back({kDocument});
  std::vector<ExportItem> items;
  const auto take = [&](const CsvRow& line) -> Result<void> {
    auto item = item_of(line, names);
    if (!item) {
      const auto column = std::ranges::find(names, item.error().field, &CsvColumn::name) - names.begin();
      return Error{ErrorCode::Malformed, line.place(static_cast<std::size_t>(column)), item.error().text()};
    }
    items.push_back(std::move(item).value());
    return {};
  };
  MC2_TRY(read_csv(text, "", {names, "plan", std::string_view::npos, true, false}, take));
  return items;
}

Result<std::string> write_csv_ranges(const planner::PlanRanges& ranges) {
  std::string text = "operator";
  for (const RangeColumn& column : kRangeColumns) text += "," + std::string(column.name);
  text += "\n";
  for (const auto& range : ranges.ranges) {
    text += csv_cell(ranges.op.text());
    for (const RangeColumn& column : kRangeColumns) text += "," + csv_cell(column.cell(range));
    text += "\n";
  }
  return text;
}

Result<std::string> write_markdown_ranges(const planner::PlanRanges& ranges) {
  std::string text;
  for (const auto& line : provenance_lines(ranges)) text += one_line(line) + "\n";
  return text + "\n" + markdown_table(std::span(kRangeColumns), std::span(ranges.ranges));
}

Result<std::string> write_markdown(std::span<const ExportItem> items, const ExportOptions&) {
  std::string text = markdown_table(std::span(kColumns), items);
  text +=
      "\nneighbour_loss: largest predicted loss, relative, of an m to which the row is the nearest; empty where it "
      "was not computed.\n";
  return text;
}

Result<std::string> write_m_table(std::span<const ExportItem> items, const ExportOptions&) {
  MC2_TRY(require_one_operator(items));
  const planner::OpSpec& op = items.front().plan.op;
  const planner::Fingerprint& machine = items.front().plan.fingerprint;
  const std::string device(machine.field("device"));
  json table = {{"schema", "mc2.plan_table/1"},
                {"device", device.empty() ? machine.label() : device},
                {"kind", to_string(op.kind)},
                {"n", op.n},
                {"k", op.k},
                {"dtype", to_string(op.dtype)},
                {"ranks", op.world_size}};
  std::map<std::int64_t, json> by_m;
  for (const ExportItem& item : items)
    if (!by_m.try_emplace(item.plan.op.m, m_table_entry(item)).second)
      return Error{ErrorCode::InvalidSpec, "PLAN", "two plans are of m=" + std::to_string(item.plan.op.m)};
  json& plans = table["plans"] = json::object();
  for (auto& [m, entry] : by_m) plans[std::to_string(m)] = std::move(entry);
  return table.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

namespace {

std::string cell_of(const json& value) {
  return value.is_string()         ? value.get<std::string>()
         : value.is_number_float() ? number_cell(value.get<double>())
                                   : value.dump();
}

/// "1x512+4x896", from a list of groups of equal blocks. Errors: Malformed.
Result<std::string> blocks_in(const json& groups) {
  std::vector<std::string> parts;
  for (const json& group : groups) {
    const bool is_group = group.is_object() && group.contains("rows") && group.contains("count") &&
                          group["rows"].is_number_integer() && group["count"].is_number_integer();
    if (!is_group) return Error{ErrorCode::Malformed, "blocks", "are no list of groups with 'rows' and 'count'"};
    parts.push_back(group["count"].dump() + "x" + group["rows"].dump());
  }
  return list_text(parts, "+");
}

/// The item of one m, from its entry and the cells that the table has for all m. Errors: Malformed.
Result<ExportItem> m_table_item(const json& table, const std::string& m, const json& entry) {
  if (!entry.is_object()) return Error{ErrorCode::Malformed, "", "is no object"};
  TableRow row;
  for (const char* name : {"kind", "n", "k", "dtype", "ranks"})
    if (table.contains(name)) row.cells[name] = cell_of(table[name]);
  row.cells["m"] = m;
  for (const auto& [name, value] : entry.items())
    if (name != "plan" && name != "blocks") row.cells[name] = cell_of(value);
  if (entry.contains("blocks")) {
    MC2_ASSIGN(row.cells["blocks"], blocks_in(entry["blocks"]));
  }
  if (entry.contains("plan")) {
    MC2_ASSIGN(row.plan, decode_plan(entry["plan"].dump(-1, ' ', false, json::error_handler_t::replace)));
  }
  return item_of(row);
}

} // namespace

Result<std::vector<ExportItem>> read_m_table(std::string_view text) {
  MC2_ASSIGN(const json table, parse_json(text));
  if (table.is_object() && table.contains("schema") && table["schema"] != "mc2.plan_table/1")
    return Error{ErrorCode::NewerVersion, "schema",
                 "is " + cell_of(table["schema"]) + "; this build reads mc2.plan_table/1"};
  if (!table.is_object() || !table.contains("plans") || !table["plans"].is_object())
    return Error{ErrorCode::Malformed, "", "is no table of plans by m ('plans')"};
  std::map<std::int64_t, ExportItem> by_m;
  for (const auto& [m, entry] : table["plans"].items()) {
    const std::string place = "plans." + one_line(m, 32);
    auto item = m_table_item(table, m, entry);
    if (!item) return Error{ErrorCode::Malformed, place, item.error().text()};
    const std::int64_t own_m = item.value().plan.op.m;
    if (!by_m.try_emplace(own_m, std::move(item).value()).second)
      return Error{ErrorCode::Malformed, place, "is the second plan of m=" + std::to_string(own_m)};
  }
  std::vector<ExportItem> items;
  for (auto& [m, item] : by_m) items.push_back(std::move(item));
  if (items.empty()) return Error{ErrorCode::Malformed, "plans", "is empty"};
  return items;
}

} // namespace mc2::store
