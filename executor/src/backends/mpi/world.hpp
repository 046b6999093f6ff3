#pragma once

#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

#include "backends/mpi/links.hpp"
#include "backends/mpi/placement.hpp"
#include "lanes/affinity.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::mpi {

/// Processes that the launcher started together with this one, by what it left in the environment; 1 without a
/// launcher. Asks MPI nothing, so that a program that never uses it is not part of its job.
[[nodiscard]] int launched_process_count();

/// MPI, started. One per process, made by the first use and ended with the process.
class World {
 public:
  /// Order: the first call is collective over the job's processes. Throws SystemError.
  [[nodiscard]] static World& get();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] const Placement& placement() const noexcept { return *placement_; }
  /// Between the nodes; all alike where the placement is the environment's.
  [[nodiscard]] const Links& links() const noexcept { return *links_; }
  /// The ranks in the order in which they had better stand in a ring: node by node in the order of links().ring(), or
  /// by number where all links are alike.
  [[nodiscard]] std::vector<int> ring_of_ranks() const;
  /// Whether the placement is the environment's and not the machine's: for tests, on one machine.
  [[nodiscard]] bool pretends_nodes() const noexcept { return pretends_nodes_; }
  /// What is wrong with the environment's. The placement is the machine's then.
  [[nodiscard]] const Result<void>& pretence() const noexcept { return pretence_; }
  /// Whether every process can map the memory of every other of its node.
  [[nodiscard]] bool shares_node_memory() const noexcept { return shares_node_memory_; }
  /// The same, and all are on one node.
  [[nodiscard]] bool shares_memory() const noexcept { return shares_node_memory_ && placement_->node_count() == 1; }
  /// Most processes on one node.
  [[nodiscard]] int most_on_a_node() const noexcept { return most_on_a_node_; }
  /// "Open MPI 4.1.4".
  [[nodiscard]] const std::string& library() const noexcept { return library_; }
  /// The cores of this process's lanes: its own when the launcher bound it to some, otherwise its share of the
  /// node's.
  [[nodiscard]] lanes::CoreLayout core_layout(bool pin_threads) const;
  /// Which of core_layout()'s ranks this process is.
  [[nodiscard]] int layout_rank() const noexcept { return shares_cores_ ? node_rank_ : 0; }
  [[nodiscard]] std::size_t core_count() const noexcept { return cores_.size(); }

  /// Whether rank 0 directs the other processes (leader.hpp) instead of every process calling the same functions.
  bool is_led = false;

 private:
  World();
  ~World();
  void find_cores(MPI_Comm node);
  void place(MPI_Comm node);
  [[nodiscard]] std::vector<int> first_ranks_of_nodes(MPI_Comm node) const;
  /// Each process opens a page of every other's of its node or of its host's name, and looks for what that wrote there.
  [[nodiscard]] std::vector<bool> ranks_that_map(const std::vector<int>& firsts) const;
  /// Of this node: ranks whose memory maps are on it, too. Open MPI 4.1.6 takes the ranks of another host for as many
  /// nodes where the list of hosts has an address instead of the name that the host has itself.
  [[nodiscard]] int first_of_mapped(const std::vector<int>& firsts, const std::vector<bool>& mapped) const;
  [[nodiscard]] bool all_neighbours_are(const std::vector<bool>& mapped) const;

  bool is_owner_ = false; ///< of MPI: it was not running before
  int rank_ = 0, size_ = 1;
  int node_rank_ = 0, node_size_ = 1, most_on_a_node_ = 1;
  bool shares_cores_ = true, shares_node_memory_ = false, pretends_nodes_ = false;
  std::optional<Placement> placement_;
  std::optional<Links> links_;
  Result<void> pretence_;
  std::vector<int> cores_;
  std::string library_;
};

/// What makes measurements comparable: `options` need not fit this world. Order: as World::get for the first call.
[[nodiscard]] planner::Fingerprint mpi_fingerprint(const CommunicatorOptions& options);

/// Ends every process of the job: a process cannot go on alone once a peer is gone or waits for it in vain. Says why
/// on standard error, naming this rank; safe on any thread.
[[noreturn]] void abort_job(const std::string& reason) noexcept;

/// A communicator of our own, so that no message of the program's meets ours. Errors are returned.
class Channel {
 public:
  /// Over all processes. Order: collective. Throws SystemError.
  Channel();
  /// Over some, in this order. Order: collective over them. Throws SystemError.
  explicit Channel(const std::vector<int>& ranks);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

} // namespace mc2::executor::mpi
