#pragma once

#include <mpi.h>

#include "backends/mpi/links.hpp"
#include "backends/mpi/placement.hpp"

namespace mc2::executor::mpi {

/// Measures the link between every pair of nodes if there are three or more; two nodes have nothing to compare. The
/// first ranks of a pair exchange messages of up to 1 MiB in both directions, about 60 ms a pair at 1 Gbit/s. Pairs
/// that share no node are measured at the same time. A pair counts as slow only if it stays slow when it is
/// measured again, five times or more.
/// Order: collective. Throws SystemError naming both ranks if one hears nothing of the other for 60 s.
[[nodiscard]] Links measured_links(const Placement& placement, int rank, MPI_Comm comm);

} // namespace mc2::executor::mpi
