#include "mc2/planner/collective.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "collectives/algorithms.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

struct AlgorithmRow {
  Algorithm algorithm;
  bool needs_switch; ///< uses protocols that reduce in the switch, and no others
  double (*us)(const collectives::Fabric&, Collective, double bytes) noexcept; ///< without the launch
};

/// Every algorithm.
constexpr std::array kAlgorithms{AlgorithmRow{Algorithm::Ring, false, collectives::ring_us},
                                 AlgorithmRow{Algorithm::Tree, false, collectives::tree_us},
                                 AlgorithmRow{Algorithm::Direct, false, collectives::direct_us},
                                 AlgorithmRow{Algorithm::Hierarchical, false, collectives::hierarchical_us},
                                 AlgorithmRow{Algorithm::SwitchTree, true, collectives::switch_tree_us}};

const AlgorithmRow& row_of(Algorithm algorithm) {
  for (const auto& row : kAlgorithms)
    if (row.algorithm == algorithm) return row;
  check_failed("algorithm is registered", __FILE__, __LINE__, "an Algorithm without a row in the table");
}

CollectiveTime fastest_protocol(const Topology& topology, const CollectiveSpec& spec, const AlgorithmRow& row) {
  CollectiveTime best{row.algorithm, {}, std::numeric_limits<double>::infinity()};
  for (const Protocol& protocol : topology.protocols) {
    if (protocol.reduces_in_switch != row.needs_switch) continue;
    const auto fabric = collectives::make_fabric(topology, protocol, spec.world_size);
    const double us = protocol.launch_us + row.us(fabric, spec.collective, spec.message_bytes);
    if (us < best.us) best = {row.algorithm, protocol.name, us};
  }
  return best;
}

} // namespace

Collective collective_of(OpKind kind) { return traits_of(kind).collective; }

bool sums_over_ranks(OpKind kind) { return traits_of(kind).sums(); }

double bus_factor(Collective collective, int world_size) noexcept {
  return collectives::pass_count(collective) * (world_size - 1.0) / world_size;
}

Result<void> CollectiveSpec::validate(const Topology& topology) const {
  if (!(message_bytes >= 0 && message_bytes <= static_cast<double>(kMaxOperandBytes)))
    return Error{ErrorCode::InvalidSpec, "bytes", "is " + number_text(message_bytes) + "; legal: 0 to 2^46 (64 TiB)"};
  const int most = static_cast<int>(
      std::min<std::int64_t>(kMaxWorldSize, std::int64_t{topology.node_count} * topology.ranks_per_node));
  if (world_size < 2 || world_size > most)
    return Error{ErrorCode::InvalidSpec, "ranks",
                 "is " + std::to_string(world_size) + "; legal on " + topology.name + ": 2 to " + std::to_string(most)};
  if (world_size > topology.ranks_per_node && world_size % topology.ranks_per_node != 0)
    return Error{ErrorCode::InvalidSpec, "ranks",
                 "is " + std::to_string(world_size) + "; beyond one node of " + topology.name + " a multiple of " +
                     std::to_string(topology.ranks_per_node) + " is legal"};
  return {};
}

namespace {

/// Errors: as collective_times.
Result<std::vector<Algorithm>> offered_for(const Topology& topology, const CollectiveSpec& spec) {
  if (auto valid = topology.validate(); !valid)
    return Error{valid.error().code, "topology." + valid.error().field, valid.error().message};
  MC2_TRY(spec.validate(topology));
  const auto offered = topology.algorithms.find(spec.collective);
  if (offered == topology.algorithms.end())
    return Error{ErrorCode::Infeasible, "topology.algorithms",
                 "of " + topology.name + " name none for " + std::string(to_string(spec.collective))};
  return offered->second;
}

} // namespace

Result<std::vector<CollectiveTime>> collective_times(const Topology& topology, const CollectiveSpec& spec) {
  MC2_ASSIGN(const auto offered, offered_for(topology, spec));
  std::vector<CollectiveTime> times;
  for (const Algorithm algorithm : offered) times.push_back(fastest_protocol(topology, spec, row_of(algorithm)));
  return times;
}

Result<double> collective_interval(const Topology& topology, const CollectiveSpec& spec, Algorithm algorithm) {
  MC2_ASSIGN(const auto offered, offered_for(topology, spec));
  if (std::ranges::find(offered, algorithm) == offered.end())
    return Error{ErrorCode::Infeasible, "algorithm",
                 topology.name + " does not offer " + std::string(to_string(algorithm)) + " for " +
                     std::string(to_string(spec.collective))};
  const AlgorithmRow& row = row_of(algorithm);
  const double us = fastest_protocol(topology, spec, row).us;
  double half_width = topology.relative_interval;
  for (const ProtocolConstant& constant : kProtocolConstants) {
    const double factor = 1 + topology.uncertainty.*constant.spread;
    const Topology worse = with_scaled(topology, constant, constant.is_bandwidth ? 1 / factor : factor);
    if (us > 0) half_width = std::hypot(half_width, fastest_protocol(worse, spec, row).us / us - 1);
  }
  return std::min(half_width, kMaxRelativeInterval);
}

Result<CollectiveTime> best_collective_time(const Topology& topology, const CollectiveSpec& spec) {
  MC2_ASSIGN(const auto times, collective_times(topology, spec));
  return *std::min_element(times.begin(), times.end(),
                           [](const CollectiveTime& a, const CollectiveTime& b) { return a.us < b.us; });
}

} // namespace mc2::planner
