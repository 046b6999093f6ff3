#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backends/mpi/block_layout.hpp"
#include "backends/mpi/variants.hpp"
#include "backends/mpi/world.hpp"

namespace mc2::executor::mpi {

/// Exchanges blocks of f32 between all ranks. Used by the communication lane's thread only.
class Collective {
 public:
  virtual ~Collective() = default;
  /// Order: collective, every rank with the same kind and counts. `keep_waiting` is called now and then and throws to
  /// give up, after which the job has to be aborted; a blocking collective never calls it. Throws SystemError.
  virtual void exchange(const BlockExchange& block, const std::function<void()>& keep_waiting) = 0;
};

/// MPI_(I)allreduce, MPI_(I)reduce_scatter and MPI_(I)allgather.
[[nodiscard]] std::unique_ptr<Collective> make_library_collective(const Channel& channel, const MpiVariant& variant);

/// Pieces go round the ring of ranks, each step one to the right. Gathering takes R-1 steps; reducing too, each rank
/// adding its own part to what comes from the left, so that every element is summed once and is the same on all
/// ranks; all_reduce is both, on pieces of 1/R of the block (Patarasuk and Yuan, "Bandwidth optimal all-reduce
/// algorithms for clusters of workstations", J. Parallel Distrib. Comput. 69, 2009).
/// @param largest_piece elements of the longest block's piece
[[nodiscard]] std::unique_ptr<Collective> make_ring_collective(const Channel& channel, const MpiVariant& variant,
                                                               std::int64_t largest_piece);

} // namespace mc2::executor::mpi
