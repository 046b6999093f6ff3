#pragma once

#include <mpi.h>

namespace mc2::executor::mpi {

/// The one place where MPI's failures become exceptions. Throws SystemError naming the call and this process's rank.
void check(int code, const char* call);

} // namespace mc2::executor::mpi
