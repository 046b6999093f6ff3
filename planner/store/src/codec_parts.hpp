#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "document_fields.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"

/// The parts that several documents share, and the documents that are parts of other documents.
namespace mc2::store {

inline constexpr WholeNumber kSize{1, planner::kMaxSize}, kCount{0, planner::kMaxSize};

template <>
inline constexpr auto kFields<planner::EmbeddingTables> =
    std::tuple(field("count", &planner::EmbeddingTables::table_count, kSize),
               field("row_count", &planner::EmbeddingTables::row_count, kSize),
               field("pooling", &planner::EmbeddingTables::pooling, &planner::parse_pooling));

template <>
inline constexpr auto kFields<planner::ChosenExperts> =
    std::tuple(field("count", &planner::ChosenExperts::count, kSize),
               field("top_k", &planner::ChosenExperts::top_k, WholeNumber{1, planner::kMaxTopK}));

/// The optional fields of an operator. Most operators have none of them.
inline constexpr auto kOpOptionFields =
    std::tuple(field_if_set("epilogue", &planner::OpSpec::epilogue, &planner::parse_epilogue),
               field_if_set("experts_per_rank", &planner::OpSpec::experts_per_rank, kSize),
               field("experts", &planner::OpSpec::experts), field("tables", &planner::OpSpec::tables));

[[nodiscard]] Result<void> check_operator(const planner::OpSpec& op);

template <>
inline constexpr auto kFields<planner::OpSpec> = std::tuple_cat(
    std::tuple(field("kind", &planner::OpSpec::kind, &planner::parse_op_kind), field("m", &planner::OpSpec::m),
               field("n", &planner::OpSpec::n), field("k", &planner::OpSpec::k),
               field("dtype", &planner::OpSpec::dtype, &planner::parse_dtype),
               field("world_size", &planner::OpSpec::world_size)),
    kOpOptionFields, std::tuple(checked(&check_operator)));

template <>
inline constexpr auto kFields<planner::Variant> = std::tuple(field("name", &planner::Variant::name, Name{}),
                                                             field("fields", &planner::Variant::fields));

template <>
inline constexpr auto kFields<planner::Cut> = std::tuple(field(kBlockKey, &planner::Cut::block_rows, kSize));

/// A fingerprint as part of another document: its fields alone. kFields<Fingerprint> is the document of its own.
struct Texts {
  [[nodiscard]] Json write(const planner::Fingerprint& fingerprint) const { return fingerprint.fields; }
  void read(const Node& node, planner::Fingerprint& fingerprint) const { fingerprint.fields = read_texts(node); }
};

template <>
inline constexpr auto kFields<planner::Span> = std::tuple(field("start_us", &planner::Span::start_us),
                                                          field("end_us", &planner::Span::end_us));

template <>
inline constexpr auto kFields<planner::Timeline> = std::tuple(field("first", &planner::Timeline::first),
                                                              field("second", &planner::Timeline::second),
                                                              field("makespan_us", &planner::Timeline::makespan_us),
                                                              field("overlap_us", &planner::Timeline::overlap_us));

/// planner::validate_cut, whose errors get the key of the blocks in a document as their field.
[[nodiscard]] Result<void> check_cut(const planner::Cut& cut, const planner::OpSpec& op);

/// Checks a plan's cut, and the plan by Plan::validate.
[[nodiscard]] Result<void> check_plan(const planner::Plan& plan);

/// Reads a whole document; checks "schema" first. Documents that only one file reads are declared there.
template <typename T>
[[nodiscard]] T read_document(const Node& node);
template <>
planner::Plan read_document(const Node& node);
template <>
planner::CostModel read_document(const Node& node);
template <>
planner::Profile read_document(const Node& node);
template <>
planner::Fingerprint read_document(const Node& node);
template <>
planner::Topology read_document(const Node& node);
template <>
MeasurementRecord read_document(const Node& node);
[[nodiscard]] Json write_plan(const planner::Plan& plan);

/// The canonical text of a JSON value.
[[nodiscard]] std::string dump(const Json& json);

/// Must be called before any other function of libsodium. Calls after the first do nothing.
void initialise_sodium();
/// Lower-case hexadecimal digits.
[[nodiscard]] std::string to_hex(std::span<const std::uint8_t> bytes);

/// Parses and reads a whole document. Errors: as decode_plan in codec.hpp.
template <typename T>
[[nodiscard]] Result<T> decode_document(std::string_view text) {
  MC2_ASSIGN(const auto json, parse_json(text));
  ReadStatus status;
  T value = read_document<T>(Node(json, status));
  if (status.error) return *status.error;
  return value;
}

} // namespace mc2::store
