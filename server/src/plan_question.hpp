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

/// A whole model that is asked for.
struct LlmAsked {
  finder::LlmQuestion question; ///< but for the machine
  std::string sizes;            ///< tells models of one name apart
};

/// What a plan query asks.
struct PlanQuestion {
  store::PlanRequest request;
  std::string machine; ///< digest of a fingerprint, or a prefix; empty: the only one there is, or that has the operator
  std::map<std::string, std::string> machine_fields; ///< values that its fingerprint has, in any case of letters
  std::string topology;                              ///< name of a published cluster instead of a machine
  std::optional<std::int64_t> epoch;                 ///< of an answer that another rank has got
  bool may_transfer = true;                          ///< whether a model of another n and k may answer
  /// Of a range of m that ends with the operator's, whose plans are asked for; unset: its own plan.
  std::optional<std::int64_t> first_m = std::nullopt;
  /// Of all layers of a model, of which the operator is one; unset: of the operator.
  std::optional<LlmAsked> llm = std::nullopt;
};

/// Reads the parameters of a GET: op, m, n, k, dtype, ranks, bias, residual, norm, experts_per_rank, experts,
/// top_k, tables, table_rows, pooling; imbalance, strategy, alignment, min_block_rows, max_block_count,
/// runner_up_count, objective_quantile, allow_small_gain; machine, or its backend, device, link, or a topology; epoch,
/// transfer. Errors: InvalidSpec, UnknownName, naming the parameter.
[[nodiscard]] Result<PlanQuestion> read_plan_question(const Query& query);

/// The parameters of a GET of ranges: as above, with first_m beside m, the last one.
[[nodiscard]] Result<PlanQuestion> read_ranges_question(const Query& query);

/// As read_plan_question(), the request from a document; the machine, epoch and transfer are parameters.
[[nodiscard]] Result<PlanQuestion> to_plan_question(const Query& query, store::PlanRequest request);

} // namespace mc2::server
