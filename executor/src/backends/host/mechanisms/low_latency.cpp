#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "backends/host/mechanisms/mechanism.hpp"
#include "backends/host/mechanisms/waiting.hpp"
#include "lanes/combine.hpp"
#include "lanes/symmetric_heap.hpp"

namespace mc2::executor::host {
namespace {

using Word = std::uint64_t; ///< low half: data; high half: the flag, i.e. the ordinal of the chunk the word belongs to

constexpr std::int64_t kDataBytes = 4; ///< data bytes in a word
constexpr std::int64_t kChunkBytes = std::int64_t{16} << 10U;
constexpr std::int64_t kChunkWords = kChunkBytes / kDataBytes;
constexpr std::int64_t kPacketSlotCount = 2;
constexpr unsigned kFlagShift = 32;

static_assert(std::atomic_ref<Word>::is_always_lock_free, "data and flag must become visible together");

void pack(std::span<const std::byte> data, std::uint32_t flag, Word* words) {
  for (std::size_t done = 0; done < data.size(); done += kDataBytes) {
    std::uint32_t half = 0;
    std::memcpy(&half, data.data() + done, std::min<std::size_t>(kDataBytes, data.size() - done));
    std::atomic_ref<Word>(*words++).store(Word{flag} << kFlagShift | half, std::memory_order_release);
  }
}

/// Copies data out of the words that have arrived, starting at byte `done`. Returns the number of bytes that are copied
/// now.
std::size_t unpack(Word* words, std::uint32_t flag, std::span<std::byte> data, std::size_t done) {
  for (; done < data.size(); done += kDataBytes) {
    const Word word = std::atomic_ref<Word>(words[done / kDataBytes]).load(std::memory_order_acquire);
    if (static_cast<std::uint32_t>(word >> kFlagShift) != flag) return done;
    const auto half = static_cast<std::uint32_t>(word);
    std::memcpy(data.data() + done, &half, std::min<std::size_t>(kDataBytes, data.size() - done));
  }
  return data.size();
}

class LowLatency final : public Transport {
 public:
  explicit LowLatency(int world_size)
      : world_size_(world_size),
        mailboxes_(world_size, static_cast<std::size_t>(low_latency_bytes(world_size) / world_size)),
        ranks_(static_cast<std::size_t>(world_size)) {
    for (Rank& rank : ranks_) {
      rank.arrived = std::vector<lanes::Signal>(ranks_.size());
      rank.pieces.resize(ranks_.size());
      rank.staging.resize(ranks_.size() * kChunkBytes);
    }
  }

  [[nodiscard]] bool reads_peers_directly() const noexcept override { return false; }

  void begin_run(lanes::Clock::time_point /*start*/) noexcept override {
    for (Rank& rank : ranks_) {
      rank.chunk_count = 0;
      for (lanes::Signal& signal : rank.arrived) signal.reset();
    }
  }

  lanes::ExchangeTimes exchange(const lanes::BlockExchange& block, const lanes::RunControl& control) override {
    control.throw_if_aborted();
    const auto start = lanes::Clock::now();
    for (std::int64_t done = 0; done < block.piece_bytes(); done += kChunkBytes) {
      const Chunk chunk{done, std::min(kChunkBytes, block.piece_bytes() - done)};
      ++rank_of(block.rank).flag;
      ++rank_of(block.rank).chunk_count;
      send(block, chunk);
      receive(block, chunk, control);
    }
    return {start, lanes::Clock::now()};
  }

  void abort() noexcept override {
    for (Rank& rank : ranks_) {
      for (lanes::Signal& signal : rank.arrived) signal.poison();
    }
  }

 private:
  struct Chunk {
    std::int64_t offset = 0; ///< bytes into the piece
    std::int64_t byte_count = 0;
  };
  struct alignas(64) Rank {
    std::vector<lanes::Signal>
        arrived; ///< by sender: chunks of this run that it has written here; wakes a receiver that sleeps
    std::uint32_t chunk_count = 0; ///< chunks of this run; only this rank's lane uses it
    /// Flag of the present chunk, equal on all ranks. The count continues from run to run, because mailboxes still hold
    /// the words of earlier runs.
    std::uint32_t flag = 0;
    std::vector<const std::byte*> pieces;
    std::vector<std::byte> staging;
  };

  Rank& rank_of(int rank) noexcept { return ranks_[static_cast<std::size_t>(rank)]; }

  // Two slots are enough: a rank writes chunk t + 2 only after it has read chunk t + 1 of every peer, and a peer writes
  // its chunk t + 1 only after it has read every chunk t.
  [[nodiscard]] Word* mailbox(int receiver, int sender, std::uint32_t flag) const noexcept {
    const std::int64_t slot = (flag % kPacketSlotCount) * world_size_ + sender;
    return reinterpret_cast<Word*>(mailboxes_.segment(receiver).data()) + slot * kChunkWords;
  }

  void send(const lanes::BlockExchange& block, const Chunk& chunk) {
    const std::uint32_t flag = rank_of(block.rank).flag;
    for (int i = 0; i < world_size_ - 1; ++i) {
      const int peer = lanes::peer_at(block.order, block.rank, world_size_, i);
      const std::byte* piece = block.pieces->outgoing[static_cast<std::size_t>(peer)] + chunk.offset;
      pack({piece, static_cast<std::size_t>(chunk.byte_count)}, flag, mailbox(peer, block.rank, flag));
      rank_of(peer).arrived[static_cast<std::size_t>(block.rank)].add();
    }
  }

  void receive(const lanes::BlockExchange& block, const Chunk& chunk, const lanes::RunControl& control) {
    Rank& own = rank_of(block.rank);
    const auto size = static_cast<std::size_t>(chunk.byte_count);
    for (int peer = 0; peer < world_size_; ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      own.pieces[index] = block.pieces->sources[index] + chunk.offset;
      if (peer != block.rank) {
        std::byte* const staged = own.staging.data() + peer * kChunkBytes;
        unpack_from(peer, block, {staged, size}, control);
        own.pieces[index] = staged;
      }
      std::byte* const landing = block.pieces->landings[index];
      if (landing != nullptr) lanes::copy_to_landing(block.landing, landing, chunk.offset, {own.pieces[index], size});
    }
    if (!block.is_summed()) return;
    const std::int64_t element_count = chunk.byte_count / planner::size_bytes(block.dtype);
    lanes::sum_in_rank_order(block.dtype, own.pieces, lanes::dense_target(block, chunk.offset, element_count),
                             element_count);
  }

  void unpack_from(int peer, const lanes::BlockExchange& block, std::span<std::byte> data,
                   const lanes::RunControl& control) {
    Rank& own = rank_of(block.rank);
    Word* const words = mailbox(block.rank, peer, own.flag);
    std::size_t done = 0;
    if (poll([&] {
          done = unpack(words, own.flag, data, done);
          return done == data.size();
        }))
      return;
    await(own.arrived[static_cast<std::size_t>(peer)], own.chunk_count, control,
          [&] { return lanes::awaited_piece(block.rank, block.block, peer); });
    done = unpack(words, own.flag, data, done);
    MC2_CHECK(done == data.size(), "a chunk was announced before all its words were written");
  }

  int world_size_;
  lanes::SymmetricHeap mailboxes_;
  std::vector<Rank> ranks_;
};

} // namespace

std::int64_t low_latency_bytes(int world_size) noexcept {
  return kPacketSlotCount * world_size * world_size * kChunkWords * static_cast<std::int64_t>(sizeof(Word));
}

std::unique_ptr<Transport> make_low_latency(int world_size) { return std::make_unique<LowLatency>(world_size); }

} // namespace mc2::executor::host
