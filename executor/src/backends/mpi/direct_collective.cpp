#include "backends/mpi/direct_collective.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/mpi/neighbours.hpp"
#include "lanes/combine.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/units.hpp"
#include "range.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr std::size_t kPageBytes = 4096;

class DirectCollective : public Collective {
 public:
  DirectCollective(Neighbours ranks, const planner::OpSpec& op)
      : ranks_(std::move(ranks)),
        pushes_(lanes::communicates_first(op)),
        pieces_(static_cast<std::size_t>(ranks_.count())) {}

  void exchange(const BlockExchange& block, const Pause& pause) override {
    ranks_.begin_block();
    if (block.is_summed()) return sum_block(block, pause);
    if (pushes_) return push(block, pause);
    pull(block, pause);
  }

 protected:
  virtual void sum_block(const BlockExchange& block, const Pause& pause) {
    announce(block, pause);
    lanes::sum_past_caches(block.dtype, pieces_at(block, 0), block.sum, block.element_count);
  }

  /// Announces this rank's block and returns when every rank that has a piece for this rank has announced its own.
  void announce(const BlockExchange& block, const Pause& pause) {
    ranks_.announce();
    for (int step = 0; step + 1 < ranks_.count(); ++step) wait_for(ranks_.other(step), block, pause);
  }

  /// The ranks' pieces from element `first` on, by rank.
  [[nodiscard]] std::span<const std::byte* const> pieces_at(const BlockExchange& block, std::int64_t first) {
    const std::int64_t offset = first * planner::size_bytes(block.dtype);
    std::ranges::transform(block.pieces->sources, pieces_.begin(),
                           [&](const std::byte* piece) { return piece + offset; });
    return pieces_;
  }

  Neighbours ranks_; ///< all ranks

 private:
  void wait_for(int peer, const BlockExchange& block, const Pause& pause) {
    if (block.pieces->incoming_bytes[static_cast<std::size_t>(peer)] == 0) return;
    ranks_.wait_for(peer, pause);
  }

  void pull(const BlockExchange& block, const Pause& pause) {
    ranks_.announce();
    const auto copy = [&](int from) {
      lanes::land(block, from, block.pieces->sources[static_cast<std::size_t>(from)]);
    };
    for (int step = 0; step + 1 < ranks_.count(); ++step) {
      wait_for(ranks_.other(step), block, pause);
      copy(ranks_.other(step));
    }
    copy(ranks_.own());
    lanes::add_residuals(block);
  }

  void push(const BlockExchange& block, const Pause& pause) {
    ranks_.push(*block.pieces);
    announce(block, pause);
  }

  bool pushes_;                          ///< writes to the peers instead of reading from them
  std::vector<const std::byte*> pieces_; ///< addends of the present sum
};

class TwoShotCollective final : public DirectCollective {
 public:
  TwoShotCollective(Neighbours ranks, std::byte* own_sum, const planner::OpSpec& op)
      : DirectCollective(std::move(ranks), op), own_sum_(own_sum) {}

 private:
  void sum_block(const BlockExchange& block, const Pause& pause) override {
    // This announcement also says that this rank has read the sums of the block before.
    announce(block, pause);
    const auto part = [&](int rank) { return part_of({0, block.element_count}, rank, ranks_.count()); };
    const Range own = part(ranks_.own());
    lanes::sum_in_rank_order(block.dtype, pieces_at(block, own.first),
                             {.first = own_sum_, .columns = own.count, .row_stride = own.count}, own.count);
    ranks_.announce_sum();
    const std::int64_t element_bytes = planner::size_bytes(block.dtype);
    const auto take = [&](int rank) {
      const Range taken = part(rank);
      std::memcpy(sum_arrival(block) + taken.first * element_bytes, ranks_.at(rank, own_sum_),
                  static_cast<std::size_t>(taken.count * element_bytes));
    };
    take(ranks_.own());
    for (int step = 0; step + 1 < ranks_.count(); ++step) {
      ranks_.wait_for_sum(ranks_.other(step), pause);
      take(ranks_.other(step));
    }
    finish(block);
  }

  std::byte* own_sum_;
};

} // namespace

SegmentLayout::SegmentLayout(const StageList& list, const MpiVariant& variant, bool allow_independent) {
  const auto intermediate_bytes = static_cast<std::size_t>(lanes::intermediate_bytes(list.op));
  const auto block_bytes = static_cast<std::size_t>(longest_piece_bytes(list));
  const auto take = [this](std::size_t bytes) {
    const std::size_t offset = byte_count;
    byte_count += planner::align_up(bytes, kPageBytes);
    return offset;
  };
  signals = take(variant.shares_memory() ? sizeof(Announcements) : 0);
  intermediate = take(intermediate_bytes);
  spare = take(allow_independent ? intermediate_bytes : 0);
  // "two_shot": a rank's part is 1/R of the block, rounded up to an element. "hierarchical": where nodes differ in
  // size, some ranks have several parts, so there is room for the whole block.
  const bool is_part = variant.algorithm == MpiVariant::Algorithm::TwoShot;
  const bool is_whole = variant.algorithm == MpiVariant::Algorithm::Hierarchical &&
                        planner::collective_of(list.op.kind) == planner::Collective::AllReduce;
  sums = take(is_part ? block_bytes / static_cast<std::size_t>(list.op.world_size) + kPageBytes
                      : (is_whole ? block_bytes : 0));
  const bool needs_staging = variant.algorithm != MpiVariant::Algorithm::Direct;
  staging = take(needs_staging ? static_cast<std::size_t>(staging_bytes(list)) : 0);
}

std::unique_ptr<Collective> make_direct_collective(const node::NodeHeap& heap, const SegmentLayout& layout,
                                                   const planner::OpSpec& op, const MpiVariant& variant) {
  const int rank = World::get().rank();
  Neighbours ranks(heap, layout.signals, rank, World::get().placement().ranks_of(0));
  if (variant.algorithm != MpiVariant::Algorithm::TwoShot)
    return std::make_unique<DirectCollective>(std::move(ranks), op);
  return std::make_unique<TwoShotCollective>(std::move(ranks), heap.segment(rank).data() + layout.sums, op);
}

} // namespace mc2::executor::mpi
