#pragma once

#include <cstddef>
#include <memory>

#include "backends/mpi/collective.hpp"
#include "node/node_heap.hpp"

namespace mc2::executor::mpi {

/// Where a rank's segment of a heap keeps what; offsets in bytes.
struct SegmentLayout {
  std::size_t signals = 0;      ///< shared heaps only, as `sums`
  std::size_t intermediate = 0; ///< what passes between the lanes
  std::size_t spare = 0;        ///< the same for RunMode::Independent
  std::size_t sums = 0;         ///< "two_shot": the rank's part of a block, summed; "hierarchical": the same, in place
  std::size_t staging = 0;      ///< what C takes in another shape; not for "direct", which reads it where it is
  std::size_t byte_count = 0;

  /// Each starts a page of its own.
  SegmentLayout(const StageList& list, const MpiVariant& variant, bool allow_independent);
};

/// Between ranks that have mapped each other's memory. Kinds that compute first pull: a rank announces its product,
/// waits for the others' and reads them where they are, summing in rank order as the host backend does. Kinds that
/// communicate first push: a rank writes its rows of A into the others' memory, announces that and waits for the
/// others; nobody waits before writing, because what is there was read in the run before, and every run starts when
/// all ranks have ended the last.
///   "direct"    one step: all_reduce reads the whole block of every rank, R times its bytes
///   "two_shot"  all_reduce in two: a rank sums 1/R of the block, then reads the others' sums: about twice its bytes
/// Blocks know where the peers' pieces and landings are.
/// @param heap outlives the result, with segments as `layout` says
[[nodiscard]] std::unique_ptr<Collective> make_direct_collective(const node::NodeHeap& heap,
                                                                 const SegmentLayout& layout, const planner::OpSpec& op,
                                                                 const MpiVariant& variant);

} // namespace mc2::executor::mpi
