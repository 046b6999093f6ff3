#pragma once

#include "context.hpp"

namespace CLI {
class App;
}

namespace mc2::cli {

/// `mc2-bench allreduce`: all-reduces of the mpi backend between ranks of one node, the variant that reads the peers'
/// memory beside MPI_Allreduce, 16 KiB to 64 MiB. Both are checked against the oracle; then they take turns, and the
/// ratio is the median of those of neighbours.
/// Errors: as Workbench::open and verify; Unsupported where the ranks cannot read each other's memory; Cancelled.
struct AllReduceBench {
  MachineOptions machine;
  int ranks = 2;

  void add_to(CLI::App& app);
  [[nodiscard]] Result<ExitCode> run() const;
};

} // namespace mc2::cli
