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
  bool has_alignment = true;      ///< false: the machine's alignment holds
  bool has_min_block_rows = true; ///< false: the least length is the alignment
  /// Whether a max_block_count that is PlanOptions' own holds; else the machine's does. Documents cannot say so:
  /// earlier clients write PlanOptions' own into every request.
  bool has_max_block_count = false;
  bool operator==(const PlanRequest&) const = default;

  /// A request that names no options: those of the machine hold.
  [[nodiscard]] static PlanRequest usual(planner::OpSpec op) {
    return {.op = std::move(op), .options = {}, .has_alignment = false, .has_min_block_rows = false};
  }
  /// The options, with the machine's own where the request leaves them open.
  /// @param usual  the machine's options (planner::default_options_on)
  [[nodiscard]] planner::PlanOptions options_with(const planner::PlanOptions& usual) const;
};

/// The options that differ from `usual`, by their names in a request: "max_block_count=4, objective_quantile=0.9".
/// Empty if none differs. Equal options give equal texts. The number of runners-up to list is not compared.
[[nodiscard]] std::string unusual_options(planner::PlanOptions options, const planner::PlanOptions& usual);

/// The options that a text of unusual_options() says, with the others from `usual`. Errors: Malformed, UnknownName and
/// InvalidSpec, naming the option.
[[nodiscard]] Result<planner::PlanOptions> read_unusual_options(std::string_view text,
                                                                const planner::PlanOptions& usual);

/// The body of a what-if request: a question and the costs to answer it from.
struct WhatIf {
  PlanRequest request;
  std::optional<planner::CostModel> model; ///< with a topology, only its matmul is used
  std::optional<planner::Topology> topology;
};

/// The top-level "schema" of a JSON document, e.g. "mc2.plan/1"; empty where it has none, or breaks before it.
[[nodiscard]] std::string schema_of(std::string_view document);

/// Values to JSON and back. encode() is canonical: sorted keys, numbers in a short form that reads back to the same
/// bits, no white space. So equal values give equal bytes. pretty() formats a document for people.
/// decode(encode(v)) == v, to the bit, for every v that decode accepts. Bytes that are not UTF-8 become U+FFFD. A NaN
/// or infinity has no JSON form: to encode one is a programming mistake and throws std::range_error.
/// Every document has a member "schema": "mc2.<kind>/1"; the JSON Schemas are in schemas/.
/// Errors of decode: Malformed, naming the JSON path and what was expected, also for unknown and repeated keys and
/// beyond the limits; NewerVersion for a schema number above ours; UnknownName for an unknown enum name; InvalidSpec if
/// the value fails its own validate() or the blocks do not sum to the cut axis. Limits: depth 32, documents of 64 MiB,
/// 8 million values, 1 million elements per array.
[[nodiscard]] std::string encode(const planner::Plan& plan);
[[nodiscard]] std::string encode(const planner::CostModel& model);
[[nodiscard]] std::string encode(const planner::Profile& profile);
[[nodiscard]] std::string encode(const planner::Fingerprint& fingerprint);
/// An operator is part of other documents, so it has no "schema" member.
[[nodiscard]] std::string encode(const planner::OpSpec& op);
[[nodiscard]] std::string encode(const PlanRequest& request);
[[nodiscard]] std::string encode(const MeasurementRecord& record);
[[nodiscard]] std::string encode(const planner::Topology& topology);
[[nodiscard]] std::string encode(const planner::PlanRanges& ranges);
[[nodiscard]] std::string encode(const Changes& changes);
/// A change is part of a document of Changes, so it has no "schema" member.
[[nodiscard]] std::string encode(const Change& change);
/// The document of schemas/history.schema.json.
[[nodiscard]] std::string encode(const std::vector<HistoryPoint>& points);
/// For people and other programs. mc2 does not read the next two back, since they follow from plans and models.
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
/// The next two read bodies of requests to the service, where "schema" may be left out (schemas/openapi.yaml).
[[nodiscard]] Result<WhatIf> decode_what_if(std::string_view json);
/// Reads each request of a batch by itself: a wrong request is an error in the list, and the others are still read.
[[nodiscard]] Result<std::vector<Result<PlanRequest>>> decode_batch(std::string_view json);

/// Checks that a text is JSON without a key that is there twice, as all of the above do. Errors: Malformed with line
/// and column, or the place of the key.
[[nodiscard]] Result<void> require_json(std::string_view text);
/// A canonical document, indented by two spaces, with a final newline.
[[nodiscard]] std::string pretty(std::string_view json);

/// SHA-256 of the bytes, as 64 lower-case hexadecimal digits.
[[nodiscard]] std::string digest(std::string_view bytes);
/// digest() of Fingerprint::canonical_text(): the name of a machine in keys and on the wire.
[[nodiscard]] std::string digest(const planner::Fingerprint& fingerprint);
/// Reads a digest, or its first digits, as people write them; returns it in lower case. Errors: InvalidSpec.
[[nodiscard]] Result<std::string> read_digest(std::string_view text, std::size_t fewest_digits = 6);

} // namespace mc2::store

#pragma GCC visibility pop
