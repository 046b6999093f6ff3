#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bandwidth.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::profiler {

/// The values of one nccl-tests row; empty or 0 where the row does not have them.
struct NcclRow {
  std::int64_t size_bytes = 0, count = 0, element_bytes = 0;
  std::string_view redop;
  std::int64_t root = -1; ///< the rank to which all send or from which all receive; -1 for none
  PrintedNumber time_us, alg_bandwidth, bus_bandwidth;
};

/// Why the row cannot be of this collective among so many ranks; empty when it can.
///   root       none of the collectives has one
///   operation  all-reduce and reduce-scatter have one, the others have none
///   count      all elements of the size in all-reduce, one rank's part of them otherwise
///   algbw      size / time
///   busbw      algbw times 2 (R - 1)/R for all-reduce, (R - 1)/R otherwise (nccl-tests, doc/PERFORMANCE.md)
/// @param ranks  0 where unknown
[[nodiscard]] std::string contradiction(planner::Collective collective, int ranks, const NcclRow& row);

/// The number of ranks that the bandwidths of a row imply for this collective; 0 where they do not determine it.
[[nodiscard]] int ranks_by_bandwidth(planner::Collective collective, const NcclRow& row);

} // namespace mc2::profiler
