#pragma once

#include <memory>
#include <vector>

#include "backends/mpi/collective.hpp"
#include "backends/mpi/direct_collective.hpp"
#include "backends/mpi/rails.hpp"

namespace mc2::executor::mpi {

/// Inside a node by memory that its ranks share, between nodes by messages, of which there are as few and as short as
/// the result allows. With n nodes, of p ranks each:
///   all_reduce      each rank sums 1/p of the block over its node, then a ring of the n ranks that have the same part
///                   sums those, then all read the parts: a node sends 2 (n - 1)/n of a block
///                   instead of, where ranks go round by node, 2 (np - 1)/(np)
///   reduce_scatter  for each rank of another node one rank here sums its piece over the node and sends it there:
///                   n - 1 pieces reach a rank from other nodes
///   all_gather      a rank sends its rows once to each other node, where one rank passes them on
///   all_to_all      the same messages as "pairwise", all at once, and none inside a node
/// Source of the all-reduce: two-level schemes of MPI libraries, e.g. Karonis et al., "Exploiting hierarchy in parallel
/// computer networks to optimize collective operation performance", IPDPS 2000.
/// @param check_run throws where the run is over
/// @param rails for all_reduce
/// @param heap of this rank's node, with segments as `layout` says; outlives the result, as do the channels
[[nodiscard]] std::unique_ptr<Collective> make_hierarchical_collective(const Channel& channel,
                                                                       const std::vector<Rail>& rails,
                                                                       const node::NodeHeap& heap,
                                                                       const SegmentLayout& layout,
                                                                       const Pause& check_run, const StageList& list);

/// What that allocates beside the heap, at most.
[[nodiscard]] std::int64_t hierarchical_bytes(const StageList& list) noexcept;

} // namespace mc2::executor::mpi
