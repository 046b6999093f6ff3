#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "exporters/parts.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/text.hpp"

namespace mc2::store {
namespace {

using nlohmann::json;
using planner::Plan;

struct Column {
  const char* name;
  std::string (*cell)(const ExportItem&);
};

constexpr std::array kColumns{
    Column{"kind", [](const ExportItem& item) { return std::string(to_string(item.plan.op.kind)); }},
    Column{"m", [](const ExportItem& item) { return std::to_string(item.plan.op.m); }},
    Column{"n", [](const ExportItem& item) { return std::to_string(item.plan.op.n); }},
    Column{"k", [](const ExportItem& item) { return std::to_string(item.plan.op.k); }},
    Column{"dtype", [](const ExportItem& item) { return std::string(to_string(item.plan.op.dtype)); }},
    Column{"ranks", [](const ExportItem& item) { return std::to_string(item.plan.op.world_size); }},
    Column{"blocks", [](const ExportItem& item) { return item.plan.cut.text(); }},
    Column{"variant", [](const ExportItem& item) { return item.plan.variant.text(); }},
    Column{"makespan_us", [](const ExportItem& item) { return number_cell(item.plan.makespan.us); }},
    Column{"low_us", [](const ExportItem& item) { return number_cell(item.plan.makespan.low_us); }},
    Column{"high_us", [](const ExportItem& item) { return number_cell(item.plan.makespan.high_us); }},
    Column{"serial_us", [](const ExportItem& item) { return number_cell(item.plan.serial_us); }},
    Column{"benefit", [](const ExportItem& item) { return number_cell(item.plan.benefit()); }},
    Column{"provenance", [](const ExportItem& item) { return std::string(to_string(item.plan.makespan.provenance)); }},
    Column{"neighbour_loss", [](const ExportItem& item) {
             return item.neighbour_loss ? number_cell(*item.neighbour_loss) : std::string();
           }}};

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

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell.append(c == '"' ? 2 : 1, c);
  return cell + "\"";
}

template <typename Columns, typename Rows>
std::string markdown_table(const Columns& columns, const Rows& rows) {
  std::string text = "|", line = "|";
  for (const auto& column : columns) text += " " + std::string(column.name) + " |", line += "---|";
  text += "\n" + line + "\n";
  for (const auto& row : rows) {
    text += "|";
    for (const auto& column : columns) {
      std::string cell = one_line(column.cell(row));
      for (std::size_t at = cell.find('|'); at != std::string::npos; at = cell.find('|', at + 2))
        cell.replace(at, 1, "\\|");
      text += " " + cell + " |";
    }
    text += "\n";
  }
  return text;
}

/// The text of a cell that csv_cell quoted.
std::string unquoted(std::string_view cell) {
  std::string text;
  for (std::size_t i = 1; i + 1 < cell.size(); ++i) {
    text.push_back(cell[i]);
    if (cell[i] == '"') ++i;
  }
  return text;
}

/// The number before the last comma; nothing for an empty cell. Errors: Malformed.
Result<std::optional<double>> last_number(std::string_view cells) {
  const std::string_view cell = cells.substr(cells.rfind(',') + 1);
  if (cell.empty()) return std::optional<double>();
  double value = 0;
  const auto [end, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (failure == std::errc() && end == cell.data() + cell.size()) return std::optional(value);
  return Error{ErrorCode::Malformed, "neighbour_loss", "'" + std::string(cell.substr(0, 32)) + "' is no number"};
}

/// An entry of the table by m, as people read it; the document behind it is what is read back.
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
  for (const Column& column : kColumns) text += std::string(column.name) + ",";
  text += "document\n";
  for (const ExportItem& item : items) {
    for (const Column& column : kColumns) text += csv_cell(column.cell(item)) + ",";
    text += csv_cell(encode(item.plan)) + "\n";
  }
  return text;
}

Result<std::vector<ExportItem>> read_csv(std::string_view text) {
  constexpr std::string_view kDocument = ",\"{"; // nothing but the document, the last cell, begins like this
  std::vector<ExportItem> items;
  std::string_view rest = text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
  for (int number = 2; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::string place = "line " + std::to_string(number);
    const std::size_t at = line.find(kDocument);
    if (at == std::string_view::npos) return Error{ErrorCode::Malformed, place, "has no cell with the plan's document"};
    auto plan = decode_plan(unquoted(line.substr(at + 1)));
    if (!plan) return Error{ErrorCode::Malformed, place, plan.error().text()};
    const auto loss = last_number(line.substr(0, at));
    if (!loss) return Error{ErrorCode::Malformed, place, loss.error().text()};
    items.push_back({std::move(plan).value(), loss.value()});
  }
  return require_unedited(std::move(items), text, "csv");
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
  const auto device = items.front().plan.fingerprint.fields.find("device");
  json table = {
      {"schema", "mc2.plan_table/1"},
      {"device",
       device == items.front().plan.fingerprint.fields.end() ? items.front().plan.fingerprint.label() : device->second},
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

Result<std::vector<ExportItem>> read_m_table(std::string_view text) {
  const json table = json::parse(text, nullptr, false);
  if (!table.is_object() || !table.contains("plans") || !table["plans"].is_object())
    return Error{ErrorCode::Malformed, "", "is no table of plans by m ('plans')"};
  std::map<std::int64_t, ExportItem> by_m;
  for (const auto& [m, entry] : table["plans"].items()) {
    if (!entry.is_object() || !entry.contains("plan"))
      return Error{ErrorCode::Malformed, "plans." + one_line(m, 32), "has no 'plan'"};
    auto plan = decode_plan(entry["plan"].dump());
    if (!plan) return Error{ErrorCode::Malformed, "plans." + one_line(m, 32), plan.error().text()};
    ExportItem item{std::move(plan).value()};
    if (entry.contains("neighbour_loss") && entry["neighbour_loss"].is_number())
      item.neighbour_loss = entry["neighbour_loss"].get<double>();
    by_m.insert_or_assign(item.plan.op.m, std::move(item));
  }
  std::vector<ExportItem> items;
  for (auto& [m, item] : by_m) items.push_back(std::move(item));
  if (items.empty()) return Error{ErrorCode::Malformed, "plans", "is empty"};
  return require_unedited(std::move(items), text, "m-table");
}

} // namespace mc2::store
