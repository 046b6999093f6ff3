#include "plan_question.hpp"

#include <utility>

namespace mc2::server {
namespace {

using planner::Error;
using planner::ErrorCode;
using planner::OpSpec;
using planner::Result;

/// Collects the first error, so that the parameters read one below the other.
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
  std::int64_t required(const std::string& name) {
    const auto value = take(query_.integer(name));
    if (!value && !error_) error_ = Error{ErrorCode::InvalidSpec, name, "is missing"};
    return value.value_or(1);
  }
  void read(const std::string& name, std::int64_t& value) { value = take(query_.integer(name)).value_or(value); }
  void read(const std::string& name, int& value) {
    const auto given = take(query_.integer(name));
    if (!given) return;
    if (!std::in_range<int>(*given)) {
      if (!error_) error_ = Error{ErrorCode::InvalidSpec, name, "is " + std::to_string(*given) + ", out of range"};
      return;
    }
    value = static_cast<int>(*given);
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
  reader.read("tables", tables.table_count);
  reader.read("table_rows", tables.row_count);
  const auto pooling = query.text("pooling");
  if (pooling) {
    const auto parsed = planner::parse_pooling(*pooling);
    if (!parsed) return parsed.error();
    tables.pooling = parsed.value();
  }
  const bool is_given = tables.table_count != 0 || tables.row_count != 0 || pooling;
  return is_given ? std::optional(tables) : std::nullopt;
}

Result<OpSpec> read_op(const Query& query, Reader& reader) {
  OpSpec op;
  const auto kind = planner::parse_op_kind(query.text("op").value_or("matmul_all_reduce"));
  if (!kind) return kind.error();
  const auto dtype = planner::parse_dtype(query.text("dtype").value_or("f32"));
  if (!dtype) return dtype.error();
  op.kind = kind.value();
  op.dtype = dtype.value();
  op.m = reader.required("m");
  op.n = reader.required("n");
  op.k = reader.required("k");
  op.world_size = 2;
  reader.read("ranks", op.world_size);
  op.epilogue = {.has_bias = reader.flag("bias"), .has_residual = reader.flag("residual")};
  auto tables = read_tables(query, reader);
  if (!tables) return tables.error();
  op.tables = tables.value();
  if (reader.error()) return *reader.error();
  if (auto legal = op.validate(); !legal) return legal.error();
  return op;
}

/// Errors: as read_plan_question.
Result<void> read_options(const Query& query, Reader& reader, store::PlanRequest& request) {
  planner::PlanOptions& options = request.options;
  request.has_alignment = query.text("alignment").has_value();
  request.has_min_block_rows = query.text("min_block_rows").has_value();
  options.strategy = query.text("strategy").value_or(options.strategy);
  reader.read("alignment", options.alignment);
  reader.read("min_block_rows", options.min_block_rows);
  reader.read("max_block_count", options.max_block_count);
  reader.read("runner_up_count", options.runner_up_count);
  reader.read("objective_quantile", options.objective_quantile);
  options.require_significant_gain = !reader.flag("allow_small_gain");
  if (reader.error()) return *reader.error();
  return options.validate();
}

} // namespace

Result<PlanQuestion> read_plan_question(const Query& query) {
  Reader reader(query);
  const auto op = read_op(query, reader);
  if (!op) return op.error();
  auto request = store::PlanRequest::usual(op.value());
  if (auto read = read_options(query, reader, request); !read) return read.error();
  return to_plan_question(query, std::move(request));
}

Result<PlanQuestion> to_plan_question(const Query& query, store::PlanRequest request) {
  PlanQuestion question;
  question.request = std::move(request);
  question.machine = query.text("machine").value_or("");
  const auto epoch = query.integer("epoch");
  if (!epoch) return epoch.error();
  question.epoch = epoch.value();
  const std::string transfer = query.text("transfer").value_or("yes");
  if (transfer != "yes" && transfer != "no")
    return Error{ErrorCode::InvalidSpec, "transfer", "is '" + transfer.substr(0, 64) + "'; legal: yes, no"};
  question.may_transfer = transfer == "yes";
  if (auto known = query.require_all_known(); !known) return known.error();
  return question;
}

} // namespace mc2::server
