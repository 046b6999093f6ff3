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
  int threads = 1; ///< that may move a rank's data, the calling one included; the smallest of the ranks' counts, and 1
                   ///< where a rank is a child of the process that loaded this library
  std::chrono::milliseconds deadline{60'000}; ///< for a rank that another waits for; to open, a minute at most
  std::optional<int> memory_node = {};        ///< NUMA node that this rank's cores are of; else as Linux says
};

/// Collectives alone, of processes of one machine, one rank each, through memory that they share: for programs that
/// have no matmul to overlap them with. Every call returns when this rank's result is there and its operands may be
/// written again. Sums are made in the order of the ranks, those of short floats in f32 and rounded once, those of i8
/// modulo 256: the same bits on every rank. Where the ranks' cores are of several NUMA nodes, equally many of each,
/// large sums are made node by node: of what a node's ranks have, and then of the nodes' sums.
/// Order: every call is *collective*, with the same sizes and types. Threads: one call at a time; another throws
/// SystemError at once, and so does one of a child process.
/// Errors of calls: InvalidSpec for sizes that the ranks do not divide and types that have no sum, on this rank alone
/// and before anything is exchanged. Throws SystemError naming the rank that calls something else, failed, ended or did
/// not come within the deadline; no call succeeds after that.
class NodeCollectives {
 public:
  /// Order: *collective*. Errors: InvalidSpec naming what is out of range; Unsupported, on every rank, where a process
  /// cannot map another's memory. Throws SystemError as ProcessGroup does.
  [[nodiscard]] static Result<std::unique_ptr<NodeCollectives>> open(const ProcessPlace& place, int world_size,
                                                                     const NodeCollectivesOptions& options = {});
  ~NodeCollectives();
  NodeCollectives(const NodeCollectives&) = delete;
  NodeCollectives& operator=(const NodeCollectives&) = delete;

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int world_size() const noexcept;
  [[nodiscard]] int threads() const noexcept; ///< that calls use at most

  /// `data` becomes the sum over ranks. f32, bf16, f16, i8.
  [[nodiscard]] Result<void> all_reduce(std::span<std::byte> data, planner::DType dtype);
  /// `own` is this rank's part of the sum of all ranks' `data`, world_size times as many bytes. Types as all_reduce.
  [[nodiscard]] Result<void> reduce_scatter(std::span<const std::byte> data, std::span<std::byte> own,
                                            planner::DType dtype);
  /// `all` is every rank's `own`, by rank.
  [[nodiscard]] Result<void> all_gather(std::span<const std::byte> own, std::span<std::byte> all);
  /// Part q of `data` goes to rank q; `received` is what the ranks have sent, by rank. They do not overlap.
  [[nodiscard]] Result<void> all_to_all(std::span<const std::byte> data, std::span<std::byte> received);

 private:
  class Impl;
  explicit NodeCollectives(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::executor

#pragma GCC visibility pop
