#include "backends/mpi/point_to_point.hpp"

#include <array>

#include "backends/mpi/check.hpp"
#include "backends/mpi/element_sum.hpp"
#include "backends/mpi/waiting.hpp"

namespace mc2::executor::mpi {

void PointToPoint::pass(const Outgoing& out, const Incoming& in, planner::DType dtype,
                        const std::function<void()>& keep_waiting) const {
  // Elements, not bytes: MPI counts in int.
  const MPI_Datatype type = element_type(dtype);
  const auto count = [&](std::size_t bytes) {
    return static_cast<int>(bytes / static_cast<std::size_t>(planner::size_bytes(dtype)));
  };
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  if (!in.bytes.empty())
    check(MPI_Irecv(in.bytes.data(), count(in.bytes.size()), type, in.from, 0, comm_, &requests[0]), "MPI_Irecv");
  if (!out.bytes.empty())
    check(MPI_Isend(out.bytes.data(), count(out.bytes.size()), type, out.to, 0, comm_, &requests[1]), "MPI_Isend");
  wait_all(requests, Patience(sleep_, {}), keep_waiting);
}

} // namespace mc2::executor::mpi
