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

namespace mc2::executor::mpi {

/// Pieces that go round the ranks of a communicator, each step one to the right. Used by one thread at a time.
class Ring {
 public:
  static constexpr int kMaxSlices = 4;

  struct Job {
    planner::Collective collective = planner::Collective::AllReduce; ///< not all-to-all
    planner::DType dtype = planner::DType::F32;
    std::int64_t longest_piece_bytes = 0; ///< all_reduce: of the whole block
    int most_slices = 1;                  ///< that a long piece is cut in, which go round by themselves
    /// Whose piece is whose, by rank of the communicator, where pieces lie in another order than its; empty: the same.
    std::vector<int> piece_of_rank{};
  };

  Ring(MPI_Comm comm, const Job& job);

  /// @param send    all_reduce: the whole block; reduce_scatter: all ranks' pieces, one behind the other; all_gather:
  ///                the own one
  /// @param receive the whole sum; the own piece's sum; all ranks' pieces. Does not overlap `send`
  /// @param count   elements of a piece; all_reduce: of the block
  /// Order: collective. Throws SystemError.
  void run(const std::byte* send, std::byte* receive, std::int64_t count, const Pause& pause);

 private:
  /// Elements [first, first + count) of a block.
  struct Range {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  /// A part of every rank's piece that goes round by itself, so that the link carries one slice while another's numbers
  /// are added up or its next message is announced.
  struct Slice {
    int step = 0;                               ///< under way; the block's step count when it is done
    const std::byte* outgoing = nullptr;        ///< what the next step passes on
    std::byte* incoming = nullptr;              ///< what the present step brings
    std::array<std::vector<std::byte>, 2> sums; ///< those that are passed on, in turn
  };

  [[nodiscard]] static Range part_of(const Range& whole, std::int64_t index, std::int64_t count);
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
  bool is_split_ =
      false; ///< whether a block is cut in pieces, one for each rank: two ranks swap the whole block instead
  int step_count_ = 0, reduce_step_count_ = 0;

  // Of the block that is being exchanged.
  std::int64_t piece_count_ = 0;    ///< elements of a rank's piece; split: of the whole block
  const std::byte* send_ = nullptr; ///< the piece for rank 0, or for all
  std::byte* receive_ = nullptr;    ///< where the piece of rank 0, or of all, arrives
  int slice_count_ = 0, unfinished_count_ = 0;
  std::array<Slice, kMaxSlices> slices_;
  std::array<MPI_Request, std::size_t{2} * kMaxSlices> requests_{};
  static_assert(2 * kMaxSlices <= kMostRequests);
};

} // namespace mc2::executor::mpi
