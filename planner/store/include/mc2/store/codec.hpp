#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/explanation.hpp"
#include "mc2/planner/llm_plan.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/plan_ranges.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/planner/topology.hpp"
#include "mc2/store/store.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// A question to the planner, as a file or request body carries it (schemas/request.schema.json).
struct PlanRequest {
  planner::OpSpec op;
  planner::PlanOptions options;
  bool has_alignment = true;      ///< else the machine's
  bool has_min_block_rows = true; ///< else as long as the alignment
  bool operator==(const PlanRequest&) const = default;

  /// Without a word of how: as the machine has it.
  [[nodiscard]] static PlanRequest usual(planner::OpSpec op) {
    return {.op = std::move(op), .options = {}, .has_alignment = false, .has_min_block_rows = false};
  }
  /// @param alignment the machine's
  [[nodiscard]] planner::PlanOptions options_with(std::int64_t alignment) const;
};

/// Which options are not as in `usual`, by a request's names: "max_block_count=4, objective_quantile=0.9"; empty where
/// all are, and the same text for the same options. How many runners-up are listed is no matter.
[[nodiscard]] std::string unusual_options(planner::PlanOptions options, const planner::PlanOptions& usual);

/// A question and what to answer it from: the body of a what-if.
struct WhatIf {
  PlanRequest request;
  std::optional<planner::CostModel> model; ///< beside a topology: its matmul
  std::optional<planner::Topology> topology;
};

/// Values to JSON and back. encode is canonical: keys sorted, numbers in a short form that reads back to the same
/// bits, no white space, so equal values give equal bytes; `pretty` re-formats a document for people.
/// decode(encode(v)) == v, to the bit, for every v that decode accepts; bytes that are not UTF-8 become U+FFFD. A NaN
/// or infinity has no JSON form: encoding one is a programming mistake and throws std::range_error.
/// Every document carries {"schema": "mc2.<kind>/1"}; schemas/ has the JSON Schemas.
/// decode errors: Malformed naming the JSON path and what was expected; NewerVersion for a schema number above ours;
/// UnknownName for an enum name; InvalidSpec when the value fails its own validate() or blocks do not sum to the cut
/// axis. Depth is limited to 32, documents to 64 MiB, 8 million values and 1 million elements per array; unknown and
/// repeated keys are refused, naming them.
[[nodiscard]] std::string encode(const planner::Plan& plan);
[[nodiscard]] std::string encode(const planner::CostModel& model);
[[nodiscard]] std::string encode(const planner::Profile& profile);
[[nodiscard]] std::string encode(const planner::Fingerprint& fingerprint);
/// A part of other documents: without a schema name of its own.
[[nodiscard]] std::string encode(const planner::OpSpec& op);
[[nodiscard]] std::string encode(const PlanRequest& request);
[[nodiscard]] std::string encode(const MeasurementRecord& record);
[[nodiscard]] std::string encode(const planner::Topology& topology);
[[nodiscard]] std::string encode(const planner::PlanRanges& ranges);
[[nodiscard]] std::string encode(const Changes& changes);
/// A part of the one above: without a schema name of its own.
[[nodiscard]] std::string encode(const Change& change);
/// As schemas/history.schema.json has it.
[[nodiscard]] std::string encode(const std::vector<HistoryPoint>& points);
/// Written for people and programs, never read back: they follow from plans and models.
[[nodiscard]] std::string encode(const planner::Explanation& explanation);
[[nodiscard]] std::string encode(const planner::LlmPlan& plan);
[[nodiscard]] Result<planner::OpSpec> decode_op(std::string_view json);
[[nodiscard]] Result<planner::Plan> decode_plan(std::string_view json);
[[nodiscard]] Result<planner::CostModel> decode_model(std::string_view json);
[[nodiscard]] Result<planner::Profile> decode_profile(std::string_view json);
[[nodiscard]] Result<planner::Fingerprint> decode_fingerprint(std::string_view json);
[[nodiscard]] Result<PlanRequest> decode_request(std::string_view json);
[[nodiscard]] Result<MeasurementRecord> decode_measurement(std::string_view json);
[[nodiscard]] Result<planner::Topology> decode_topology(std::string_view json);
[[nodiscard]] Result<planner::PlanRanges> decode_plan_ranges(std::string_view json);
[[nodiscard]] Result<Changes> decode_changes(std::string_view json);
/// Bodies of requests to the service, whose "schema" may be left out (schemas/openapi.yaml).
[[nodiscard]] Result<WhatIf> decode_what_if(std::string_view json);
/// Every request of a batch is read by itself, so that one that is wrong does not spoil the others.
[[nodiscard]] Result<std::vector<Result<PlanRequest>>> decode_batch(std::string_view json);

/// Two-space indented form of a canonical document, with a final newline.
[[nodiscard]] std::string pretty(std::string_view json);

/// SHA-256 of the bytes, as 64 lower-case hexadecimal digits.
[[nodiscard]] std::string digest(std::string_view bytes);
/// A digest or its first 6 to 63 digits as a person may write them, in lower case. Errors: InvalidSpec.
[[nodiscard]] Result<std::string> read_digest(std::string_view text);

} // namespace mc2::store

#pragma GCC visibility pop
