#include "codec_parts.hpp"
#include "mc2/planner/text.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace mc2::store {

template <>
inline constexpr auto kFields<planner::LaneContention> = std::tuple(field("compute", &planner::LaneContention::compute),
                                                                    field("communication",
                                                                          &planner::LaneContention::communication));

namespace {

using planner::PlanOptions;

/// An option whose default is the machine's value. The request notes whether it is given.
struct MachinesOption {
  bool PlanRequest::*is_given;
  std::int64_t PlanOptions::*option;
  [[nodiscard]] bool is_written(const PlanRequest& request) const { return request.*is_given; }
  [[nodiscard]] Json write(const PlanRequest& request) const { return request.options.*option; }
  void read(const Node& node, PlanRequest& request) const {
    request.*is_given = true;
    request.options.*option = node.integer();
  }
};

/// Counts of rows between the ranks. Absent: the blocks between all pairs are full.
struct Counts {
  [[nodiscard]] bool is_written(const PlanRequest& request) const { return !request.options.counts.empty(); }
  [[nodiscard]] Json write(const PlanRequest& request) const { return request.options.counts; }
  void read(const Node& node, PlanRequest& request) const {
    request.options.counts = node.list([](const Node& count) { return count.integer(kCount.low, kCount.high); });
    if (node.is_ok() && request.options.counts.empty())
      node.fail(ErrorCode::Malformed, "is empty; leave it out where all pairs of ranks exchange equally many rows");
  }
};

template <typename Member, typename Form = AsItIs>
constexpr auto option(std::string_view key, Member PlanOptions::*member, Form form = {}) {
  return field(
      key, [member](auto& request) -> auto& { return request.options.*member; }, form, Presence::Given);
}

/// Every option may be left out of a request; its default then holds.
constexpr auto kOptionFields = std::tuple(
    field("alignment", std::identity{}, MachinesOption{&PlanRequest::has_alignment, &PlanOptions::alignment}),
    field("min_block_rows", std::identity{},
          MachinesOption{&PlanRequest::has_min_block_rows, &PlanOptions::min_block_rows}),
    field("counts", std::identity{}, Counts{}), option("strategy", &PlanOptions::strategy),
    option("max_block_count", &PlanOptions::max_block_count),
    option("objective_quantile", &PlanOptions::objective_quantile),
    option("require_significant_gain", &PlanOptions::require_significant_gain),
    option("runner_up_count", &PlanOptions::runner_up_count),
    option("formula_contention", &PlanOptions::formula_contention), option("contention", &PlanOptions::contention),
    option("block_overhead_us", &PlanOptions::block_overhead_us),
    option("formula_short_block", &PlanOptions::formula_short_block, &planner::parse_short_block_rule),
    checked([](const PlanRequest& request) { return request.options.validate(); }));

struct Options {
  [[nodiscard]] Json write(const PlanRequest& request) const {
    return write_object<kOptionFields>(request, CutAxis::Rows);
  }
  void read(const Node& node, PlanRequest& request) const { read_object<kOptionFields>(node, request, CutAxis::Rows); }
};

} // namespace

template <>
inline constexpr auto kFields<PlanRequest> = std::tuple(document("request"), field("op", &PlanRequest::op),
                                                        field("options", std::identity{}, Options{}, Presence::Given));

PlanOptions PlanRequest::options_with(const PlanOptions& usual) const {
  PlanOptions result = options;
  if (!has_alignment) result.alignment = usual.alignment;
  if (!has_min_block_rows) result.min_block_rows = result.alignment;
  if (!has_max_block_count && result.max_block_count == PlanOptions().max_block_count)
    result.max_block_count = usual.max_block_count;
  return result;
}

std::string unusual_options(PlanOptions options, const PlanOptions& usual) {
  options.runner_up_count = usual.runner_up_count;
  const Json asked = Options().write({.op = {}, .options = std::move(options)});
  const Json known = Options().write({.op = {}, .options = usual});
  std::vector<std::string> texts;
  for (const auto& [name, value] : asked.items())
    if (!known.contains(name) || known[name] != value)
      texts.push_back(name + "=" + (value.is_string() ? value.get<std::string>() : dump(value)));
  return list_text(texts);
}

Result<PlanOptions> read_unusual_options(std::string_view text, const PlanOptions& usual) {
  Json json = Options().write({.op = {}, .options = usual});
  constexpr std::string_view kSeparator = ", "; // of list_text; compact JSON has none
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(kSeparator));
    text.remove_prefix(std::min(text.size(), one.size() + kSeparator.size()));
    const auto equals = one.find('=');
    if (equals == std::string_view::npos)
      return Error{ErrorCode::Malformed, std::string(one), "has no value; write NAME=VALUE"};
    const std::string_view value = one.substr(equals + 1);
    auto number = parse_json(value);
    json[std::string(one.substr(0, equals))] = number ? std::move(number).value() : Json(value);
  }
  ReadStatus status;
  PlanRequest request = PlanRequest::usual({});
  Options().read(Node(json, status), request);
  if (status.error) return *status.error;
  return std::move(request.options);
}

std::string encode(const PlanRequest& request) { return dump(write_described(request)); }

template <>
PlanRequest read_document(const Node& node) {
  PlanRequest request = PlanRequest::usual({});
  read_object<kFields<PlanRequest>>(node, request, CutAxis::Rows);
  return request;
}

template <>
WhatIf read_document(const Node& node) {
  const Fields fields(node, {"request"}, {"schema", "model", "topology"});
  if (fields.has("schema")) check_schema(node, "what_if");
  WhatIf what_if{read_document<PlanRequest>(fields["request"]), {}, {}};
  if (fields.has("model")) what_if.model = read_document<planner::CostModel>(fields["model"]);
  if (fields.has("topology")) what_if.topology = read_document<planner::Topology>(fields["topology"]);
  if (!fields.has("model") && !fields.has("topology"))
    node.fail(ErrorCode::Malformed, "has neither \"model\" nor \"topology\"; give one of them, or both");
  return what_if;
}

Result<PlanRequest> decode_request(std::string_view json) { return decode_document<PlanRequest>(json); }
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
