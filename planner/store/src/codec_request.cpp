#include "codec_parts.hpp"

namespace mc2::store {
namespace {

using planner::PlanOptions;

Json write_options(const PlanRequest& request) {
  const PlanOptions& options = request.options;
  Json json{{"formula_contention", finite(options.formula_contention)},
            {"formula_short_block", to_string(options.formula_short_block)},
            {"max_block_count", options.max_block_count},
            {"objective_quantile", finite(options.objective_quantile)},
            {"require_significant_gain", options.require_significant_gain},
            {"runner_up_count", options.runner_up_count},
            {"strategy", options.strategy}};
  if (request.has_alignment) json["alignment"] = options.alignment;
  if (request.has_min_block_rows) json["min_block_rows"] = options.min_block_rows;
  return json;
}

/// Every option may be left out: a request says only what differs from the defaults.
void read_options(const Node& node, PlanRequest& request) {
  const Fields fields(node, {},
                      {"alignment", "formula_contention", "formula_short_block", "max_block_count", "min_block_rows",
                       "objective_quantile", "require_significant_gain", "runner_up_count", "strategy"});
  PlanOptions& options = request.options;
  request.has_alignment = fields.has("alignment");
  request.has_min_block_rows = fields.has("min_block_rows");
  if (fields.has("strategy")) options.strategy = fields["strategy"].text();
  if (fields.has("alignment")) options.alignment = fields["alignment"].integer();
  if (fields.has("min_block_rows")) options.min_block_rows = fields["min_block_rows"].integer();
  if (fields.has("max_block_count")) options.max_block_count = fields["max_block_count"].integer();
  if (fields.has("objective_quantile")) options.objective_quantile = fields["objective_quantile"].number();
  if (fields.has("require_significant_gain"))
    options.require_significant_gain = fields["require_significant_gain"].boolean();
  if (fields.has("runner_up_count")) options.runner_up_count = fields["runner_up_count"].small_integer();
  if (fields.has("formula_contention")) options.formula_contention = fields["formula_contention"].number();
  if (fields.has("formula_short_block"))
    options.formula_short_block = fields["formula_short_block"].name(planner::parse_short_block_rule);
  if (node.is_ok()) node.check(options.validate());
}

} // namespace

PlanOptions PlanRequest::options_with(std::int64_t alignment) const {
  PlanOptions result = options;
  if (!has_alignment) result.alignment = alignment;
  if (!has_min_block_rows) result.min_block_rows = result.alignment;
  return result;
}

std::string encode(const PlanRequest& request) {
  return dump({{"op", write_op(request.op)}, {"options", write_options(request)}, {"schema", schema_name("request")}});
}

template <>
PlanRequest read_document<PlanRequest>(const Node& node) {
  check_schema(node, "request");
  const Fields fields(node, {"op", "schema"}, {"options"});
  PlanRequest request = PlanRequest::usual(read_op(fields["op"]));
  if (fields.has("options")) read_options(fields["options"], request);
  return request;
}

template <>
WhatIf read_document<WhatIf>(const Node& node) {
  const Fields fields(node, {"model", "request"}, {"schema"});
  if (fields.has("schema")) check_schema(node, "what_if");
  return {read_document<planner::CostModel>(fields["model"]), read_document<PlanRequest>(fields["request"])};
}

Result<WhatIf> decode_what_if(std::string_view json) { return decode_document<WhatIf>(json); }

Result<std::vector<Result<PlanRequest>>> decode_batch(std::string_view json) {
  MC2_ASSIGN(const auto document, parse_json(json));
  ReadStatus status;
  const Node node(document, status);
  const Fields fields(node, {"requests"}, {"schema"});
  if (fields.has("schema")) check_schema(node, "batch");
  auto requests = fields["requests"].list([](const Node& one) -> Result<PlanRequest> {
    ReadStatus own;
    PlanRequest request = read_document<PlanRequest>(Node(one.json(), own));
    if (own.error) return *own.error;
    return request;
  });
  if (status.error) return *status.error;
  return requests;
}

} // namespace mc2::store
