#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "json_reader.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"

/// The pieces that documents share: write_* makes the JSON of a value, read_* the value of a JSON node.
namespace mc2::store {

/// The value itself; a NaN or infinity has no JSON form, and the planner makes none.
[[nodiscard]] double finite(double value);

/// What an operator has beside kind, sizes, type and ranks; an empty object for most. Part of write_op's object.
[[nodiscard]] Json write_op_options(const planner::OpSpec& op);
inline const std::initializer_list<std::string_view> kOpOptionKeys{"epilogue", "tables"};
void read_op_options(const Fields& fields, planner::OpSpec& op);
[[nodiscard]] Json write_op(const planner::OpSpec& op);
[[nodiscard]] planner::OpSpec read_op(const Node& node);
[[nodiscard]] std::map<std::string, std::string> read_texts(const Node& node);
[[nodiscard]] Json write_fingerprint(const planner::Fingerprint& fingerprint);
[[nodiscard]] planner::Fingerprint read_fingerprint(const Node& node);
[[nodiscard]] Json write_variant(const planner::Variant& variant);
[[nodiscard]] planner::Variant read_variant(const Node& node);
/// The key of block lengths: "block_rows" or "block_columns".
[[nodiscard]] std::string_view block_key(planner::CutAxis axis) noexcept;
/// Fails as Stale where an object counts rows although its blocks are columns: an earlier mc2 wrote it.
void refuse_rows_for_columns(const Node& node, planner::CutAxis axis);
[[nodiscard]] Json write_cut(const planner::Cut& cut, planner::CutAxis axis);
/// Blocks positive.
[[nodiscard]] planner::Cut read_cut(const Node& node, planner::CutAxis axis);
/// Blocks positive, and summing to the operator's cut axis.
[[nodiscard]] planner::Cut read_cut(const Node& node, const planner::OpSpec& op);
[[nodiscard]] Json write_timeline(const planner::Timeline& timeline);

/// Whole documents, "schema" included. `read_document` checks the schema name before anything else.
[[nodiscard]] Json write_plan(const planner::Plan& plan);
[[nodiscard]] Json write_model(const planner::CostModel& model);
[[nodiscard]] Json write_profile(const planner::Profile& profile);
[[nodiscard]] Json write_measurement(const MeasurementRecord& record);

template <typename T>
[[nodiscard]] T read_document(const Node& node);
template <>
planner::Plan read_document<planner::Plan>(const Node& node);
template <>
planner::CostModel read_document<planner::CostModel>(const Node& node);
template <>
planner::Profile read_document<planner::Profile>(const Node& node);
template <>
planner::Fingerprint read_document<planner::Fingerprint>(const Node& node);
template <>
PlanRequest read_document<PlanRequest>(const Node& node);
template <>
WhatIf read_document<WhatIf>(const Node& node);
template <>
planner::Topology read_document<planner::Topology>(const Node& node);
template <>
MeasurementRecord read_document<MeasurementRecord>(const Node& node);

/// Errors: NewerVersion when the number in "mc2.<kind>/<number>" is above 1, Malformed for another kind or none.
void check_schema(const Node& node, std::string_view kind);
/// "mc2.<kind>/1".
[[nodiscard]] std::string schema_name(std::string_view kind);

/// Canonical bytes.
[[nodiscard]] std::string dump(const Json& json);

/// Errors: as decode_plan in codec.hpp.
template <typename T>
[[nodiscard]] Result<T> decode_document(std::string_view text) {
  MC2_ASSIGN(const auto json, parse_json(text));
  ReadStatus status;
  T value = read_document<T>(Node(json, status));
  if (status.error) return *status.error;
  return value;
}

} // namespace mc2::store
