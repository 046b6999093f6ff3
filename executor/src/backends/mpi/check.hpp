#pragma once

#include <mpi.h>

namespace mc2::executor::mpi {

/// Turns a failed MPI call into an exception; no other code does. Throws SystemError naming the call and this process's
/// rank.
void check(int code, const char* call);

} // namespace mc2::executor::mpi
