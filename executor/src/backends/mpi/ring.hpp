#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/mpi/element_sum.hpp"
#include "backends/mpi/waiting.hpp"
#include "mc2/planner/op_spec.hpp"
#include "range.hpp"

namespace mc2::executor::mpi {

/// Pieces go round the ranks of a communicator, each step one rank to the right. Used by one thread at a time.
class Ring {
 public:
  static constexpr int kMaxSlices = 4;

  struct Job {
    planner::Collective collective = planner::Collective::AllReduce; ///< not all-to-all
    planner::DType dtype = planner::DType::F32;
    std::int64_t longest_piece_bytes = 0; ///< all_reduce: bytes of the whole block
    int most_slices = 1;                  ///< most slices that a long piece is cut in; they go round independently
    /// By rank of the communicator: the index of its piece where pieces lie one behind the other; empty: the rank
    /// itself.
    std::vector<int> piece_of_rank{};
  };

  Ring(MPI_Comm comm, const Job& job);

  /// @param send    all_reduce: the whole block; reduce_scatter: the pieces for all ranks, one behind the other;
  /// all_gather: the own piece
  /// @param receive all_reduce: the sum of the block; reduce_scatter: the sum of the own piece; all_gather: the pieces
  /// of all ranks. Must not overlap `send`
  /// @param count   elements of a piece; all_reduce: of the block
  /// Order: collective. Throws SystemError.
  void run(const std::byte* send, std::byte* receive, std::int64_t count, const Pause& pause);

 private:
  /// The same part of every rank's piece. Slices go round independently, so that the link carries one slice while
  /// another is added up or its next message is announced.
  struct Slice {
    int step = 0;                               ///< the present step; the block's step count when the slice is done
    const std::byte* outgoing = nullptr;        ///< what the present step sends
    std::byte* incoming = nullptr;              ///< where the present step receives
    std::array<std::vector<std::byte>, 2> sums; ///< sums that are passed on; used alternately
  };

  void make_room(std::int64_t longest_piece_bytes);
  [[nodiscard]] std::int64_t bytes(std::int64_t count) const noexcept { return count * planner::size_bytes(dtype_); }
  [[nodiscard]] Range piece(int rank) const noexcept;
  [[nodiscard]] Range part(int rank, int slice) const noexcept { return part_of(piece(rank), slice, slice_count_); }
  [[nodiscard]] bool reduces(int step) const noexcept { return step < reduce_step_count_; }
  [[nodiscard]] int sent_piece(int step) const noexcept;
  [[nodiscard]] std::span<MPI_Request> requests() noexcept;
  [[nodiscard]] std::byte* own_sum(int slice) const noexcept;
  [[nodiscard]] const std::byte* first_outgoing(int slice) const noexcept;
  [[nodiscard]] std::byte* landing(Slice& slice, int index) const noexcept;
  void start_step(int index);
  void start_sending(int index);
  void start_receiving(int index);
  void advance(int index);

  MPI_Comm comm_;
  int most_slices_;
  std::vector<int> piece_of_rank_;
  planner::DType dtype_;
  ElementSum sum_;
  int rank_ = 0, size_ = 1;
  bool is_all_reduce_;
  bool is_split_ = false; ///< a block is cut in one piece per rank: all_reduce on more than 2 ranks
  int step_count_ = 0, reduce_step_count_ = 0;

  // The present block:
  std::int64_t piece_count_ = 0;    ///< elements of a rank's piece; if is_split_, of the whole block
  const std::byte* send_ = nullptr; ///< address of the piece for rank 0, or of the one piece for all
  std::byte* receive_ = nullptr;    ///< where the piece of rank 0 arrives, or the one piece
  int slice_count_ = 0, unfinished_count_ = 0;
  std::array<Slice, kMaxSlices> slices_;
  std::array<MPI_Request, std::size_t{2} * kMaxSlices> requests_{};
  static_assert(2 * kMaxSlices <= kMostRequests);
};

} // namespace mc2::executor::mpi
