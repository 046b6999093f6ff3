#pragma once

#include <memory>
#include <vector>

#include "backends/mpi/collective.hpp"
#include "backends/mpi/direct_collective.hpp"
#include "backends/mpi/rails.hpp"

namespace mc2::executor::mpi {

/// Ranks of one node exchange data through shared memory; nodes exchange messages, as few and as short as the result
/// allows. With n nodes of p ranks each:
///   all_reduce      each rank sums 1/p of the block over its node; then the n ranks that have the same part sum it in
///                   a ring; then all ranks read all parts. A node sends 2 (n - 1)/n of a block; in a ring through all
///                   ranks, node by node, it would send 2 (np - 1)/(np)
///   reduce_scatter  for each rank of another node, one rank of this node sums that rank's piece over this node and
///                   sends the sum: n - 1 pieces reach a rank from other nodes
///   all_gather      a rank sends its rows once to each other node, where one rank passes them on
///   all_to_all      the same messages as "pairwise", but all at once and none inside a node
/// Source of the all-reduce: two-level schemes of MPI libraries, e.g. Karonis et al., "Exploiting hierarchy in parallel
/// computer networks to optimize collective operation performance", IPDPS 2000.
/// @param check_run throws when the run is over
/// @param rails for all_reduce
/// @param heap the heap of this rank's node, with segments as `layout` says; heap and channels outlive the result
[[nodiscard]] std::unique_ptr<Collective> make_hierarchical_collective(const Channel& channel,
                                                                       const std::vector<Rail>& rails,
                                                                       const node::NodeHeap& heap,
                                                                       const SegmentLayout& layout,
                                                                       const Pause& check_run, const StageList& list);

/// Most bytes that make_hierarchical_collective() allocates beside the heap.
[[nodiscard]] std::int64_t hierarchical_bytes(const StageList& list) noexcept;

} // namespace mc2::executor::mpi
