#include "pages/plan_table.hpp"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/csv.hpp"

namespace mc2::cli {
namespace plan_table {
namespace {

using planner::Plan;
using planner::Validation;

/// Digits of a time: finer than any clock, but still readable.
constexpr int kTimeDigits = 9;
constexpr int kRatioDecimals = 6;

std::string time_cell(double us) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), us, std::chars_format::general, kTimeDigits).ptr;
  return {text.data(), end};
}

std::string ratio_cell(double ratio) {
  std::array<char, 400> text{}; // the largest double has 309 digits before its decimals
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), ratio, std::chars_format::fixed, kRatioDecimals).ptr;
  return {text.data(), end};
}

/// A column of the table. A cell is empty where a row has no such value.
struct Column {
  const char* name;
  bool is_number;
  std::string (*cell)(const PlanRow&);
};

template <auto Cell>
std::string of_plan(const PlanRow& row) {
  return row.plan ? std::string(Cell(row.plan.value())) : "";
}

/// A cell of predictions; empty for a plan that was raced without a model.
template <auto Cell>
std::string of_prediction(const PlanRow& row) {
  return row.plan && row.plan.value().makespan.us > 0 ? std::string(Cell(row.plan.value())) : "";
}

/// A cell of what a race measured; empty for a plan that was not raced.
template <auto Cell>
std::string of_race(const PlanRow& row) {
  return row.plan && row.plan.value().validation ? std::string(Cell(*row.plan.value().validation)) : "";
}

std::string status(const PlanRow& row) {
  if (!row.plan) return "refused";
  return row.plan.value().is_cut() ? "cut" : "uncut";
}

std::string reason(const PlanRow& row) {
  if (!row.plan) return row.plan.error().text();
  const Plan& plan = row.plan.value();
  return plan.makespan.reason.empty() ? plan.reason : plan.reason + "; " + plan.makespan.reason;
}

constexpr std::array kColumns{
    Column{"model", false, [](const PlanRow& row) { return row.layer.model; }},
    Column{"layer", false, [](const PlanRow& row) { return row.layer.layer; }},
    Column{"kind", false, [](const PlanRow& row) { return std::string(to_string(row.kind)); }},
    Column{"m", true, [](const PlanRow& row) { return std::to_string(row.m); }},
    Column{"n", true, [](const PlanRow& row) { return row.op ? std::to_string(row.op.value().n) : ""; }},
    Column{"k", true, [](const PlanRow& row) { return row.op ? std::to_string(row.op.value().k) : ""; }},
    Column{"dtype", false, [](const PlanRow& row) { return std::string(to_string(row.layer.dtype)); }},
    Column{"ranks", true, [](const PlanRow& row) { return std::to_string(row.ranks); }},
    Column{"status", false, status},
    Column{"blocks", false, of_plan<[](const Plan& plan) { return plan.cut.text(); }>},
    Column{"variant", false, of_plan<[](const Plan& plan) { return plan.variant.text(); }>},
    Column{"makespan_us", true, of_prediction<[](const Plan& plan) { return time_cell(plan.makespan.us); }>},
    Column{"low_us", true, of_prediction<[](const Plan& plan) { return time_cell(plan.makespan.low_us); }>},
    Column{"high_us", true, of_prediction<[](const Plan& plan) { return time_cell(plan.makespan.high_us); }>},
    Column{"serial_us", true, of_prediction<[](const Plan& plan) { return time_cell(plan.serial_us); }>},
    Column{"ideal_us", true, of_prediction<[](const Plan& plan) { return time_cell(plan.ideal_us); }>},
    Column{"benefit", true, of_prediction<[](const Plan& plan) { return ratio_cell(plan.benefit()); }>},
    Column{"overlap_efficiency", true,
           of_prediction<[](const Plan& plan) { return ratio_cell(plan.overlap_efficiency()); }>},
    Column{"bound", false, of_prediction<[](const Plan& plan) { return to_string(plan.bound); }>},
    Column{"provenance", false, of_plan<[](const Plan& plan) { return to_string(plan.makespan.provenance); }>},
    Column{"source", false, [](const PlanRow& row) { return std::string(row.source); }},
    Column{"refusal", false,
           [](const PlanRow& row) { return row.plan ? "" : std::string(to_string(row.plan.error().code)); }},
    Column{"reason", false, reason},
    Column{"experts_per_rank", true,
           [](const PlanRow& row) { // left out if it is 1
             return row.op && row.op.value().experts_per_rank > 1 ? std::to_string(row.op.value().experts_per_rank)
                                                                  : "";
           }},
    Column{"measured_us", true, of_race<[](const Validation& race) { return time_cell(race.fused_us); }>},
    Column{"measured_serial_us", true, of_race<[](const Validation& race) { return time_cell(race.serial_us); }>},
    Column{"measured_benefit", true, of_race<[](const Validation& race) { return ratio_cell(race.benefit); }>},
    Column{"measured_benefit_low", true, of_race<[](const Validation& race) { return ratio_cell(race.benefit_low); }>},
    Column{"measured_benefit_high", true,
           of_race<[](const Validation& race) { return ratio_cell(race.benefit_high); }>}};

std::string json_text(const std::string& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_csv_row(const PlanRow& row, std::string& text) {
  for (const Column& column : kColumns) {
    if (&column != kColumns.data()) text += ',';
    text += store::csv_cell(column.cell(row));
  }
  text += '\n';
}

void append_json_row(const PlanRow& row, std::string& text) {
  const char* separator = "    {\"";
  for (const Column& column : kColumns) {
    const std::string cell = column.cell(row);
    if (cell.empty()) continue;
    text += separator;
    text += column.name;
    text += "\": ";
    text += column.is_number ? cell : json_text(cell);
    separator = ", \"";
  }
  text += "},\n";
}

std::string csv_heading() { return list_text(kColumns, &Column::name, ",") + "\n"; }

/// The head of the document, with the options as in a request document.
std::string json_head(const store::PlanRequest& asked) {
  const auto request = nlohmann::json::parse(store::encode(asked));
  return "{\n  \"schema\": \"mc2.sweep/1\",\n  \"options\": " + request.at("options").dump() + ",\n  \"rows\": [\n";
}

std::string json_tail(const PlanCounts& counts) {
  return "  ],\n  \"summary\": {\"cut\": " + std::to_string(counts.cut) +
         ", \"refused\": " + std::to_string(counts.refused) + ", \"uncut\": " + std::to_string(counts.uncut) + "}\n}\n";
}

} // namespace
} // namespace plan_table

void PlanCounts::add(const PlanCounts& other) noexcept {
  cut += other.cut;
  uncut += other.uncut;
  refused += other.refused;
}

void append_row(TableFormat format, const PlanRow& row, std::string& text) {
  using namespace plan_table;
  if (format == TableFormat::Csv) append_csv_row(row, text);
  if (format == TableFormat::Json) append_json_row(row, text);
}

std::vector<std::string> make_table(TableFormat format, const store::PlanRequest& asked, std::vector<std::string> rows,
                                    const PlanCounts& counts) {
  using namespace plan_table;
  std::vector<std::string> table = std::move(rows);
  if (format == TableFormat::Csv) {
    table.insert(table.begin(), csv_heading());
    return table;
  }
  table.back().erase(table.back().rfind(','), 1); // JSON has none after the last row
  table.insert(table.begin(), json_head(asked));
  table.push_back(json_tail(counts));
  return table;
}

} // namespace mc2::cli
