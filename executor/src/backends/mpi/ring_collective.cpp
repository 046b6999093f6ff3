#include <algorithm>
#include <array>
#include <cstring>

#include "backends/mpi/collective.hpp"
#include "backends/mpi/element_sum.hpp"
#include "backends/mpi/point_to_point.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::executor::mpi {
namespace {

/// A rank's piece: elements [first, first + count) of what is cut into pieces.
struct Piece {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class RingCollective final : public Collective {
 public:
  RingCollective(MPI_Comm comm, std::chrono::microseconds sleep, const StageList& list)
      : steps_(comm, sleep), dtype_(list.op.dtype), rank_(World::get().rank()), size_(World::get().size()) {
    if (!planner::sums_over_ranks(list.op.kind)) return;
    const auto longest = std::ranges::max_element(list.stages, {}, &Stage::row_count)->row_count;
    for (auto& sum : sums_)
      sum.resize(static_cast<std::size_t>(longest * list.op.n * planner::size_bytes(dtype_)));
  }

  void exchange(const BlockExchange& block, const std::function<void()>& keep_waiting) override {
    is_split_ = block.kind == planner::OpKind::MatmulAllReduce;
    count_ = block.piece_count;
    if (block.kind == planner::OpKind::AllGatherMatmul) return gather(block.send, block.receive, keep_waiting);
    std::byte* own_sum = block.receive + (is_split_ ? offset(piece(rank_)) : 0);
    reduce(block.send, own_sum, keep_waiting);
    if (is_split_) gather(own_sum, block.receive, keep_waiting);
  }

 private:
  /// The pieces of all ranks are one block cut in R parts, or R blocks of the same size.
  [[nodiscard]] Piece piece(int rank) const noexcept {
    const int of = (rank % size_ + size_) % size_;
    if (!is_split_) return {of * count_, count_};
    const std::int64_t first = count_ * of / size_;
    return {first, count_ * (of + 1) / size_ - first};
  }
  [[nodiscard]] std::int64_t bytes(std::int64_t count) const noexcept {
    return count * planner::size_bytes(dtype_);
  }
  [[nodiscard]] std::int64_t offset(const Piece& piece) const noexcept { return bytes(piece.first); }

  /// `pieces` gets the other ranks' pieces. The own one, `own`, need not be there: whoever multiplies it has it.
  void gather(const std::byte* own, std::byte* pieces, const std::function<void()>& keep_waiting) {
    const std::byte* outgoing = own;
    for (int step = 0; step + 1 < size_; ++step) {
      const Piece out = piece(rank_ - step), in = piece(rank_ - step - 1);
      std::byte* incoming = pieces + offset(in);
      pass_on({outgoing, out.count}, incoming, in.count, keep_waiting);
      outgoing = incoming;
    }
  }

  /// own_sum = the sum of all ranks' parts of this rank's piece. The piece of rank q starts at rank q + 1.
  void reduce(const std::byte* parts, std::byte* own_sum, const std::function<void()>& keep_waiting) {
    const std::byte* outgoing = parts + offset(piece(rank_ - 1));
    for (int step = 0; step + 1 < size_; ++step) {
      const Piece out = piece(rank_ - 1 - step), in = piece(rank_ - 2 - step);
      const bool is_last = step + 2 == size_;
      std::byte* incoming = is_last ? own_sum : sums_[static_cast<std::size_t>(step % 2)].data();
      pass_on({outgoing, out.count}, incoming, in.count, keep_waiting);
      add_to(dtype_, parts + offset(in), incoming, in.count);
      outgoing = incoming;
    }
  }

  struct Elements {
    const std::byte* data = nullptr;
    std::int64_t count = 0;
  };
  void pass_on(const Elements& out, std::byte* in, std::int64_t in_count, const std::function<void()>& keep_waiting) {
    const int left = (rank_ + size_ - 1) % size_, right = (rank_ + 1) % size_;
    steps_.pass({{out.data, static_cast<std::size_t>(bytes(out.count))}, right},
                {{in, static_cast<std::size_t>(bytes(in_count))}, left}, dtype_, keep_waiting);
  }

  PointToPoint steps_;
  planner::DType dtype_;
  int rank_, size_;
  bool is_split_ = false;  ///< of the block that is being exchanged
  std::int64_t count_ = 0; ///< of that block
  std::array<std::vector<std::byte>, 2> sums_;
};

} // namespace

std::unique_ptr<Collective> make_ring_collective(const Channel& channel, const MpiVariant& variant,
                                                 const StageList& list) {
  return std::make_unique<RingCollective>(channel.get(), variant.sleep, list);
}

} // namespace mc2::executor::mpi
