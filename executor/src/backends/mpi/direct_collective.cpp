#include "backends/mpi/direct_collective.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "backends/host/combine.hpp"
#include "backends/host/peer_order.hpp"
#include "backends/host/vector_sum.hpp"
#include "backends/mpi/shared_signal.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

using Waiter = std::function<void()>;

/// What a rank announces, each with a count of the blocks for which it has.
struct Announcements {
  SharedSignal ready;  ///< its product can be read, or its rows of A are written
  SharedSignal summed; ///< "two_shot": its sum can be read
};
static_assert(sizeof(Announcements) <= kPageBytes);

class DirectCollective : public Collective {
 public:
  DirectCollective(const NodeHeap& heap, const SegmentLayout& layout)
      : heap_(heap),
        rank_(World::get().rank()),
        size_(World::get().size()),
        pieces_(static_cast<std::size_t>(size_)),
        f32_pieces_(pieces_.size()) {
    for (int rank = 0; rank < size_; ++rank)
      announcements_.push_back(reinterpret_cast<Announcements*>(heap.segment(rank).data() + layout.signals));
    // Before the first run, which starts when all ranks have come.
    new (announcements_[static_cast<std::size_t>(rank_)]) Announcements;
  }

  void exchange(const BlockExchange& block, const Waiter& keep_waiting) override {
    ++block_count_;
    switch (block.kind) {
      case planner::OpKind::MatmulAllReduce: return all_reduce(block, keep_waiting);
      case planner::OpKind::MatmulReduceScatter:
        announce_product(keep_waiting);
        return sum(block, block.outgoing(rank_), block.receive, block.piece_count);
      case planner::OpKind::MatmulAllToAll: return pull(block, keep_waiting);
      case planner::OpKind::AllGatherMatmul:
      case planner::OpKind::AllToAllMatmul: return push(block, keep_waiting);
      case planner::OpKind::EmbeddingAllToAll: break;
    }
    MC2_CHECK(false, "a kind that the mpi backend refuses reached its collective");
  }

 protected:
  virtual void all_reduce(const BlockExchange& block, const Waiter& keep_waiting) {
    announce_product(keep_waiting);
    sum(block, block.send, block.receive, block.piece_count);
  }

  /// Returns when every rank has announced its own.
  void announce_product(const Waiter& keep_waiting) {
    of(rank_).ready.add();
    for (int step = 0; step + 1 < size_; ++step) of(peer(step)).ready.wait_for(block_count_, keep_waiting);
  }

  /// result = what all ranks have where this rank has `own`, added up in rank order.
  /// @param is_read_next  by the peers: it had better stay in the caches
  void sum(const BlockExchange& block, const std::byte* own, std::byte* result, std::int64_t count,
           bool is_read_next = false) {
    for (int rank = 0; rank < size_; ++rank) pieces_[static_cast<std::size_t>(rank)] = heap_.of_peer(rank, own);
    if (block.dtype != planner::DType::F32)
      return host::sum_in_rank_order(block.dtype, pieces_, {.first = result, .columns = count, .row_stride = count},
                                     count);
    std::ranges::transform(pieces_, f32_pieces_.begin(),
                           [](const std::byte* piece) { return reinterpret_cast<const float*>(piece); });
    host::sum_f32(f32_pieces_, reinterpret_cast<float*>(result), count,
                  !is_read_next && block.bytes(count) >= host::kStreamFromBytes);
  }

  [[nodiscard]] Announcements& of(int rank) noexcept { return *announcements_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int peer(int step) const noexcept {
    return host::peer_at(host::PeerOrder::Staggered, rank_, size_, step);
  }

  const NodeHeap& heap_;
  int rank_, size_;
  std::uint32_t block_count_ = 0; ///< exchanged so far, the present one included

 private:
  void pull(const BlockExchange& block, const Waiter& keep_waiting) {
    const auto bytes = static_cast<std::size_t>(block.piece_bytes());
    of(rank_).ready.add();
    for (int step = 0; step + 1 < size_; ++step) {
      of(peer(step)).ready.wait_for(block_count_, keep_waiting);
      std::memcpy(block.landing(peer(step)), heap_.of_peer(peer(step), block.outgoing(rank_)), bytes);
    }
    std::memcpy(block.landing(rank_), block.outgoing(rank_), bytes);
  }

  void push(const BlockExchange& block, const Waiter& keep_waiting) {
    const auto bytes = static_cast<std::size_t>(block.piece_bytes());
    for (int step = 0; step + 1 < size_; ++step)
      std::memcpy(heap_.of_peer(peer(step), block.landing(rank_)), block.outgoing(peer(step)), bytes);
    announce_product(keep_waiting);
  }

  std::vector<Announcements*> announcements_; ///< by rank
  std::vector<const std::byte*> pieces_;      ///< of the sum that is being made
  std::vector<const float*> f32_pieces_;      ///< the same
};

class TwoShotCollective final : public DirectCollective {
 public:
  TwoShotCollective(const NodeHeap& heap, const SegmentLayout& layout)
      : DirectCollective(heap, layout), own_sum_(heap.segment(rank_).data() + layout.sums) {}

 private:
  void all_reduce(const BlockExchange& block, const Waiter& keep_waiting) override {
    // Also says that this rank has read the sums of the block before.
    announce_product(keep_waiting);
    const auto first = [&](int rank) { return block.piece_count * rank / size_; };
    const std::int64_t own_first = first(rank_);
    sum(block, block.send + block.bytes(own_first), own_sum_, first(rank_ + 1) - own_first,
        /*is_read_next=*/true);
    of(rank_).summed.add();
    const auto take = [&](int rank) {
      std::memcpy(block.receive + block.bytes(first(rank)), heap_.of_peer(rank, own_sum_),
                  static_cast<std::size_t>(block.bytes(first(rank + 1) - first(rank))));
    };
    take(rank_);
    for (int step = 0; step + 1 < size_; ++step) {
      of(peer(step)).summed.wait_for(block_count_, keep_waiting);
      take(peer(step));
    }
  }

  std::byte* own_sum_;
};

} // namespace

SegmentLayout::SegmentLayout(const StageList& list, const MpiVariant& variant, bool allow_independent) {
  const auto intermediate_bytes = static_cast<std::size_t>(host::intermediate_bytes(list.op));
  const auto longest = std::ranges::max_element(list.stages, {}, &Stage::row_count)->row_count;
  const auto block_bytes = static_cast<std::size_t>(longest * list.op.n * planner::size_bytes(list.op.dtype));
  const auto take = [this](std::size_t bytes) {
    const std::size_t offset = byte_count;
    byte_count += whole_pages(bytes);
    return offset;
  };
  signals = take(variant.reads_peers() ? sizeof(Announcements) : 0);
  intermediate = take(intermediate_bytes);
  spare = take(allow_independent ? intermediate_bytes : 0);
  // A rank's part is 1/R of the block, rounded up to an element.
  const bool has_sums = variant.algorithm == MpiVariant::Algorithm::TwoShot;
  sums = take(has_sums ? block_bytes / static_cast<std::size_t>(list.op.world_size) + kPageBytes : 0);
}

std::unique_ptr<Collective> make_direct_collective(const NodeHeap& heap, const SegmentLayout& layout,
                                                   const MpiVariant& variant) {
  if (variant.algorithm == MpiVariant::Algorithm::TwoShot) return std::make_unique<TwoShotCollective>(heap, layout);
  return std::make_unique<DirectCollective>(heap, layout);
}

} // namespace mc2::executor::mpi
