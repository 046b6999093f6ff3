#include "backends/mpi/point_to_point.hpp"

#include <array>

#include "backends/mpi/check.hpp"
#include "backends/mpi/element_sum.hpp"

namespace mc2::executor::mpi {

void PointToPoint::pass(const Outgoing& out, const Incoming& in, planner::DType dtype, const Pause& pause) const {
  // Counts elements instead of bytes, because MPI counts in int.
  const MPI_Datatype type = element_type(dtype);
  const auto count = [&](std::size_t bytes) {
    return static_cast<int>(bytes / static_cast<std::size_t>(planner::size_bytes(dtype)));
  };
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  if (!out.bytes.empty())
    check(MPI_Isend(out.bytes.data(), count(out.bytes.size()), type, out.to, 0, comm_, &requests[0]), "MPI_Isend");
  if (!in.bytes.empty())
    check(MPI_Irecv(in.bytes.data(), count(in.bytes.size()), type, in.from, 0, comm_, &requests[1]), "MPI_Irecv");
  wait_all(requests, pause);
}

} // namespace mc2::executor::mpi
