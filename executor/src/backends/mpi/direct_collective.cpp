#include "backends/mpi/direct_collective.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "lanes/combine.hpp"
#include "lanes/peer_order.hpp"
#include "lanes/vector_sum.hpp"
#include "node/shared_signal.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

/// What a rank announces, each with a count of the blocks for which it has.
struct Announcements {
  node::SharedSignal ready;  ///< its product can be read, or its rows of A are written
  node::SharedSignal summed; ///< "two_shot": its sum can be read
};
static_assert(sizeof(Announcements) <= kPageBytes);

class DirectCollective : public Collective {
 public:
  DirectCollective(const node::NodeHeap& heap, const SegmentLayout& layout, const planner::OpSpec& op)
      : heap_(heap),
        pushes_(lanes::communicates_first(op)),
        rank_(World::get().rank()),
        size_(World::get().size()),
        pieces_(static_cast<std::size_t>(size_)),
        f32_pieces_(pieces_.size()) {
    for (int rank = 0; rank < size_; ++rank)
      announcements_.push_back(reinterpret_cast<Announcements*>(heap.segment(rank).data() + layout.signals));
    // Before the first run, which starts when all ranks have come.
    new (announcements_[static_cast<std::size_t>(rank_)]) Announcements;
  }

  void exchange(const BlockExchange& block, const Pause& pause) override {
    ++block_count_;
    if (block.is_summed()) return sum_block(block, pause);
    if (pushes_) return push(block, pause);
    pull(block, pause);
  }

 protected:
  virtual void sum_block(const BlockExchange& block, const Pause& pause) {
    announce(block, pause);
    sum(block, {.target = block.sum, .count = block.element_count});
  }

  /// Returns when every rank that this one gets something from has announced its own.
  void announce(const BlockExchange& block, const Pause& pause) {
    of(rank_).ready.add();
    for (int step = 0; step + 1 < size_; ++step) wait_for(peer(step), block, pause);
  }

  /// Elements [first, first + count) of the block, added up in rank order.
  struct PartialSum {
    lanes::SumTarget target = {};
    std::int64_t first = 0, count = 0;
    bool is_read_next = false; ///< by the peers: it had better stay in the caches
  };
  void sum(const BlockExchange& block, const PartialSum& part) {
    const std::int64_t offset = part.first * planner::size_bytes(block.dtype);
    std::ranges::transform(block.pieces->sources, pieces_.begin(),
                           [&](const std::byte* piece) { return piece + offset; });
    const lanes::SumTarget& target = part.target;
    if (!target.is_plain() || block.dtype != planner::DType::F32)
      return lanes::sum_in_rank_order(block.dtype, pieces_, target, part.count);
    std::ranges::transform(pieces_, f32_pieces_.begin(),
                           [](const std::byte* piece) { return reinterpret_cast<const float*>(piece); });
    const std::int64_t bytes = part.count * planner::size_bytes(block.dtype);
    lanes::sum_f32(f32_pieces_, reinterpret_cast<float*>(target.first), part.count,
                   !part.is_read_next && bytes >= lanes::kStreamFromBytes);
  }

  [[nodiscard]] Announcements& of(int rank) noexcept { return *announcements_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int peer(int step) const noexcept {
    return lanes::peer_at(lanes::PeerOrder::Staggered, rank_, size_, step);
  }

  const node::NodeHeap& heap_;
  bool pushes_; ///< what it sends, instead of reading what it gets
  int rank_, size_;
  std::uint32_t block_count_ = 0; ///< exchanged so far, the present one included

 private:
  void wait_for(int peer, const BlockExchange& block, const Pause& pause) {
    if (block.pieces->incoming_bytes[static_cast<std::size_t>(peer)] == 0) return;
    of(peer).ready.wait_for(block_count_, pause);
  }

  void pull(const BlockExchange& block, const Pause& pause) {
    of(rank_).ready.add();
    const auto copy = [&](int from) {
      lanes::land(block, from, block.pieces->sources[static_cast<std::size_t>(from)]);
    };
    for (int step = 0; step + 1 < size_; ++step) {
      wait_for(peer(step), block, pause);
      copy(peer(step));
    }
    copy(rank_);
    lanes::add_residuals(block);
  }

  void push(const BlockExchange& block, const Pause& pause) {
    const lanes::PieceAddresses& pieces = *block.pieces;
    for (int step = 0; step + 1 < size_; ++step) {
      const auto to = static_cast<std::size_t>(peer(step));
      const auto bytes = static_cast<std::size_t>(pieces.outgoing_bytes[to]);
      if (bytes > 0) std::memcpy(pieces.remote_landings[to], pieces.outgoing[to], bytes);
    }
    announce(block, pause);
  }

  std::vector<Announcements*> announcements_; ///< by rank
  std::vector<const std::byte*> pieces_;      ///< of the sum that is being made
  std::vector<const float*> f32_pieces_;      ///< the same
};

class TwoShotCollective final : public DirectCollective {
 public:
  TwoShotCollective(const node::NodeHeap& heap, const SegmentLayout& layout, const planner::OpSpec& op)
      : DirectCollective(heap, layout, op), own_sum_(heap.segment(rank_).data() + layout.sums) {}

 private:
  void sum_block(const BlockExchange& block, const Pause& pause) override {
    // Also says that this rank has read the sums of the block before.
    announce(block, pause);
    const auto first = [&](int rank) { return block.element_count * rank / size_; };
    const std::int64_t count = first(rank_ + 1) - first(rank_);
    sum(block, {.target = {.first = own_sum_, .columns = count, .row_stride = count},
                .first = first(rank_),
                .count = count,
                .is_read_next = true});
    of(rank_).summed.add();
    const std::int64_t element_bytes = planner::size_bytes(block.dtype);
    const auto take = [&](int rank) {
      std::memcpy(sum_arrival(block) + first(rank) * element_bytes, heap_.of_peer(rank, own_sum_),
                  static_cast<std::size_t>((first(rank + 1) - first(rank)) * element_bytes));
    };
    take(rank_);
    for (int step = 0; step + 1 < size_; ++step) {
      of(peer(step)).summed.wait_for(block_count_, pause);
      take(peer(step));
    }
    finish(block);
  }

  std::byte* own_sum_;
};

} // namespace

SegmentLayout::SegmentLayout(const StageList& list, const MpiVariant& variant, bool allow_independent) {
  const auto intermediate_bytes = static_cast<std::size_t>(lanes::intermediate_bytes(list.op));
  const auto longest = std::ranges::max_element(list.stages, {}, &Stage::row_count)->row_count;
  const auto block_bytes = static_cast<std::size_t>(lanes::piece_bytes(list.op, longest));
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
  const bool needs_staging = variant.algorithm != MpiVariant::Algorithm::Direct;
  staging = take(needs_staging ? static_cast<std::size_t>(staging_bytes(list)) : 0);
}

std::unique_ptr<Collective> make_direct_collective(const node::NodeHeap& heap, const SegmentLayout& layout,
                                                   const planner::OpSpec& op, const MpiVariant& variant) {
  if (variant.algorithm == MpiVariant::Algorithm::TwoShot) return std::make_unique<TwoShotCollective>(heap, layout, op);
  return std::make_unique<DirectCollective>(heap, layout, op);
}

} // namespace mc2::executor::mpi
