#include <algorithm>
#include <array>

#include "backends/mpi/check.hpp"
#include "backends/mpi/collective.hpp"
#include "backends/mpi/element_sum.hpp"
#include "backends/mpi/waiting.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr int kMaxSlices = 4;
constexpr std::int64_t kLeastSliceBytes = std::int64_t{64} << 10U; // of a piece; smaller ones cost more than they hide

/// Elements [first, first + count) of a block.
struct Range {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Part `index` of `count` parts that differ by one element at most.
Range part_of(const Range& whole, std::int64_t index, std::int64_t count) {
  const std::int64_t first = whole.count * index / count;
  return {whole.first + first, whole.count * (index + 1) / count - first};
}

class RingCollective final : public Collective {
 public:
  RingCollective(MPI_Comm comm, const MpiVariant& variant, const StageList& list)
      : comm_(comm),
        most_slices_(variant.algorithm == MpiVariant::Algorithm::SlicedRing ? kMaxSlices : 1),
        dtype_(planner::exchange_type(list.op)),
        sum_(dtype_),
        rank_(World::get().rank()),
        size_(World::get().size()),
        is_all_reduce_(planner::collective_of(list.op.kind) == planner::Collective::AllReduce),
        is_split_(is_all_reduce_ && size_ > 2),
        step_count_(size_ - 1 + (is_split_ ? size_ - 1 : 0)) {
    if (!planner::sums_over_ranks(list.op.kind)) return;
    reduce_step_count_ = size_ - 1;
    if (reduce_step_count_ > 1) make_room(list);
  }

  void exchange(const BlockExchange& block, const Pause& pause) override {
    piece_count_ = block.element_count;
    send_ = block.pieces->outgoing.front();
    receive_ = block.is_summed() ? sum_arrival(block) : gathered(block);
    // The same on every rank, although pieces differ by an element.
    const std::int64_t piece_bytes = bytes(piece_count_) / (is_split_ ? size_ : 1);
    slice_count_ = static_cast<int>(std::clamp<std::int64_t>(piece_bytes / kLeastSliceBytes, 1, most_slices_));
    unfinished_count_ = slice_count_;
    for (int index = 0; index < slice_count_; ++index) {
      slices_[static_cast<std::size_t>(index)].step = 0;
      start_sending(index);
    }
    for (int index = 0; index < slice_count_; ++index) start_receiving(index);
    wait_some(requests(), pause, [this] {
      for (int index = 0; index < slice_count_; ++index) advance(index);
      return unfinished_count_ == 0;
    });
    finish(block);
  }

 private:
  /// A part of every rank's piece that goes round by itself, so that the link carries one slice while another's numbers
  /// are added up or its next message is announced.
  struct Slice {
    int step = 0;                               ///< under way; the block's step count when it is done
    const std::byte* outgoing = nullptr;        ///< what the next step passes on
    std::byte* incoming = nullptr;              ///< what the present step brings
    std::array<std::vector<std::byte>, 2> sums; ///< those that are passed on, in turn
  };

  /// For sums that are passed on. A slice has at most 1/most_slices_ of a piece, or less than two least slices where
  /// the piece is cut in fewer; and an element for each time that something did not divide evenly.
  void make_room(const StageList& list) {
    const auto longest = std::ranges::max_element(list.stages, {}, &Stage::row_count)->row_count;
    const std::int64_t piece_bytes = lanes::piece_bytes(list.op, longest) / (is_split_ ? size_ : 1);
    const std::int64_t room =
        std::max(piece_bytes / most_slices_, std::min(piece_bytes, 2 * kLeastSliceBytes)) + bytes(2);
    for (Slice& slice : slices_) {
      for (auto& sum : slice.sums) sum.resize(static_cast<std::size_t>(room));
    }
  }

  [[nodiscard]] std::int64_t bytes(std::int64_t count) const noexcept { return count * planner::size_bytes(dtype_); }
  /// The pieces of all ranks are one block cut in R parts, or the whole block each, or R blocks of the same size.
  [[nodiscard]] Range piece(int rank) const noexcept {
    const int of = (rank % size_ + size_) % size_;
    if (is_split_) return part_of({0, piece_count_}, of, size_);
    return {is_all_reduce_ ? 0 : of * piece_count_, piece_count_};
  }
  [[nodiscard]] Range part(int rank, int slice) const noexcept { return part_of(piece(rank), slice, slice_count_); }
  [[nodiscard]] bool reduces(int step) const noexcept { return step < reduce_step_count_; }

  /// Reducing, the piece of rank q starts at rank q + 1 and ends at q; gathering, it starts at q.
  [[nodiscard]] int sent_piece(int step) const noexcept {
    return reduces(step) ? rank_ - 1 - step : rank_ - (step - reduce_step_count_);
  }
  [[nodiscard]] std::span<MPI_Request> requests() noexcept {
    return std::span(requests_).first(2 * static_cast<std::size_t>(slice_count_));
  }

  /// Where this rank's part of its own sum goes.
  [[nodiscard]] std::byte* own_sum(int slice) const noexcept {
    const Range own = part(rank_, slice);
    return receive_ + bytes(is_split_ ? own.first : own.first - piece(rank_).first);
  }
  [[nodiscard]] const std::byte* first_outgoing(int slice) const noexcept {
    const Range out = part(sent_piece(0), slice);
    // Gathering alone, every rank gets the same piece from this one.
    return send_ + bytes(reduces(0) ? out.first : out.first - piece(rank_).first);
  }
  [[nodiscard]] std::byte* landing(Slice& slice, int index) const noexcept {
    if (!reduces(slice.step)) return receive_ + bytes(part(sent_piece(slice.step) - 1, index).first);
    const bool is_last = slice.step + 1 == reduce_step_count_;
    return is_last ? own_sum(index) : slice.sums[static_cast<std::size_t>(slice.step % 2)].data();
  }

  // A step sends first (point_to_point.hpp says why).
  void start_step(int index) {
    start_sending(index);
    start_receiving(index);
  }

  void start_sending(int index) {
    Slice& slice = slices_[static_cast<std::size_t>(index)];
    if (slice.step == 0) slice.outgoing = first_outgoing(index);
    const Range out = part(sent_piece(slice.step), index);
    check(MPI_Isend(slice.outgoing, static_cast<int>(out.count), sum_.type(), (rank_ + 1) % size_, index, comm_,
                    &requests_[2 * static_cast<std::size_t>(index)]),
          "MPI_Isend");
  }

  void start_receiving(int index) {
    Slice& slice = slices_[static_cast<std::size_t>(index)];
    slice.incoming = landing(slice, index);
    const Range in = part(sent_piece(slice.step) - 1, index);
    check(MPI_Irecv(slice.incoming, static_cast<int>(in.count), sum_.type(), (rank_ + size_ - 1) % size_, index, comm_,
                    &requests_[2 * static_cast<std::size_t>(index) + 1]),
          "MPI_Irecv");
  }

  /// Ends the slice's step if its messages have gone and come, and starts the next.
  void advance(int index) {
    Slice& slice = slices_[static_cast<std::size_t>(index)];
    const MPI_Request* pair = &requests_[2 * static_cast<std::size_t>(index)];
    if (slice.step == step_count_ || pair[0] != MPI_REQUEST_NULL || pair[1] != MPI_REQUEST_NULL) return;
    if (reduces(slice.step)) {
      const Range in = part(sent_piece(slice.step) - 1, index);
      add_to(dtype_, send_ + bytes(in.first), slice.incoming, in.count);
    }
    slice.outgoing = slice.incoming;
    ++slice.step;
    if (slice.step < step_count_) return start_step(index);
    --unfinished_count_;
  }

  MPI_Comm comm_;
  int most_slices_;
  planner::DType dtype_;
  ElementSum sum_;
  int rank_, size_;
  bool is_all_reduce_;
  bool is_split_; ///< whether a block is cut in pieces, one for each rank: two ranks swap the whole block instead
  int step_count_, reduce_step_count_ = 0;

  // Of the block that is being exchanged.
  std::int64_t piece_count_ = 0;    ///< elements of a rank's piece; split: of the whole block
  const std::byte* send_ = nullptr; ///< the piece for rank 0, or for all
  std::byte* receive_ = nullptr;    ///< where the piece of rank 0, or of all, arrives
  int slice_count_ = 0, unfinished_count_ = 0;
  std::array<Slice, kMaxSlices> slices_;
  std::array<MPI_Request, std::size_t{2} * kMaxSlices> requests_{};
  static_assert(2 * kMaxSlices <= kMostRequests);
};

} // namespace

std::unique_ptr<Collective> make_ring_collective(const Channel& channel, const MpiVariant& variant,
                                                 const StageList& list) {
  return std::make_unique<RingCollective>(channel.get(), variant, list);
}

} // namespace mc2::executor::mpi
