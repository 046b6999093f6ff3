#pragma once

#include <mpi.h>

#include "backends/mpi/links.hpp"
#include "backends/mpi/placement.hpp"

namespace mc2::executor::mpi {

/// Measures every pair of three nodes and more, several pairs that share no node at a time: messages of up to 1 MiB in
/// both directions between the first ranks, some 20 ms a pair at 1 Gbit/s. Two nodes have nothing to compare.
/// Order: collective. Throws SystemError, which names both ranks where one hears nothing of the other for 20 s.
[[nodiscard]] Links measured_links(const Placement& placement, int rank, MPI_Comm comm);

} // namespace mc2::executor::mpi
