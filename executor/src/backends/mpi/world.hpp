#pragma once

#include <mpi.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "backends/mpi/links.hpp"
#include "backends/mpi/placement.hpp"
#include "lanes/affinity.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/executor/processes.hpp"

namespace mc2::executor::mpi {

/// How many processes the launcher started in this job, from its environment variables; 1 without a launcher. Does not
/// call MPI, so that a program that never uses MPI does not join its job.
[[nodiscard]] int launched_process_count();

/// MPI in this process. The only object is made at the first use, which starts MPI, and ends with the process.
class World {
 public:
  /// Order: the first call is collective over the job's processes. It ends the job if one of them does not come within
  /// the deadline, and waits without limit if there is none. Later calls ignore the deadline. Throws SystemError.
  [[nodiscard]] static World& get(std::optional<std::chrono::milliseconds> deadline = std::nullopt);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// The deadline of the first call of get(); kOpeningDeadline if it had none.
  [[nodiscard]] std::chrono::milliseconds opening_deadline() const noexcept { return opening_deadline_; }
  /// "rank 1", with the name that its host gives itself if the job is on several hosts: "rank 1 on node-b".
  [[nodiscard]] std::string name_of(int rank) const;
  [[nodiscard]] const Placement& placement() const noexcept { return *placement_; }
  /// The links between nodes. They count as all alike if the placement comes from the environment.
  [[nodiscard]] const Links& links() const noexcept { return *links_; }
  /// The best order of the ranks in a ring: node by node in the order of links().ring(), or by number if all links are
  /// alike.
  [[nodiscard]] std::vector<int> ring_of_ranks() const;
  /// Whether the placement comes from the environment (MC2_PRETENDED_NODES) and not from the machine: for tests on one
  /// machine.
  [[nodiscard]] bool pretends_nodes() const noexcept { return pretends_nodes_; }
  /// The error in the environment's placement, if any. The placement is the machine's then.
  [[nodiscard]] const Result<void>& pretence() const noexcept { return pretence_; }
  /// Whether every process can map the memory of every other process on its node.
  [[nodiscard]] bool shares_node_memory() const noexcept { return shares_node_memory_; }
  /// Whether shares_node_memory() holds and all processes are on one node.
  [[nodiscard]] bool shares_memory() const noexcept { return shares_node_memory_ && placement_->node_count() == 1; }
  /// The number of processes on the largest node.
  [[nodiscard]] int most_on_a_node() const noexcept { return most_on_a_node_; }
  /// Name and version of the library, e.g. "Open MPI v4.1.4".
  [[nodiscard]] const std::string& library() const noexcept { return library_; }
  /// The cores of this process's lanes: its share of the cores that the launcher lets it use, which are all of the node
  /// unless the launcher has bound it. Processes that may use the same cores share them equally. No thread is pinned if
  /// some processes may use a part of each other's cores only.
  [[nodiscard]] lanes::CoreLayout core_layout(bool pin_threads) const;
  /// The index of this process among the ranks of core_layout().
  [[nodiscard]] int layout_rank() const noexcept { return core_place_; }
  [[nodiscard]] std::size_t core_count() const noexcept { return cores_.size(); }

  /// Whether rank 0 directs the other processes (leader.hpp) instead of every process calling the same functions.
  bool is_led = false;

 private:
  explicit World(std::optional<std::chrono::milliseconds> deadline);
  ~World();
  /// Starts MPI unless it is running.
  void start();
  /// Finds out where the ranks are, except for links.
  void find_places();
  void find_cores(MPI_Comm node);
  /// By process of the node: the cores that it may use.
  [[nodiscard]] std::vector<std::vector<int>> cores_of_processes(MPI_Comm node, int node_size) const;
  void place(MPI_Comm node);
  /// The lowest rank whose text is not rank 0's, or size() if there is none. Order: collective.
  [[nodiscard]] int first_rank_that_differs(const std::string& own) const;
  [[nodiscard]] std::vector<int> first_ranks_of_nodes(MPI_Comm node) const;
  /// By rank: whether this process can map that rank's memory. Each process writes a page of its own, opens the pages
  /// of the ranks that are on its node or whose host has the same name, and looks for what they wrote.
  [[nodiscard]] std::vector<bool> ranks_that_map(const std::vector<int>& firsts) const;
  /// The lowest rank of this process's node. Ranks whose memory can be mapped count as being on the same node. Open MPI
  /// 4.1.6 needs that: if the list of hosts has an address instead of the name that a host gives itself, it counts each
  /// rank of that host as a node of its own.
  [[nodiscard]] int first_of_mapped(const std::vector<int>& firsts, const std::vector<bool>& mapped) const;
  [[nodiscard]] bool all_neighbours_are(const std::vector<bool>& mapped) const;

  bool is_owner_ = false; ///< started MPI, because it was not running before
  std::chrono::milliseconds opening_deadline_;
  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_; ///< by rank
  int most_on_a_node_ = 1;
  int core_place_ = 0;          ///< this process's number among those that may use the same cores
  int most_on_cores_ = 1;       ///< most processes, of any node, that may use the same cores
  bool are_cores_apart_ = true; ///< no two processes may use a part of each other's cores only
  bool shares_node_memory_ = false, pretends_nodes_ = false;
  std::optional<Placement> placement_;
  std::optional<Links> links_;
  Result<void> pretence_;
  std::vector<int> cores_;
  std::string library_;
};

/// The fingerprint of this world. `options` need not fit the world. Order: the first call is collective, as for
/// World::get.
[[nodiscard]] planner::Fingerprint mpi_fingerprint(const CommunicatorOptions& options);

/// Ends every process of the job, because a process cannot go on alone when a peer is gone or waits for it in vain.
/// Says why on standard error, naming this rank, and its host unless all ranks are known to be on one. Safe on any
/// thread.
[[noreturn]] void abort_job(const std::string& reason) noexcept;

/// A communicator of our own, so that the program's messages never match ours. MPI returns errors on it.
class Channel {
 public:
  /// Over all processes. Ends the job if one does not come within the deadline. Order: collective. Throws SystemError.
  explicit Channel(std::chrono::milliseconds deadline);
  /// Over `ranks`, in this order. Order: collective over these ranks; otherwise as above.
  Channel(const std::vector<int>& ranks, std::chrono::milliseconds deadline);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

} // namespace mc2::executor::mpi
