#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>

#include "backends/mpi/waiting.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::mpi {

/// Sends to one rank while it receives from one: the step that our own collectives are made of. Used by the
/// communication lane's thread only.
/// It sends before it is ready to receive. A long message is announced, and sent when the receiver has answered; the
/// answer waits in the same TCP connection behind all that the receiver has begun to send. A receiver that answered
/// first and announced its own message next would get its peer's whole message before the peer's answer, and from then
/// on the two would send in turn instead of at the same time.
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
  /// Returns when both are done; nothing is sent for no bytes, which both sides know. Order and errors: as
  /// Collective::exchange. Pieces have at most INT_MAX elements of `dtype`.
  void pass(const Outgoing& out, const Incoming& in, planner::DType dtype, const Pause& pause) const;

 private:
  MPI_Comm comm_;
};

} // namespace mc2::executor::mpi
