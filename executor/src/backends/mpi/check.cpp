#include "backends/mpi/check.hpp"

#include <array>

#include "mc2/planner/error.hpp"
#include "texts.hpp"

namespace mc2::executor::mpi {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0, rank = -1;
  MPI_Error_string(code, text.data(), &length);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  throw SystemError(call, code, rank_text(rank) + ": " + text.data());
}

} // namespace mc2::executor::mpi
