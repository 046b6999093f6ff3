#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "http/target.hpp"
#include "mc2/finder/plan_llm.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::server {

/// A question about a whole large language model.
struct LlmAsked {
  finder::LlmQuestion question; ///< its member `plan` (the machine) is set when it is answered
  std::string sizes;            ///< the model's name or its digest: tells models of one name apart
};

/// What a request for a plan asks.
struct PlanQuestion {
  store::PlanRequest request;
  std::string machine; ///< digest, or a prefix; empty: the only machine, or the only one with the operator
  std::map<std::string, std::string> machine_fields; ///< values of its fingerprint; case is ignored
  std::string topology;                              ///< name of a published cluster, in place of a machine
  std::optional<std::int64_t> epoch;                 ///< of the answer that another rank got
  bool may_transfer = true;                          ///< a model of another n and k may answer
  /// First m of a range that ends with the operator's m: asks for the plans of all m in it. Unset: for one plan.
  std::optional<std::int64_t> first_m = std::nullopt;
  /// Asks for the plans of all layers of a model; the operator is one of them. Unset: for the operator alone.
  std::optional<LlmAsked> llm = std::nullopt;
};

/// Reads the parameters of a GET: op, m, n, k, dtype, ranks, bias, residual, norm, experts_per_rank, experts, top_k,
/// tables, table_rows, pooling; imbalance, strategy, alignment, min_block_rows, max_block_count, runner_up_count,
/// objective_quantile, allow_small_gain, contention, block_overhead_us; machine, or its backend, device, link, or a
/// topology; epoch, transfer. Errors: InvalidSpec, UnknownName, naming the parameter.
[[nodiscard]] Result<PlanQuestion> read_plan_question(const Query& query);

/// Reads the parameters of a GET of ranges: first_m, and those of read_plan_question(), where m is the last m, without
/// imbalance and runner_up_count, which hold for one m. Errors: as read_plan_question.
[[nodiscard]] Result<PlanQuestion> read_ranges_question(const Query& query);

/// The digits of the parameter machine, in lower case; empty where it is left out. Errors: InvalidSpec naming it.
[[nodiscard]] Result<std::string> read_machine(const Query& query);

/// Adds to a request the parameters that say the machine or topology, epoch and transfer. Errors: InvalidSpec naming
/// the parameter, also for one that nobody has read.
[[nodiscard]] Result<PlanQuestion> to_plan_question(const Query& query, store::PlanRequest request);

} // namespace mc2::server
