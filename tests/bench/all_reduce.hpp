#pragma once

#include "context.hpp"

namespace CLI {
class App;
}

namespace mc2::cli {

/// `mc2-bench allreduce`: compares two all-reduces of the mpi backend between ranks of one node, 16 KiB to 64 MiB: the
/// variants that read the peers' memory, and MPI_Allreduce. Both are checked against the oracle. Then they take turns;
/// the ratio is the median over pairs of neighbouring runs. Errors: as Workbench::open and verify; Unsupported where
/// the ranks cannot read each other's memory; Cancelled.
struct AllReduceBench {
  MachineOptions machine;
  int ranks = 2;

  void add_to(CLI::App& app);
  [[nodiscard]] Result<ExitCode> run() const;
};

} // namespace mc2::cli
