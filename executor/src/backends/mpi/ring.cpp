#include "backends/mpi/ring.hpp"

#include <algorithm>

#include "backends/mpi/check.hpp"
#include "lanes/combine.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr std::int64_t kLeastSliceBytes = std::int64_t{64} << 10U; // of a piece; smaller ones cost more than they hide

} // namespace

Ring::Ring(MPI_Comm comm, const Job& job)
    : comm_(comm),
      most_slices_(job.most_slices),
      piece_of_rank_(job.piece_of_rank),
      dtype_(job.dtype),
      sum_(dtype_),
      is_all_reduce_(job.collective == planner::Collective::AllReduce) {
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  is_split_ = is_all_reduce_ && size_ > 2;
  step_count_ = size_ - 1 + (is_split_ ? size_ - 1 : 0);
  if (job.collective == planner::Collective::AllGather) return;
  reduce_step_count_ = size_ - 1;
  if (reduce_step_count_ > 1) make_room(job.longest_piece_bytes);
}

void Ring::run(const std::byte* send, std::byte* receive, std::int64_t count, const Pause& pause) {
  piece_count_ = count;
  send_ = send;
  receive_ = receive;
  // This quotient is equal on every rank, although pieces differ by an element.
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
}

/// Makes room for sums that are passed on. A slice has at most 1/most_slices_ of a piece or, if the piece is cut in
/// fewer slices, less than 2 * kLeastSliceBytes. One more element is needed for each of the two divisions that may
/// leave a rest.
void Ring::make_room(std::int64_t longest_piece_bytes) {
  const std::int64_t piece_bytes = longest_piece_bytes / (is_split_ ? size_ : 1);
  const std::int64_t room =
      std::max(piece_bytes / most_slices_, std::min(piece_bytes, 2 * kLeastSliceBytes)) + bytes(2);
  for (Slice& slice : slices_) {
    for (auto& sum : slice.sums) sum.resize(static_cast<std::size_t>(room));
  }
}

/// The piece of a rank: one of R parts of a block (split), the whole block (all_reduce on two ranks), or one of R
/// blocks of equal size.
Range Ring::piece(int rank) const noexcept {
  const int of = (rank % size_ + size_) % size_;
  if (is_split_) return part_of({0, piece_count_}, of, size_);
  const int place = piece_of_rank_.empty() ? of : piece_of_rank_[static_cast<std::size_t>(of)];
  return {is_all_reduce_ ? 0 : place * piece_count_, piece_count_};
}

/// The piece that this rank sends in a step. While reducing, the piece of rank q starts at rank q + 1 and ends at rank
/// q; while gathering it starts at rank q.
int Ring::sent_piece(int step) const noexcept {
  return reduces(step) ? rank_ - 1 - step : rank_ - (step - reduce_step_count_);
}

std::span<MPI_Request> Ring::requests() noexcept {
  return std::span(requests_).first(2 * static_cast<std::size_t>(slice_count_));
}

/// Where the slice of this rank's own sum goes.
std::byte* Ring::own_sum(int slice) const noexcept {
  const Range own = part(rank_, slice);
  return receive_ + bytes(is_split_ ? own.first : own.first - piece(rank_).first);
}

const std::byte* Ring::first_outgoing(int slice) const noexcept {
  const Range out = part(sent_piece(0), slice);
  // In an all_gather `send_` is the own piece alone, which every rank gets.
  return send_ + bytes(reduces(0) ? out.first : out.first - piece(rank_).first);
}

std::byte* Ring::landing(Slice& slice, int index) const noexcept {
  if (!reduces(slice.step)) return receive_ + bytes(part(sent_piece(slice.step) - 1, index).first);
  const bool is_last = slice.step + 1 == reduce_step_count_;
  return is_last ? own_sum(index) : slice.sums[static_cast<std::size_t>(slice.step % 2)].data();
}

// Sends before it receives (point_to_point.hpp says why).
void Ring::start_step(int index) {
  start_sending(index);
  start_receiving(index);
}

void Ring::start_sending(int index) {
  Slice& slice = slices_[static_cast<std::size_t>(index)];
  if (slice.step == 0) slice.outgoing = first_outgoing(index);
  const Range out = part(sent_piece(slice.step), index);
  check(MPI_Isend(slice.outgoing, static_cast<int>(out.count), sum_.type(), (rank_ + 1) % size_, index, comm_,
                  &requests_[2 * static_cast<std::size_t>(index)]),
        "MPI_Isend");
}

void Ring::start_receiving(int index) {
  Slice& slice = slices_[static_cast<std::size_t>(index)];
  slice.incoming = landing(slice, index);
  const Range in = part(sent_piece(slice.step) - 1, index);
  check(MPI_Irecv(slice.incoming, static_cast<int>(in.count), sum_.type(), (rank_ + size_ - 1) % size_, index, comm_,
                  &requests_[2 * static_cast<std::size_t>(index) + 1]),
        "MPI_Irecv");
}

/// If both messages of the slice's step are complete, ends the step and starts the next.
void Ring::advance(int index) {
  Slice& slice = slices_[static_cast<std::size_t>(index)];
  const MPI_Request* pair = &requests_[2 * static_cast<std::size_t>(index)];
  if (slice.step == step_count_ || pair[0] != MPI_REQUEST_NULL || pair[1] != MPI_REQUEST_NULL) return;
  if (reduces(slice.step)) {
    const Range in = part(sent_piece(slice.step) - 1, index);
    lanes::add_partial(dtype_, send_ + bytes(in.first), slice.incoming, in.count);
  }
  slice.outgoing = slice.incoming;
  ++slice.step;
  if (slice.step < step_count_) return start_step(index);
  --unfinished_count_;
}

} // namespace mc2::executor::mpi
