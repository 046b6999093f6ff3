#pragma once

#include <memory>

#include "backends/mpi/block_layout.hpp"
#include "backends/mpi/rails.hpp"
#include "backends/mpi/variants.hpp"
#include "backends/mpi/waiting.hpp"
#include "backends/mpi/world.hpp"

namespace mc2::executor::mpi {

/// Exchanges blocks between all ranks. Used by the communication lane's thread only.
class Collective {
 public:
  virtual ~Collective() = default;
  /// Completes the block of C, or of the rows of A that are brought together.
  /// Order: collective, every rank with the same stage. A blocking collective never calls `pause`. Throws SystemError.
  virtual void exchange(const BlockExchange& block, const Pause& pause) = 0;
};

/// MPI_(I)allreduce, MPI_(I)reduce_scatter, MPI_(I)allgather and MPI_(I)alltoallv.
[[nodiscard]] std::unique_ptr<Collective> make_library_collective(const Channel& channel, const MpiVariant& variant,
                                                                  const planner::OpSpec& op);

/// Pieces go round the ring of ranks (ring.hpp), each step one to the right. Gathering takes R-1 steps; reducing too,
/// each rank adding its own part to what comes from the left, so that every element is summed once and is the same on
/// all ranks; all_reduce is both, on pieces of 1/R of the block (Patarasuk and Yuan, "Bandwidth optimal all-reduce
/// algorithms for clusters of workstations", J. Parallel Distrib. Comput. 69, 2009). Two ranks swap the whole block and
/// add it up each, as many bytes in one step instead of two. Not for all-to-all kinds.
/// "sliced_ring" cuts long pieces in slices that go round by themselves.
[[nodiscard]] std::unique_ptr<Collective> make_ring_collective(const RingOrder& order, const MpiVariant& variant,
                                                               const StageList& list);

/// For all-to-all kinds: in step s of R-1, rank r sends to r + s and receives from r - s, so that at every moment each
/// rank hears from one other.
[[nodiscard]] std::unique_ptr<Collective> make_pairwise_collective(const Channel& channel);

} // namespace mc2::executor::mpi
