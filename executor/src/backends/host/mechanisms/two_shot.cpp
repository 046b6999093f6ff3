#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backends/host/mechanisms/mechanism.hpp"
#include "backends/host/mechanisms/waiting.hpp"
#include "lanes/combine.hpp"
#include "range.hpp"

namespace mc2::executor::host {
namespace {

/// Bytes of one rank's slice. The slice is small enough that its sums are still in the cache when the other ranks copy
/// them.
constexpr std::int64_t kSliceBytes = std::int64_t{128} << 10U;

class TwoShot final : public Transport {
 public:
  explicit TwoShot(int world_size) : ranks_(static_cast<std::size_t>(world_size)) {
    for (Rank& rank : ranks_) rank.pieces.resize(ranks_.size());
  }

  void begin_run(lanes::Clock::time_point /*start*/) noexcept override {
    for (Rank& rank : ranks_) {
      rank.summed.reset();
      rank.window_count = 0;
      rank.block_count = 0;
    }
  }

  /// Goes through the block window by window: sums the own slice of a window while other ranks may still copy the
  /// window before.
  lanes::ExchangeTimes exchange(const lanes::BlockExchange& block, const lanes::RunControl& control) override {
    control.throw_if_aborted();
    const auto start = lanes::Clock::now();
    Rank& own = rank_of(block.rank);
    // The addresses of two blocks are enough: a rank that starts block b + 2 has copied every peer's slices of b + 1,
    // and a peer starts b + 1 only after it has finished b.
    own.results[own.block_count++ % 2] = block.sum.first;
    Range window, before;
    for (std::int64_t first = 0; first < block.element_count; first += window.count) {
      window = {first, std::min(window_elements(block), block.element_count - first)};
      sum_own(block, window);
      if (before.count > 0) copy_others(block, before, own.window_count - 1, control);
      before = window;
    }
    copy_others(block, before, own.window_count, control);
    return {start, lanes::Clock::now()};
  }

  void abort() noexcept override {
    for (Rank& rank : ranks_) rank.summed.poison();
  }

 private:
  struct alignas(64) Rank {
    lanes::Signal summed;                ///< windows of this run of which this rank has summed its slice
    std::array<std::byte*, 2> results{}; ///< where the sums of the last two blocks go; `summed` publishes it
    std::uint32_t window_count = 0;      ///< windows of this run that this rank has begun; used by its own lane only
    std::uint32_t block_count = 0;       ///< blocks of this run that this rank has begun; used by its own lane only
    std::vector<const std::byte*> pieces;
  };

  Rank& rank_of(int rank) noexcept { return ranks_[static_cast<std::size_t>(rank)]; }

  [[nodiscard]] std::int64_t window_elements(const lanes::BlockExchange& block) const {
    return kSliceBytes / planner::size_bytes(block.dtype) * static_cast<std::int64_t>(ranks_.size());
  }

  /// The part of the window that `rank` sums.
  [[nodiscard]] Range slice_of(const Range& window, int rank) const noexcept {
    return part_of(window, rank, static_cast<std::int64_t>(ranks_.size()));
  }

  void sum_own(const lanes::BlockExchange& block, const Range& window) {
    Rank& own = rank_of(block.rank);
    const Range slice = slice_of(window, block.rank);
    const std::int64_t offset = slice.first * planner::size_bytes(block.dtype);
    for (std::size_t peer = 0; peer < ranks_.size(); ++peer) own.pieces[peer] = block.pieces->sources[peer] + offset;
    lanes::sum_in_rank_order(block.dtype, own.pieces, lanes::dense_target(block, offset, slice.count), slice.count);
    ++own.window_count;
    own.summed.add();
  }

  /// @param ordinal  number of the window in this run, from 1
  void copy_others(const lanes::BlockExchange& block, const Range& window, std::uint32_t ordinal,
                   const lanes::RunControl& control) {
    const int world_size = static_cast<int>(ranks_.size());
    const std::uint32_t result = (rank_of(block.rank).block_count - 1) % 2;
    for (int i = 0; i < world_size - 1; ++i) {
      const int peer = lanes::peer_at(block.order, block.rank, world_size, i);
      const Rank& other = rank_of(peer);
      await(other.summed, ordinal, control, [&] { return lanes::awaited_piece(block.rank, block.block, peer); });
      const Range slice = slice_of(window, peer);
      const std::int64_t element_bytes = planner::size_bytes(block.dtype);
      const std::int64_t offset = slice.first * element_bytes;
      std::memcpy(block.sum.first + offset, other.results[result] + offset,
                  static_cast<std::size_t>(slice.count * element_bytes));
    }
  }

  std::vector<Rank> ranks_;
};

} // namespace

std::unique_ptr<Transport> make_two_shot(int world_size) { return std::make_unique<TwoShot>(world_size); }

} // namespace mc2::executor::host
