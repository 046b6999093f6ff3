#include <chrono>
#include <utility>

#include "codec_parts.hpp"

namespace mc2::store {
namespace {

using planner::Sample;

constexpr std::int64_t kMaxTimeNs = static_cast<std::int64_t>(planner::kMaxTimeUs * planner::kNsPerUs);

Json write_sample(const Sample& sample, planner::CutAxis axis) {
  return {{"block_count", sample.block_count},
          {std::string(block_key(axis)), sample.block_rows},
          {"component", to_string(sample.component)},
          {"context", to_string(sample.context)},
          {"is_outlier", sample.is_outlier},
          {"message_bytes", sample.message_bytes},
          {"round", sample.round},
          {"slowest_rank", sample.slowest_rank},
          {"time_ns", sample.time.count()},
          {"variant", sample.variant}};
}

Sample read_sample(const Node& node, planner::CutAxis axis) {
  refuse_rows_for_columns(node, axis);
  const Fields fields(node, {"block_count", block_key(axis), "component", "context", "is_outlier", "message_bytes",
                             "round", "slowest_rank", "time_ns", "variant"});
  Sample sample;
  sample.component = fields["component"].name(planner::parse_component);
  sample.context = fields["context"].name(planner::parse_context);
  sample.variant = fields["variant"].name();
  sample.block_rows = fields[block_key(axis)].integer(0, planner::kMaxSize);
  sample.block_count = fields["block_count"].integer(1, planner::kMaxSize);
  sample.message_bytes = fields["message_bytes"].integer(0);
  // A clock that shows no time passing has measured nothing.
  sample.time = std::chrono::nanoseconds(fields["time_ns"].integer(1, kMaxTimeNs));
  sample.slowest_rank = fields["slowest_rank"].small_integer(0);
  sample.round = fields["round"].small_integer(0);
  sample.is_outlier = fields["is_outlier"].boolean();
  return sample;
}

} // namespace

Json write_profile(const planner::Profile& profile) {
  Json samples = Json::array();
  for (const Sample& sample : profile.samples) samples.push_back(write_sample(sample, planner::cut_axis(profile.op)));
  return {{"fingerprint", write_fingerprint(profile.fingerprint)},
          {"op", write_op(profile.op)},
          {"samples", std::move(samples)},
          {"schema", schema_name("profile")}};
}

template <>
planner::Profile read_document<planner::Profile>(const Node& node) {
  check_schema(node, "profile");
  const Fields fields(node, {"fingerprint", "op", "samples", "schema"});
  planner::Profile profile;
  profile.op = read_op(fields["op"]);
  profile.fingerprint = read_fingerprint(fields["fingerprint"]);
  if (!node.is_ok()) return profile;
  const auto axis = planner::cut_axis(profile.op);
  profile.samples = fields["samples"].list([axis](const Node& sample) { return read_sample(sample, axis); });
  return profile;
}

} // namespace mc2::store
