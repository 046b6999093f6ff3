#include "codec_parts.hpp"

namespace mc2::store {
namespace {

using planner::ComputeRate;
using planner::LinkCost;
using planner::Protocol;
using planner::Topology;

Json write_link(const LinkCost& link) {
  return {{"alpha_us", finite(link.alpha_us)},
          {"gb_per_s", finite(link.gb_per_s)},
          {"message_us", finite(link.message_us)}};
}

LinkCost read_link(const Node& node) {
  const Fields fields(node, {"alpha_us", "gb_per_s", "message_us"});
  return {fields["alpha_us"].number(), fields["gb_per_s"].number(), fields["message_us"].number()};
}

Json write_protocol(const Protocol& protocol) {
  return {{"inter", write_link(protocol.inter)},
          {"intra", write_link(protocol.intra)},
          {"launch_us", finite(protocol.launch_us)},
          {"name", protocol.name},
          {"reduces_in_switch", protocol.reduces_in_switch}};
}

Protocol read_protocol(const Node& node) {
  const Fields fields(node, {"inter", "intra", "launch_us", "name", "reduces_in_switch"});
  return {fields["name"].text(), fields["launch_us"].number(), read_link(fields["intra"]), read_link(fields["inter"]),
          fields["reduces_in_switch"].boolean()};
}

Json write_compute(const ComputeRate& compute) {
  return {{"efficiency", finite(compute.efficiency)},
          {"launch_us", finite(compute.launch_us)},
          {"peak_tflop_per_s_16bit", finite(compute.peak_tflop_per_s_16bit)},
          {"peak_tflop_per_s_f32", finite(compute.peak_tflop_per_s_f32)}};
}

ComputeRate read_compute(const Node& node) {
  const Fields fields(node, {"efficiency", "launch_us", "peak_tflop_per_s_16bit", "peak_tflop_per_s_f32"});
  return {fields["peak_tflop_per_s_16bit"].number(), fields["peak_tflop_per_s_f32"].number(),
          fields["efficiency"].number(), fields["launch_us"].number()};
}

Json write_algorithms(const Topology& topology) {
  Json result = Json::object();
  for (const auto& [collective, offered] : topology.algorithms) {
    Json names = Json::array();
    for (const auto algorithm : offered) names.push_back(to_string(algorithm));
    result[std::string(to_string(collective))] = std::move(names);
  }
  return result;
}

void read_algorithms(const Node& node, Topology& topology) {
  const Fields fields(node, {}, {"all_gather", "all_reduce", "all_to_all", "reduce_scatter"});
  if (!node.is_ok()) return;
  for (const auto& [key, names] : node.json().items())
    topology.algorithms[planner::parse_collective(key).value()] =
        fields[key].list([](const Node& name) { return name.name(planner::parse_algorithm); });
}

Json write_topology(const Topology& topology) {
  Json protocols = Json::array();
  for (const auto& protocol : topology.protocols) protocols.push_back(write_protocol(protocol));
  return {{"algorithms", write_algorithms(topology)},
          {"calibration", topology.calibration},
          {"chunk_bytes", finite(topology.chunk_bytes)},
          {"communication_slowdown", finite(topology.communication_slowdown)},
          {"compute", write_compute(topology.compute)},
          {"compute_slowdown", finite(topology.compute_slowdown)},
          {"name", topology.name},
          {"node_count", topology.node_count},
          {"protocols", std::move(protocols)},
          {"rails_per_node", topology.rails_per_node},
          {"ranks_per_node", topology.ranks_per_node},
          {"relative_interval", finite(topology.relative_interval)},
          {"schema", schema_name("topology")},
          {"source", topology.source},
          {"sources", topology.sources},
          {"transport", to_string(topology.transport)}};
}

/// The cluster as a whole: how many of what, and how they are driven.
void read_shape(const Fields& fields, Topology& topology) {
  topology.node_count = fields["node_count"].small_integer();
  topology.ranks_per_node = fields["ranks_per_node"].small_integer();
  topology.rails_per_node = fields["rails_per_node"].small_integer();
  topology.transport = fields["transport"].name(planner::parse_transport);
  topology.chunk_bytes = fields["chunk_bytes"].number();
  topology.protocols = fields["protocols"].list(read_protocol);
  read_algorithms(fields["algorithms"], topology);
}

} // namespace

std::string encode(const planner::Topology& topology) { return dump(write_topology(topology)); }

template <>
Topology read_document<Topology>(const Node& node) {
  check_schema(node, "topology");
  const Fields fields(node, {"algorithms", "calibration", "chunk_bytes", "communication_slowdown", "compute",
                             "compute_slowdown", "name", "node_count", "protocols", "rails_per_node", "ranks_per_node",
                             "relative_interval", "schema", "source", "sources", "transport"});
  Topology topology;
  topology.name = fields["name"].text();
  topology.source = fields["source"].text();
  topology.sources = read_texts(fields["sources"]);
  read_shape(fields, topology);
  topology.compute = read_compute(fields["compute"]);
  topology.compute_slowdown = fields["compute_slowdown"].number();
  topology.communication_slowdown = fields["communication_slowdown"].number();
  topology.relative_interval = fields["relative_interval"].number();
  topology.calibration = fields["calibration"].text();
  if (node.is_ok()) node.check(topology.validate());
  return topology;
}

} // namespace mc2::store
