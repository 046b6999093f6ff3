#include "codec_parts.hpp"

#include <charconv>
#include <cmath>

#include "mc2/store/text.hpp"

namespace mc2::store {
namespace {

constexpr int kSchemaNumber = 1;

/// The number of "mc2.<kind>/<number>", or 0.
int schema_number(std::string_view schema, std::string_view kind) {
  const std::string prefix = "mc2." + std::string(kind) + "/";
  if (!schema.starts_with(prefix)) return 0;
  const std::string_view digits = schema.substr(prefix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : 0;
}

} // namespace

double finite(double value) {
  MC2_CHECK(std::isfinite(value), "a value that is not finite cannot be encoded");
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

Json write_op_options(const planner::OpSpec& op) {
  Json options = Json::object();
  if (op.tables)
    options["tables"] = {{"count", op.tables->table_count},
                         {"pooling", to_string(op.tables->pooling)},
                         {"row_count", op.tables->row_count}};
  if (!op.epilogue.is_empty()) options["epilogue"] = to_string(op.epilogue);
  return options;
}

void read_op_options(const Fields& fields, planner::OpSpec& op) {
  if (fields.has("epilogue")) op.epilogue = fields["epilogue"].name(planner::parse_epilogue);
  if (!fields.has("tables")) return;
  const Fields tables(fields["tables"], {"count", "pooling", "row_count"});
  op.tables = planner::EmbeddingTables{.table_count = tables["count"].integer(1, planner::kMaxSize),
                                       .row_count = tables["row_count"].integer(1, planner::kMaxSize),
                                       .pooling = tables["pooling"].name(planner::parse_pooling)};
}

Json write_op(const planner::OpSpec& op) {
  Json json = write_op_options(op);
  json.update({{"dtype", to_string(op.dtype)},
               {"k", op.k},
               {"kind", to_string(op.kind)},
               {"m", op.m},
               {"n", op.n},
               {"world_size", op.world_size}});
  return json;
}

planner::OpSpec read_op(const Node& node) {
  const Fields fields(node, {"dtype", "k", "kind", "m", "n", "world_size"}, kOpOptionKeys);
  planner::OpSpec op;
  op.kind = fields["kind"].name(planner::parse_op_kind);
  op.m = fields["m"].integer();
  op.n = fields["n"].integer();
  op.k = fields["k"].integer();
  op.dtype = fields["dtype"].name(planner::parse_dtype);
  op.world_size = fields["world_size"].small_integer();
  read_op_options(fields, op);
  if (!node.is_ok()) return op;
  const auto verdict = op.validate();
  // People and the planner say "ranks" where the document's key is world_size.
  if (!verdict && verdict.error().field == "ranks")
    fields["world_size"].fail(verdict.error().code, verdict.error().message);
  node.check(verdict);
  return op;
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

Json write_fingerprint(const planner::Fingerprint& fingerprint) { return fingerprint.fields; }

planner::Fingerprint read_fingerprint(const Node& node) { return {read_texts(node)}; }

Json write_variant(const planner::Variant& variant) { return {{"fields", variant.fields}, {"name", variant.name}}; }

planner::Variant read_variant(const Node& node) {
  const Fields fields(node, {"fields", "name"});
  return {fields["name"].name(), read_texts(fields["fields"])};
}

std::string_view block_key(planner::CutAxis axis) noexcept {
  return axis == planner::CutAxis::Rows ? "block_rows" : "block_columns";
}

void refuse_rows_for_columns(const Node& node, planner::CutAxis axis) {
  if (axis == planner::CutAxis::Columns && node.json().is_object() && node.json().contains("block_rows"))
    node.fail(ErrorCode::Stale, "has block_rows, but so few rows are cut along n now; profile and plan again");
}

Json write_cut(const planner::Cut& cut, planner::CutAxis axis) {
  return {{std::string(block_key(axis)), cut.block_rows}};
}

planner::Cut read_cut(const Node& node, planner::CutAxis axis) {
  refuse_rows_for_columns(node, axis);
  const Fields fields(node, {block_key(axis)});
  const Node lengths = fields[block_key(axis)];
  planner::Cut cut{lengths.list([](const Node& length) { return length.integer(1, planner::kMaxSize); })};
  lengths.require(!cut.block_rows.empty(), "at least one block");
  return cut;
}

planner::Cut read_cut(const Node& node, const planner::OpSpec& op) {
  if (!node.is_ok()) return {};
  const planner::CutAxis axis = planner::cut_axis(op);
  planner::Cut cut = read_cut(node, axis);
  if (!node.is_ok()) return cut;
  std::int64_t sum = 0;
  for (const std::int64_t length : cut.block_rows) sum += length;
  const std::int64_t expected = planner::traits_of(op.kind).cut_axis_length(op);
  if (sum != expected)
    node.member(block_key(axis), node.json()[std::string(block_key(axis))])
        .fail(ErrorCode::InvalidSpec, "blocks sum to " + std::to_string(sum) + "; must sum to the " +
                                          std::to_string(expected) + " " + std::string(to_string(axis)) +
                                          " of the cut axis");
  return cut;
}

} // namespace mc2::store
