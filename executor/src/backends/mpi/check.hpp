#pragma once

#include <mpi.h>

#include <string>

namespace mc2::executor::mpi {

/// "rank 2".
[[nodiscard]] std::string rank_text(int rank);

/// The one place where MPI's failures become exceptions. Throws SystemError naming the call and this process's rank.
void check(int code, const char* call);

} // namespace mc2::executor::mpi
