#pragma once

#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/topology.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// The collective of an operator kind.
[[nodiscard]] Collective collective_of(OpKind kind);

/// Whether the collective adds up what the ranks bring (all-reduce, reduce-scatter) instead of only moving it.
[[nodiscard]] bool sums_over_ranks(OpKind kind);

/// busbw / algbw as nccl-tests defines it: 2 (n - 1) / n for all-reduce, (n - 1) / n for the other three.
[[nodiscard]] double bus_factor(Collective collective, int world_size) noexcept;

/// One collective over ranks that fill whole nodes (or part of one node).
struct CollectiveSpec {
  Collective collective = Collective::AllReduce;
  double message_bytes = 0; ///< of the full array, as in nccl-tests
  int world_size = 0;

  /// Errors: InvalidSpec for bytes that are not finite and >= 0 or above kMaxOperandBytes, ranks outside
  /// 2..kMaxWorldSize or beyond the topology, or ranks that exceed one node and are no multiple of ranks_per_node.
  [[nodiscard]] Result<void> validate(const Topology& topology) const;
};

/// Time of one algorithm with the protocol that is fastest at the size.
struct CollectiveTime {
  Algorithm algorithm = Algorithm::Ring;
  std::string_view protocol; ///< points into the topology that was passed, and is valid as long as that
  double us = 0;
};

/// Time of a collective by every algorithm that the topology offers for it, in the topology's order.
/// Pure alpha-beta sums: no load imbalance, no other traffic, links full duplex. Monotone: never slower when a latency
/// or message time falls or a bandwidth grows, never faster when the message grows.
/// Formulas and their sources: docs/cost_model.md, "Collectives at scale".
/// Errors: InvalidSpec (topology or spec), Infeasible when the topology offers none for this collective.
[[nodiscard]] Result<std::vector<CollectiveTime>> collective_times(const Topology& topology,
                                                                   const CollectiveSpec& spec);

/// Half-width of the 90 % interval of an algorithm's time, relative to that time. For each constant it takes how much
/// longer the algorithm runs when that constant alone is worse by its spread (Topology::uncertainty). These errors and
/// Topology::relative_interval count as independent and are added as squares. At most kMaxRelativeInterval.
/// Errors: as collective_times, and Infeasible for an algorithm that the topology does not offer for the collective.
[[nodiscard]] Result<double> collective_interval(const Topology& topology, const CollectiveSpec& spec,
                                                 Algorithm algorithm);

/// The fastest of collective_times(); of equal times, the first in the topology's order. Errors: as collective_times.
[[nodiscard]] Result<CollectiveTime> best_collective_time(const Topology& topology, const CollectiveSpec& spec);

} // namespace mc2::planner

#pragma GCC visibility pop
