#pragma once

#include <memory>

#include "backends/mpi/block_layout.hpp"
#include "backends/mpi/rails.hpp"
#include "backends/mpi/variants.hpp"
#include "backends/mpi/waiting.hpp"
#include "backends/mpi/world.hpp"

namespace mc2::executor::mpi {

/// Exchanges blocks between all ranks. Threads: used by the communication lane only.
class Collective {
 public:
  virtual ~Collective() = default;
  /// Completes a block of C, or a block of the gathered rows of A. Calls `pause` while waiting; a blocking collective
  /// never does.
  /// Order: collective, every rank with the same stage. Throws SystemError.
  virtual void exchange(const BlockExchange& block, const Pause& pause) = 0;
};

/// The library's own collectives: MPI_(I)allreduce, MPI_(I)reduce_scatter, MPI_(I)allgather and MPI_(I)alltoallv.
[[nodiscard]] std::unique_ptr<Collective> make_library_collective(const Channel& channel, const MpiVariant& variant,
                                                                  const planner::OpSpec& op);

/// Pieces go round the ring of ranks (ring.hpp), each step one rank to the right. Gathering takes R-1 steps. Reducing
/// takes R-1 steps, too: each rank adds its own part to the part that comes from the left, so that every element is
/// summed once and is equal on all ranks. all_reduce does both on pieces of 1/R of the block (Patarasuk and Yuan,
/// "Bandwidth optimal all-reduce algorithms for clusters of workstations", J. Parallel Distrib. Comput. 69, 2009). Two
/// ranks swap the whole block and each sums it: as many bytes, in one step instead of two. Not for all-to-all kinds.
/// "sliced_ring" cuts long pieces in slices that go round independently.
[[nodiscard]] std::unique_ptr<Collective> make_ring_collective(const RingOrder& order, const MpiVariant& variant,
                                                               const StageList& list);

/// For all-to-all kinds. In step s = 1 ... R-1 rank r sends to rank r + s and receives from rank r - s (modulo R), so
/// each rank receives from one rank at a time.
[[nodiscard]] std::unique_ptr<Collective> make_pairwise_collective(const Channel& channel);

} // namespace mc2::executor::mpi
