#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>

#include "mc2/planner/units.hpp"

namespace mc2::executor::mpi {

/// Sends to one rank while it receives from one: the step that our own collectives are made of. Used by the
/// communication lane's thread only.
class PointToPoint {
 public:
  PointToPoint(MPI_Comm comm, std::chrono::microseconds sleep) noexcept : comm_(comm), sleep_(sleep) {}

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
  void pass(const Outgoing& out, const Incoming& in, planner::DType dtype,
            const std::function<void()>& keep_waiting) const;

 private:
  MPI_Comm comm_;
  std::chrono::microseconds sleep_;
};

} // namespace mc2::executor::mpi
