#include "codec_parts.hpp"

namespace mc2::store {
namespace {

/// The legal time of one sample. 0 is refused: a clock that shows no time has measured nothing.
constexpr WholeNumber kSampleNs{1, static_cast<std::int64_t>(planner::kMaxTimeUs* planner::kNsPerUs)};

} // namespace

template <>
inline constexpr auto kFields<planner::Sample> =
    std::tuple(field("component", &planner::Sample::component, &planner::parse_component),
               field("context", &planner::Sample::context, &planner::parse_context),
               field("variant", &planner::Sample::variant, Name{}),
               field(kBlockKey, &planner::Sample::block_rows, WholeNumber{0, planner::kMaxSize}),
               field("block_count", &planner::Sample::block_count, WholeNumber{1, planner::kMaxSize}),
               field("message_bytes", &planner::Sample::message_bytes, at_least(0)),
               field("time_ns", &planner::Sample::time, kSampleNs),
               field("slowest_rank", &planner::Sample::slowest_rank, at_least(0)),
               field("round", &planner::Sample::round, at_least(0)), field("is_outlier", &planner::Sample::is_outlier),
               field_if_set("start_ns", &planner::Sample::start, kSampleNs));

template <>
inline constexpr auto kFields<planner::Profile> = std::tuple(
    document("profile"), field("op", &planner::Profile::op),
    field("fingerprint", &planner::Profile::fingerprint, Texts{}), field("samples", &planner::Profile::samples),
    checked([](const planner::Profile& profile) -> Result<void> { return profile.validate(); }));

std::string encode(const planner::Profile& profile) { return dump(write_described(profile)); }

template <>
planner::Profile read_document(const Node& node) {
  return read_described<planner::Profile>(node);
}

} // namespace mc2::store
