#include <algorithm>
#include <array>
#include <cstring>

#include "backends/mpi/check.hpp"
#include "backends/mpi/collective.hpp"
#include "backends/mpi/waiting.hpp"

namespace mc2::executor::mpi {
namespace {

/// A rank's piece: elements [first, first + count) of what is cut into pieces.
struct Piece {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class RingCollective final : public Collective {
 public:
  RingCollective(MPI_Comm comm, std::chrono::microseconds sleep, std::int64_t largest_piece)
      : comm_(comm), sleep_(sleep), rank_(World::get().rank()), size_(World::get().size()) {
    for (auto& sum : sums_) sum.resize(static_cast<std::size_t>(largest_piece));
  }

  void exchange(const BlockExchange& block, const std::function<void()>& keep_waiting) override {
    const auto* send = reinterpret_cast<const float*>(block.send);
    auto* receive = reinterpret_cast<float*>(block.receive);
    is_split_ = block.kind == planner::OpKind::MatmulAllReduce;
    count_ = block.piece_count;
    if (block.kind == planner::OpKind::AllGatherMatmul) {
      std::copy_n(send, count_, receive + piece(rank_).first);
      return gather(receive, keep_waiting);
    }
    float* own_sum = is_split_ ? receive + piece(rank_).first : receive;
    reduce(send, own_sum, keep_waiting);
    if (is_split_) gather(receive, keep_waiting);
  }

 private:
  /// The pieces of all ranks are one block cut in R parts, or R blocks of the same size.
  [[nodiscard]] Piece piece(int rank) const noexcept {
    const int of = (rank % size_ + size_) % size_;
    if (!is_split_) return {of * count_, count_};
    const std::int64_t first = count_ * of / size_;
    return {first, count_ * (of + 1) / size_ - first};
  }

  /// `pieces` holds this rank's piece and gets the others'.
  void gather(float* pieces, const std::function<void()>& keep_waiting) {
    for (int step = 0; step + 1 < size_; ++step) {
      const Piece out = piece(rank_ - step), in = piece(rank_ - step - 1);
      pass_on(pieces + out.first, out.count, pieces + in.first, in.count, keep_waiting);
    }
  }

  /// own_sum = the sum of all ranks' parts of this rank's piece. The piece of rank q starts at rank q + 1.
  void reduce(const float* parts, float* own_sum, const std::function<void()>& keep_waiting) {
    const float* outgoing = parts + piece(rank_ - 1).first;
    for (int step = 0; step + 1 < size_; ++step) {
      const Piece out = piece(rank_ - 1 - step), in = piece(rank_ - 2 - step);
      const bool is_last = step + 2 == size_;
      float* incoming = is_last ? own_sum : sums_[static_cast<std::size_t>(step % 2)].data();
      pass_on(outgoing, out.count, incoming, in.count, keep_waiting);
      const float* own = parts + in.first;
      for (std::int64_t i = 0; i < in.count; ++i) incoming[i] += own[i];
      outgoing = incoming;
    }
  }

  void pass_on(const float* out, std::int64_t out_count, float* in, std::int64_t in_count,
               const std::function<void()>& keep_waiting) {
    const int left = (rank_ + size_ - 1) % size_, right = (rank_ + 1) % size_;
    std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    check(MPI_Irecv(in, static_cast<int>(in_count), MPI_FLOAT, left, 0, comm_, &requests[0]), "MPI_Irecv");
    check(MPI_Isend(out, static_cast<int>(out_count), MPI_FLOAT, right, 0, comm_, &requests[1]), "MPI_Isend");
    wait_all(requests, Patience(sleep_, {}), keep_waiting);
  }

  MPI_Comm comm_;
  std::chrono::microseconds sleep_;
  int rank_, size_;
  bool is_split_ = false;  ///< of the block that is being exchanged
  std::int64_t count_ = 0; ///< of that block
  std::array<std::vector<float>, 2> sums_;
};

} // namespace

std::unique_ptr<Collective> make_ring_collective(const Channel& channel, const MpiVariant& variant,
                                                 std::int64_t largest_piece) {
  return std::make_unique<RingCollective>(channel.get(), variant.sleep, largest_piece);
}

} // namespace mc2::executor::mpi
