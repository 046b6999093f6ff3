#include "mc2/planner/collective.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "collectives/algorithms.hpp"
#include "names.hpp"
#include "text.hpp"

namespace mc2::planner {
namespace {

constexpr std::array kCollectiveNames{
    Name<Collective>{Collective::AllReduce, "all_reduce"}, Name<Collective>{Collective::ReduceScatter, "reduce_scatter"},
    Name<Collective>{Collective::AllGather, "all_gather"}, Name<Collective>{Collective::AllToAll, "all_to_all"}};

struct AlgorithmRow {
  Algorithm algorithm;
  bool (*can_do)(Collective);
  bool needs_switch; ///< uses protocols that reduce in the switch, and no others
  collectives::PhaseCost (*cost)(const collectives::Fabric&, Collective, double bytes) noexcept;
};

bool is_all_reduce(Collective collective) { return collective == Collective::AllReduce; }
bool is_no_all_to_all(Collective collective) { return collective != Collective::AllToAll; }
bool is_any(Collective) { return true; }

/// Every algorithm.
constexpr std::array kAlgorithms{
    AlgorithmRow{Algorithm::Ring, is_no_all_to_all, false, collectives::ring},
    AlgorithmRow{Algorithm::Tree, is_all_reduce, false, collectives::tree},
    AlgorithmRow{Algorithm::Direct, is_any, false, collectives::direct},
    AlgorithmRow{Algorithm::Hierarchical, is_any, false, collectives::hierarchical},
    AlgorithmRow{Algorithm::SwitchTree, is_all_reduce, true, collectives::switch_tree}};

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
    const double us = protocol.launch_us + row.cost(fabric, spec.collective, spec.message_bytes).total_us();
    if (us < best.us) best = {row.algorithm, protocol.name, us};
  }
  return best;
}

} // namespace

std::string_view to_string(Collective collective) noexcept { return name_of<Collective>(kCollectiveNames, collective); }
Result<Collective> parse_collective(std::string_view text) {
  return parse_name<Collective>(kCollectiveNames, text, "collective");
}

Collective collective_of(OpKind kind) {
  switch (kind) {
    case OpKind::MatmulAllReduce: return Collective::AllReduce;
  }
  check_failed("kind is known", __FILE__, __LINE__, "an OpKind without a collective");
}

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

Result<std::vector<CollectiveTime>> collective_times(const Topology& topology, const CollectiveSpec& spec) {
  if (auto valid = topology.validate(); !valid)
    return Error{valid.error().code, "topology." + valid.error().field, valid.error().message};
  if (auto valid = spec.validate(topology); !valid) return valid.error();
  std::vector<CollectiveTime> times;
  for (const Algorithm algorithm : topology.algorithms)
    if (const AlgorithmRow& row = row_of(algorithm); row.can_do(spec.collective))
      times.push_back(fastest_protocol(topology, spec, row));
  if (times.empty())
    return Error{ErrorCode::Infeasible, "algorithms",
                 "of " + topology.name + " hold none that does " + std::string(to_string(spec.collective)) +
                     "; direct and hierarchical do every collective"};
  return times;
}

Result<CollectiveTime> best_collective_time(const Topology& topology, const CollectiveSpec& spec) {
  const auto times = collective_times(topology, spec);
  if (!times) return times.error();
  return *std::min_element(times.value().begin(), times.value().end(),
                           [](const CollectiveTime& a, const CollectiveTime& b) { return a.us < b.us; });
}

} // namespace mc2::planner
