#pragma once

#include <cstddef>
#include <memory>

#include "backends/mpi/collective.hpp"
#include "node/node_heap.hpp"

namespace mc2::executor::mpi {

/// The layout of a rank's segment of a heap; offsets in bytes.
struct SegmentLayout {
  std::size_t signals = 0;      ///< shared heaps only, like `sums`
  std::size_t intermediate = 0; ///< memory between the lanes
  std::size_t spare = 0;        ///< second memory of that kind, for RunMode::Independent
  std::size_t sums = 0;    ///< "two_shot": the rank's part of a block, summed; "hierarchical": a whole block of sums
  std::size_t staging = 0; ///< data whose layout in C differs; unused by "direct", which reads it in place
  std::size_t byte_count = 0;

  /// Each part starts on a page of its own.
  SegmentLayout(const StageList& list, const MpiVariant& variant, bool allow_independent);
};

/// A collective of ranks that have mapped each other's memory. In kinds that compute first ranks pull: a rank announces
/// its product, waits for the others' announcements and reads their products in place, summing in rank order as the
/// host backend does. In kinds that communicate first ranks push: a rank writes its rows of A into the others' memory,
/// announces that and waits for the others. No rank waits before it writes, because every run starts after all ranks
/// have ended the run before, in which they have read what the memory held.
///   "direct"    one step: in an all_reduce a rank reads the whole block of every rank, R times its bytes
///   "two_shot"  all_reduce in two steps: a rank sums 1/R of the block, then reads the others' sums: about 2 blocks
/// The block says where the peers' pieces and landings are.
/// @param heap outlives the result; its segments are laid out as `layout` says
[[nodiscard]] std::unique_ptr<Collective> make_direct_collective(const node::NodeHeap& heap,
                                                                 const SegmentLayout& layout, const planner::OpSpec& op,
                                                                 const MpiVariant& variant);

} // namespace mc2::executor::mpi
