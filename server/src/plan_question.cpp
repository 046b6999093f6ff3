#include "plan_question.hpp"

#include <limits>
#include <utility>

namespace mc2::server {
namespace {

using planner::OpSpec;

/// Reads parameters and keeps the first error, so that the callers need no check after each parameter.
class Reader {
 public:
  explicit Reader(const Query& query) : query_(query) {}

  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

  template <typename T>
  T take(Result<T> result, T otherwise = {}) {
    if (result) return std::move(result).value();
    if (!error_) error_ = result.error();
    return otherwise;
  }
  std::int64_t required(const std::string& name, std::int64_t most = planner::kMaxSize) {
    const auto value = take(query_.integer(name, 1, most));
    if (!value && !error_) error_ = Error{ErrorCode::InvalidSpec, name, "is missing"};
    return value.value_or(1);
  }
  template <typename Number>
  void read(const std::string& name, Number& value, std::int64_t least, Number most) {
    value = static_cast<Number>(take(query_.integer(name, least, most)).value_or(value));
  }
  void read(const std::string& name, double& value) { value = take(query_.real(name)).value_or(value); }
  bool flag(const std::string& name) { return take(query_.flag(name)); }

 private:
  const Query& query_;
  std::optional<Error> error_;
};

/// Errors: as read_plan_question.
Result<std::optional<planner::EmbeddingTables>> read_tables(const Query& query, Reader& reader) {
  planner::EmbeddingTables tables;
  reader.read("tables", tables.table_count, 1, planner::kMaxSize);
  reader.read("table_rows", tables.row_count, 1, planner::kMaxSize);
  const auto pooling = query.text("pooling");
  if (pooling) {
    MC2_ASSIGN(tables.pooling, planner::parse_pooling(*pooling));
  }
  const bool is_given = query.text("tables") || query.text("table_rows") || pooling;
  return is_given ? std::optional(tables) : std::nullopt;
}

std::optional<planner::ChosenExperts> read_experts(const Query& query, Reader& reader) {
  if (!query.text("experts") && !query.text("top_k")) return std::nullopt;
  return planner::ChosenExperts{.count = reader.required("experts"),
                                .top_k = reader.required("top_k", planner::kMaxTopK)};
}

Result<OpSpec> read_op(const Query& query, Reader& reader) {
  OpSpec op;
  MC2_ASSIGN(const auto kind, planner::parse_op_kind(query.text("op").value_or("matmul_all_reduce")));
  MC2_ASSIGN(const auto dtype, planner::parse_dtype(query.text("dtype").value_or("f32")));
  op.kind = kind;
  op.dtype = dtype;
  op.m = reader.required("m");
  op.n = reader.required("n");
  op.k = reader.required("k");
  op.world_size = 2;
  reader.read("ranks", op.world_size, 2, planner::kMaxWorldSize);
  op.epilogue = {.has_bias = reader.flag("bias"), .has_residual = reader.flag("residual")};
  if (const auto norm = query.text("norm")) {
    MC2_ASSIGN(op.epilogue.norm, planner::parse_norm(*norm));
  }
  reader.read("experts_per_rank", op.experts_per_rank, 1, planner::kMaxSize);
  op.experts = read_experts(query, reader);
  MC2_ASSIGN(op.tables, read_tables(query, reader));
  if (reader.error()) return *reader.error();
  MC2_TRY(op.validate());
  return op;
}

/// Errors: as read_plan_question.
Result<void> read_options(const Query& query, Reader& reader, store::PlanRequest& request) {
  planner::PlanOptions& options = request.options;
  request.has_alignment = query.text("alignment").has_value();
  request.has_min_block_rows = query.text("min_block_rows").has_value();
  request.has_max_block_count = query.text("max_block_count").has_value();
  options.strategy = query.text("strategy").value_or(options.strategy);
  reader.read("alignment", options.alignment, 1, planner::kMaxSize);
  reader.read("min_block_rows", options.min_block_rows, 1, planner::kMaxSize);
  reader.read("max_block_count", options.max_block_count, 1, planner::kMaxBlockCount);
  reader.read("objective_quantile", options.objective_quantile);
  options.require_significant_gain = !reader.flag("allow_small_gain");
  if (const auto contention = query.text("contention")) {
    MC2_ASSIGN(options.contention, planner::parse_contention(*contention));
  }
  options.block_overhead_us = reader.take(query.real("block_overhead_us"));
  if (reader.error()) return *reader.error();
  return options.validate();
}

/// The parameters that hold for one m and for a range. Errors: as read_plan_question.
Result<store::PlanRequest> read_plan_request(const Query& query) {
  Reader reader(query);
  MC2_ASSIGN(const auto op, read_op(query, reader));
  auto request = store::PlanRequest::usual(op);
  MC2_TRY(read_options(query, reader, request));
  return request;
}

} // namespace

Result<PlanQuestion> read_plan_question(const Query& query) {
  MC2_ASSIGN(auto request, read_plan_request(query));
  Reader reader(query);
  reader.read("runner_up_count", request.options.runner_up_count, 0, planner::kMaxRunnerUpCount);
  const auto imbalance = reader.take(query.real("imbalance"));
  if (reader.error()) return *reader.error();
  if (imbalance) {
    MC2_ASSIGN(auto routed, planner::with_imbalance(request.op, *imbalance));
    request.op = routed.op;
    request.options.counts = std::move(routed.counts);
    MC2_TRY(request.options.validate());
  }
  return to_plan_question(query, std::move(request));
}

Result<PlanQuestion> read_ranges_question(const Query& query) {
  MC2_ASSIGN(const auto first_m, query.integer("first_m", 1, planner::kMaxSize));
  if (!first_m) return Error{ErrorCode::InvalidSpec, "first_m", "is missing; m is the last one"};
  MC2_ASSIGN(auto request, read_plan_request(query));
  MC2_ASSIGN(auto question, to_plan_question(query, std::move(request)));
  question.first_m = first_m;
  return question;
}

Result<std::string> read_machine(const Query& query) {
  const std::string text = query.text("machine").value_or("");
  if (text.empty()) return text;
  auto digits = store::read_digest(text, 1);
  return digits ? digits : Error{ErrorCode::InvalidSpec, "machine", digits.error().message};
}

Result<PlanQuestion> to_plan_question(const Query& query, store::PlanRequest request) {
  PlanQuestion question;
  question.request = std::move(request);
  MC2_ASSIGN(question.machine, read_machine(query));
  for (const char* field : {"backend", "device", "link"})
    if (const auto value = query.text(field)) question.machine_fields[field] = *value;
  question.topology = query.text("topology").value_or("");
  if (!question.topology.empty() && !(question.machine.empty() && question.machine_fields.empty()))
    return Error{ErrorCode::InvalidSpec, "topology",
                 "cannot be combined with machine, backend, device or link; give one of them"};
  MC2_ASSIGN(question.epoch, query.integer("epoch", 0, std::numeric_limits<std::int64_t>::max()));
  const std::string transfer = query.text("transfer").value_or("yes");
  if (transfer != "yes" && transfer != "no")
    return Error{ErrorCode::InvalidSpec, "transfer", "is '" + transfer.substr(0, 64) + "'; legal: yes, no"};
  question.may_transfer = transfer == "yes";
  MC2_TRY(query.require_all_known());
  return question;
}

} // namespace mc2::server
