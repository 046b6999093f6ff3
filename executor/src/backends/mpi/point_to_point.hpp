#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>

#include "backends/mpi/waiting.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::mpi {

/// Sends to one rank while it receives from another: the step of which our own collectives consist. Threads: used by
/// the communication lane only.
/// Each step sends before it is ready to receive. MPI announces a long message and sends it when the receiver has
/// answered. The answer travels in the same TCP connection, behind everything that the receiver has begun to send. If a
/// receiver answered first and announced its own message next, it would get the whole message of its peer before the
/// peer's answer. From then on the two would send in turn instead of at the same time.
class PointToPoint {
 public:
  explicit PointToPoint(MPI_Comm comm) noexcept : comm_(comm) {}

  struct Outgoing {
    std::span<const std::byte> bytes;
    int to = 0;
  };
  struct Incoming {
    std::span<std::byte> bytes;
    int from = 0;
  };
  /// Returns when both messages are done. An empty message is not sent; both sides know that it is empty. Order and
  /// errors: as Collective::exchange. Pieces have at most INT_MAX elements of `dtype`.
  void pass(const Outgoing& out, const Incoming& in, planner::DType dtype, const Pause& pause) const;

 private:
  MPI_Comm comm_;
};

} // namespace mc2::executor::mpi
