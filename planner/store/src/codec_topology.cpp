#include "codec_parts.hpp"

namespace mc2::store {

template <>
inline constexpr auto kFields<planner::LinkCost> = std::tuple(field("alpha_us", &planner::LinkCost::alpha_us),
                                                              field("gb_per_s", &planner::LinkCost::gb_per_s),
                                                              field("message_us", &planner::LinkCost::message_us));

template <>
inline constexpr auto kFields<planner::Protocol> =
    std::tuple(field("name", &planner::Protocol::name), field("launch_us", &planner::Protocol::launch_us),
               field("intra", &planner::Protocol::intra), field("inter", &planner::Protocol::inter),
               field("reduces_in_switch", &planner::Protocol::reduces_in_switch));

template <>
inline constexpr auto kFields<planner::ComputeRate> = std::tuple(
    field("peak_tflop_per_s_16bit", &planner::ComputeRate::peak_tflop_per_s_16bit),
    field("peak_tflop_per_s_f32", &planner::ComputeRate::peak_tflop_per_s_f32),
    field("efficiency", &planner::ComputeRate::efficiency), field("launch_us", &planner::ComputeRate::launch_us));

template <>
inline constexpr auto kFields<planner::ConstantSpread> =
    std::tuple(field("launch_us", &planner::ConstantSpread::launch_us),
               field("intra_alpha_us", &planner::ConstantSpread::intra_alpha_us),
               field("inter_alpha_us", &planner::ConstantSpread::inter_alpha_us),
               field("intra_gb_per_s", &planner::ConstantSpread::intra_gb_per_s),
               field("inter_gb_per_s", &planner::ConstantSpread::inter_gb_per_s),
               field("inter_message_us", &planner::ConstantSpread::inter_message_us));

namespace {

/// An object with the algorithms that the communication library has for each collective.
struct OfferedAlgorithms {
  using Offered = std::map<planner::Collective, std::vector<planner::Algorithm>>;

  [[nodiscard]] Json write(const Offered& algorithms) const {
    Json result = Json::object();
    for (const auto& [collective, offered] : algorithms)
      result[std::string(to_string(collective))] = write_value(offered, CutAxis::Rows);
    return result;
  }
  void read(const Node& node, Offered& algorithms) const {
    const Fields fields(node, {}, {"all_gather", "all_reduce", "all_to_all", "reduce_scatter"});
    if (!node.is_ok()) return;
    for (const auto& [key, names] : node.json().items())
      read_value(fields[key], algorithms[planner::parse_collective(key).value()], CutAxis::Rows,
                 &planner::parse_algorithm);
  }
};

} // namespace

template <>
inline constexpr auto kFields<planner::Topology> = std::tuple(
    document("topology"), field("name", &planner::Topology::name), field("source", &planner::Topology::source),
    field("sources", &planner::Topology::sources), field("node_count", &planner::Topology::node_count),
    field("ranks_per_node", &planner::Topology::ranks_per_node),
    field("rails_per_node", &planner::Topology::rails_per_node),
    field("transport", &planner::Topology::transport, &planner::parse_transport),
    field("chunk_bytes", &planner::Topology::chunk_bytes), field("protocols", &planner::Topology::protocols),
    field("algorithms", &planner::Topology::algorithms, OfferedAlgorithms{}),
    field("compute", &planner::Topology::compute), field("compute_slowdown", &planner::Topology::compute_slowdown),
    field("communication_slowdown", &planner::Topology::communication_slowdown),
    field_if_set("uncertainty", &planner::Topology::uncertainty),
    field("relative_interval", &planner::Topology::relative_interval),
    field("calibration", &planner::Topology::calibration),
    checked([](const planner::Topology& topology) -> Result<void> { return topology.validate(); }));

std::string encode(const planner::Topology& topology) { return dump(write_described(topology)); }

template <>
planner::Topology read_document(const Node& node) {
  return read_described<planner::Topology>(node);
}

} // namespace mc2::store
