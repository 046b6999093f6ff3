#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bandwidth.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::profiler {

/// What a row of nccl-tests says; empty or 0 where it does not.
struct NcclRow {
  std::int64_t size_bytes = 0, count = 0, element_bytes = 0;
  std::string_view redop;
  std::int64_t root = -1; ///< the rank that all send to or receive from; -1 for none
  PrintedNumber time_us, alg_bandwidth;
  double bus_bandwidth = 0;
};

/// What speaks against the row being of this collective among so many ranks, 0 where they are not known; empty when
/// nothing does. Bus over algorithm bandwidth is 2 (R - 1)/R for all-reduce and (R - 1)/R for the others (nccl-tests,
/// doc/PERFORMANCE.md); a reduction has an operation, none has a root, all-reduce counts all elements of its size where
/// the others count one rank's, and the algorithm bandwidth is size over time.
[[nodiscard]] std::string contradiction(planner::Collective collective, int ranks, const NcclRow& row);

/// The ranks that the bandwidths of a row of this collective tell; 0 where they do not.
[[nodiscard]] int ranks_by_bandwidth(planner::Collective collective, const NcclRow& row);

} // namespace mc2::profiler
