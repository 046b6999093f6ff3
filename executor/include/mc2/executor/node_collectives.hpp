#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "mc2/executor/backend.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/units.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

struct NodeCollectivesOptions {
  int threads = 1; ///< threads that may move a rank's data, the calling one included. The ranks' smallest number holds;
                   ///< it is 1 if any rank is a fork()ed child of the process that loaded this library
  std::chrono::milliseconds deadline{60'000}; ///< how long a rank waits for another, also in open()
  std::optional<int> memory_node = {};        ///< NUMA node of this rank's cores; unset: Linux is asked
};

/// Collectives between processes of one machine, one rank each, through memory that they share: for programs that have
/// no matmul to overlap them with. A call returns when this rank's result is complete and its operands may be written
/// again. Sums add the ranks' values in the order of the ranks, so that every rank gets the same bits; bf16 and f16 are
/// added in f32 and rounded once, i8 wraps modulo 256. If the ranks' cores lie in several NUMA nodes, the same number
/// of ranks in each, large sums are made in two steps: the ranks of a node first, then the sums of the nodes. Order:
/// every call is *collective*, with the same sizes and types. Threads: one call at a time; a second thread's call
/// throws SystemError at once, and so does a call in a fork()ed child.
/// Errors of calls: InvalidSpec for sizes that are not divisible by the number of ranks and for types that cannot be
/// summed, on this rank alone and before anything is exchanged. Throws SystemError naming the rank that made another
/// call, failed, ended or did not come within the deadline; no call succeeds after that.
class NodeCollectives {
 public:
  /// Order: *collective*. Errors: InvalidSpec naming what is out of range; Unsupported, on every rank, where a process
  /// cannot map another's memory. Throws SystemError when another rank does not come or ends.
  [[nodiscard]] static Result<std::unique_ptr<NodeCollectives>> open(const ProcessPlace& place, int world_size,
                                                                     const NodeCollectivesOptions& options = {});
  ~NodeCollectives();
  NodeCollectives(const NodeCollectives&) = delete;
  NodeCollectives& operator=(const NodeCollectives&) = delete;

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int world_size() const noexcept;
  [[nodiscard]] int threads() const noexcept; ///< the most threads that a call uses on this rank

  /// Replaces `data` by its sum over the ranks. Types: f32, bf16, f16, i8.
  [[nodiscard]] Result<void> all_reduce(std::span<std::byte> data, planner::DType dtype);
  /// Writes to `own` this rank's part of the sum of `data` over the ranks; `data` has world_size times as many bytes.
  /// Types as all_reduce().
  [[nodiscard]] Result<void> reduce_scatter(std::span<const std::byte> data, std::span<std::byte> own,
                                            planner::DType dtype);
  /// Writes every rank's `own` to `all`, in the order of the ranks. `own` may be this rank's place in `all`.
  [[nodiscard]] Result<void> all_gather(std::span<const std::byte> own, std::span<std::byte> all);
  /// Sends part q of `data` to rank q, and writes the parts that the ranks sent to `received`, in the order of the
  /// ranks. The two must not overlap.
  [[nodiscard]] Result<void> all_to_all(std::span<const std::byte> data, std::span<std::byte> received);

 private:
  class Impl;
  explicit NodeCollectives(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::executor

#pragma GCC visibility pop
