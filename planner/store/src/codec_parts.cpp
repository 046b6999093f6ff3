#include "codec_parts.hpp"

#include <cmath>
#include <stdexcept>

#include "mc2/planner/text.hpp"

namespace mc2::store {
namespace {

constexpr int kSchemaNumber = 1;

/// The number in "mc2.<kind>/<number>"; 0 if the text has another form or kind.
int schema_number(std::string_view schema, std::string_view kind) {
  const std::string prefix = "mc2." + std::string(kind) + "/";
  if (!schema.starts_with(prefix)) return 0;
  return number_in<int>(schema.substr(prefix.size())).value_or(0);
}

} // namespace

double finite(double value) {
  if (!std::isfinite(value))
    throw std::range_error("a document cannot hold " + number_text(value) + ", which is no finite number");
  return value;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string schema_name(std::string_view kind) {
  return "mc2." + std::string(kind) + "/" + std::to_string(kSchemaNumber);
}

void check_schema(const Node& node, std::string_view kind) {
  if (!node.require(node.json().is_object(), "an object")) return;
  if (!node.json().contains("schema"))
    return node.fail(ErrorCode::Malformed, "key 'schema' is missing; expected \"" + schema_name(kind) + "\"");
  const Node schema = node.member("schema", node.json()["schema"]);
  const std::string found = schema.text();
  if (!schema.is_ok()) return;
  const int number = schema_number(found, kind);
  if (number > kSchemaNumber)
    schema.fail(ErrorCode::NewerVersion,
                "is " + in_quotes(found) + ", written by a newer mc2; this one reads '" + schema_name(kind) + "'");
  else if (number != kSchemaNumber)
    schema.fail(ErrorCode::Malformed, "is " + in_quotes(found) + "; expected '" + schema_name(kind) + "'");
}

Result<void> check_operator(const planner::OpSpec& op) {
  auto verdict = op.validate();
  if (verdict || verdict.error().field != "ranks") return verdict;
  // The planner's field is "ranks"; the document's key is world_size.
  return Error{verdict.error().code, "world_size", verdict.error().message};
}

std::map<std::string, std::string> read_texts(const Node& node) {
  std::map<std::string, std::string> result;
  if (!node.require(node.json().is_object(), "an object of texts")) return result;
  for (const auto& [key, value] : node.json().items()) {
    const Node text = node.member(key, value);
    if (has_control(key)) text.fail(ErrorCode::Malformed, "this key has control characters; leave them out");
    result.emplace(key, text.text());
  }
  return result;
}

std::string_view block_key(CutAxis axis) noexcept { return axis == CutAxis::Rows ? "block_rows" : "block_columns"; }

void refuse_rows_for_columns(const Node& node, CutAxis axis) {
  if (axis == CutAxis::Columns && node.json().is_object() && node.json().contains("block_rows"))
    node.fail(ErrorCode::Stale, "has block_rows, but so few rows are cut along n now; profile and plan again");
}

Result<void> check_cut(const planner::Cut& cut, const planner::OpSpec& op) {
  const auto verdict = planner::validate_cut(op, cut);
  if (verdict) return verdict;
  // The planner's field is "blocks"; the document's key is that of the axis.
  return Error{verdict.error().code, "cut." + std::string(block_key(planner::cut_axis(op))), verdict.error().message};
}

} // namespace mc2::store
