#include "mc2/planner/topology.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

constexpr std::array kAlgorithmNames{Name<Algorithm>{Algorithm::Ring, "ring"}, Name<Algorithm>{Algorithm::Tree, "tree"},
                                     Name<Algorithm>{Algorithm::Direct, "direct"},
                                     Name<Algorithm>{Algorithm::Hierarchical, "hierarchical"},
                                     Name<Algorithm>{Algorithm::SwitchTree, "switch_tree"}};
constexpr std::array kTransportNames{Name<Transport>{Transport::HostProxy, "host_proxy"},
                                     Name<Transport>{Transport::DeviceInitiated, "device_initiated"}};

struct Range {
  double low;
  double high;
};

Result<void> check_range(const std::string& field, double value, Range range) {
  if (value >= range.low && value <= range.high) return {}; // false for NaN, too
  return Error{ErrorCode::InvalidSpec, field,
               "is " + number_text(value) + "; legal: " + number_text(range.low) + " to " + number_text(range.high, 7)};
}

Result<void> validate_link(const LinkCost& link, const std::string& field) {
  MC2_TRY(check_range(field + ".alpha_us", link.alpha_us, {0, kMaxLinkUs}));
  MC2_TRY(check_range(field + ".gb_per_s", link.gb_per_s, {kMinGbPerS, kMaxGbPerS}));
  return check_range(field + ".message_us", link.message_us, {0, kMaxLinkUs});
}

Result<void> validate_protocol(const Protocol& protocol, const std::string& field) {
  if (protocol.name.empty()) return Error{ErrorCode::InvalidSpec, field + ".name", "is empty; name the protocol"};
  MC2_TRY(check_range(field + ".launch_us", protocol.launch_us, {0, kMaxLinkUs}));
  MC2_TRY(validate_link(protocol.intra, field + ".intra"));
  return validate_link(protocol.inter, field + ".inter");
}

Result<void> validate_protocols(const std::vector<Protocol>& protocols) {
  if (protocols.empty() || protocols.size() > kMaxProtocolCount)
    return Error{
        ErrorCode::InvalidSpec, "protocols",
        "has " + std::to_string(protocols.size()) + " entries; legal: 1 to " + std::to_string(kMaxProtocolCount)};
  for (std::size_t i = 0; i < protocols.size(); ++i) {
    const std::string field = "protocols[" + std::to_string(i) + "]";
    MC2_TRY(validate_protocol(protocols[i], field));
    for (std::size_t j = 0; j < i; ++j)
      if (protocols[j].name == protocols[i].name)
        return Error{ErrorCode::InvalidSpec, field + ".name", "is the name of an earlier protocol; names are unique"};
  }
  return {};
}

Result<void> validate_algorithm(const Topology& topology, Collective collective, Algorithm algorithm) {
  const std::string field = "algorithms." + std::string(to_string(collective)), name(to_string(algorithm));
  const auto& offered = topology.algorithms.at(collective);
  if (std::count(offered.begin(), offered.end(), algorithm) > 1)
    return Error{ErrorCode::InvalidSpec, field, "holds " + name + " twice"};
  if (!can_do(algorithm, collective))
    return Error{ErrorCode::InvalidSpec, field,
                 "holds " + name + ", which does no " + std::string(to_string(collective))};
  const bool needs_switch = algorithm == Algorithm::SwitchTree;
  if (std::none_of(topology.protocols.begin(), topology.protocols.end(),
                   [&](const Protocol& protocol) { return protocol.reduces_in_switch == needs_switch; }))
    return Error{ErrorCode::InvalidSpec, field,
                 "holds " + name + ", but no protocol has reduces_in_switch " + (needs_switch ? "true" : "false")};
  return {};
}

Result<void> validate_algorithms(const Topology& topology) {
  if (topology.algorithms.empty())
    return Error{ErrorCode::InvalidSpec, "algorithms", "is empty; name a collective and its algorithms"};
  for (const auto& [collective, offered] : topology.algorithms) {
    if (offered.empty())
      return Error{ErrorCode::InvalidSpec, "algorithms." + std::string(to_string(collective)),
                   "is empty; name at least one algorithm, or leave the collective out"};
    for (const Algorithm algorithm : offered) MC2_TRY(validate_algorithm(topology, collective, algorithm));
  }
  return {};
}

Result<void> validate_compute(const ComputeRate& compute) {
  for (const auto& [field, value] : {std::pair{"compute.peak_tflop_per_s_16bit", compute.peak_tflop_per_s_16bit},
                                     std::pair{"compute.peak_tflop_per_s_f32", compute.peak_tflop_per_s_f32}})
    MC2_TRY(check_range(field, value, {kMinTflopPerS, kMaxTflopPerS}));
  MC2_TRY(check_range("compute.efficiency", compute.efficiency, {kMinEfficiency, 1}));
  return check_range("compute.launch_us", compute.launch_us, {0, kMaxLinkUs});
}

Result<void> validate_uncertainty(const ConstantSpread& uncertainty) {
  for (const ProtocolConstant& constant : kProtocolConstants) {
    std::string key(constant.name);
    std::ranges::replace(key, '.', '_');
    MC2_TRY(check_range("uncertainty." + key, uncertainty.*constant.spread, {0, kMaxConstantSpread}));
  }
  return {};
}

} // namespace

std::string_view to_string(Algorithm algorithm) noexcept { return name_of<Algorithm>(kAlgorithmNames, algorithm); }
Result<Algorithm> parse_algorithm(std::string_view text) {
  return parse_name<Algorithm>(kAlgorithmNames, text, "algorithm");
}
bool can_do(Algorithm algorithm, Collective collective) noexcept {
  switch (algorithm) {
    case Algorithm::Ring: return collective != Collective::AllToAll;
    case Algorithm::Tree:
    case Algorithm::SwitchTree: return collective == Collective::AllReduce;
    case Algorithm::Direct:
    case Algorithm::Hierarchical: return true;
  }
  return false;
}

std::string_view to_string(Transport transport) noexcept { return name_of<Transport>(kTransportNames, transport); }
Result<Transport> parse_transport(std::string_view text) {
  return parse_name<Transport>(kTransportNames, text, "transport");
}

Result<void> Topology::validate() const {
  if (name.empty()) return Error{ErrorCode::InvalidSpec, "name", "is empty; name the cluster"};
  for (const auto& [field, value, most] : {std::tuple{"node_count", node_count, kMaxNodeCount},
                                           std::tuple{"ranks_per_node", ranks_per_node, kMaxRanksPerNode},
                                           std::tuple{"rails_per_node", rails_per_node, kMaxRailsPerNode}})
    MC2_TRY(check_range(field, value, {1, static_cast<double>(most)}));
  MC2_TRY(check_range("chunk_bytes", chunk_bytes, {kMinChunkBytes, kMaxChunkBytes}));
  MC2_TRY(validate_protocols(protocols));
  MC2_TRY(validate_algorithms(*this));
  MC2_TRY(validate_compute(compute));
  MC2_TRY(check_range("compute_slowdown", compute_slowdown, {1, kMaxTopologySlowdown}));
  MC2_TRY(check_range("communication_slowdown", communication_slowdown, {1, kMaxTopologySlowdown}));
  MC2_TRY(validate_uncertainty(uncertainty));
  return check_range("relative_interval", relative_interval, {0, kMaxRelativeInterval});
}

Topology with_scaled(Topology topology, const ProtocolConstant& constant, double factor) {
  const Range legal = constant.is_bandwidth ? Range{kMinGbPerS, kMaxGbPerS} : Range{0, kMaxLinkUs};
  for (Protocol& protocol : topology.protocols) {
    double& value = constant.of(protocol);
    value = std::clamp(value * factor, legal.low, legal.high);
  }
  return topology;
}

} // namespace mc2::planner
