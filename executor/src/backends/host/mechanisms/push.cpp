#include <algorithm>
#include <vector>

#include "backends/host/mechanisms/mechanism.hpp"
#include "backends/host/mechanisms/proxy_threads.hpp"
#include "backends/host/mechanisms/waiting.hpp"
#include "lanes/combine.hpp"
#include "lanes/symmetric_heap.hpp"
#include "texts.hpp"

namespace mc2::executor::host {
namespace {

constexpr std::int64_t kPushSliceBytes = std::int64_t{64} << 10U;
constexpr std::uint32_t kPushSlotCount = 2; ///< slots that each sender has in the memory of each receiver

class Push final : public Transport {
 public:
  Push(const MechanismShape& shape, ProxyThreads* proxies)
      : world_size_(shape.world_size), proxies_(proxies), ranks_(static_cast<std::size_t>(shape.world_size)) {
    if (shape.is_summed) mailboxes_ = std::make_unique<lanes::SymmetricHeap>(world_size_, mailbox_bytes(world_size_));
    for (Rank& rank : ranks_) {
      rank.arrived = std::vector<lanes::Signal>(ranks_.size());
      rank.pieces.resize(ranks_.size());
    }
  }

  [[nodiscard]] bool reads_peers_directly() const noexcept override { return false; }

  void begin_run(lanes::Clock::time_point /*start*/) noexcept override {
    for (Rank& rank : ranks_) {
      rank.sent = rank.received = 0;
      rank.consumed.reset();
      for (lanes::Signal& signal : rank.arrived) signal.reset();
    }
  }

  lanes::ExchangeTimes exchange(const lanes::BlockExchange& block, const lanes::RunControl& control) override {
    control.throw_if_aborted();
    const auto start = lanes::Clock::now();
    if (block.is_summed()) {
      exchange_sums(block, control);
    } else {
      exchange_copies(block, control);
    }
    return {start, lanes::Clock::now()};
  }

  void end_run() noexcept override {
    if (proxies_ == nullptr) return;
    for (int rank = 0; rank < world_size_; ++rank) proxies_->of(rank).wait_idle();
  }

  void abort() noexcept override {
    for (Rank& rank : ranks_) {
      rank.consumed.poison();
      for (lanes::Signal& signal : rank.arrived) signal.poison();
    }
  }

 private:
  struct alignas(64) Rank {
    std::vector<lanes::Signal> arrived; ///< by sender: slices of this run that the sender has put here
    lanes::Signal consumed;             ///< slices of this run that this rank has taken from every sender
    std::uint32_t sent = 0;             ///< slices of this run that this rank has put to each peer; own lane only
    std::uint32_t received = 0;         ///< slices of this run that this rank has taken from each peer; own lane only
    std::vector<const std::byte*> pieces;
  };

  struct Route {
    int sender = 0;
    int receiver = 0;
  };

  Rank& rank_of(int rank) noexcept { return ranks_[static_cast<std::size_t>(rank)]; }

  /// Writes each piece to its final place in one slice. No credit is needed, because no slot is used twice.
  void exchange_copies(const lanes::BlockExchange& block, const lanes::RunControl& control) {
    const auto own = static_cast<std::size_t>(block.rank);
    const auto byte_count = static_cast<std::size_t>(block.piece_bytes());
    for_each_peer(block, [&](int peer) {
      const auto to = static_cast<std::size_t>(peer);
      send({.from = block.pieces->outgoing[to],
            .to = block.pieces->remote_landings[to],
            .byte_count = byte_count,
            .landing = block.landing,
            .arrived = &rank_of(peer).arrived[own]},
           {block.rank, peer}, control);
    });
    lanes::land(block, block.rank, block.pieces->sources[own]);
    ++rank_of(block.rank).received;
    await_slice(block, control);
  }

  /// Sends slices to mailboxes with two slots per sender: the second slice travels while the first is summed.
  void exchange_sums(const lanes::BlockExchange& block, const lanes::RunControl& control) {
    const std::int64_t slice_elements = kPushSliceBytes / planner::size_bytes(block.dtype);
    const std::int64_t slice_count = (block.element_count + slice_elements - 1) / slice_elements;
    const auto length = [&](std::int64_t i) {
      return std::min(slice_elements, block.element_count - i * slice_elements);
    };
    std::int64_t sent = 0;
    for (std::int64_t i = 0; i < slice_count; ++i) {
      for (; sent < slice_count && sent < i + kPushSlotCount; ++sent)
        put_slice(block, sent * slice_elements, length(sent), control);
      sum_slice(block, i * slice_elements, length(i), control);
    }
  }

  void put_slice(const lanes::BlockExchange& block, std::int64_t first, std::int64_t count,
                 const lanes::RunControl& control) {
    const std::int64_t element_bytes = planner::size_bytes(block.dtype);
    Rank& own = rank_of(block.rank);
    // The slot is free when the receiver has taken the slice that was in it before.
    const std::uint32_t credit_count = ++own.sent > kPushSlotCount ? own.sent - kPushSlotCount : 0;
    for_each_peer(block, [&](int peer) {
      Rank& receiver = rank_of(peer);
      send({.from = block.pieces->outgoing[static_cast<std::size_t>(peer)] + first * element_bytes,
            .to = mailbox(peer, block.rank, own.sent),
            .byte_count = static_cast<std::size_t>(count * element_bytes),
            .landing = {},
            .arrived = &receiver.arrived[static_cast<std::size_t>(block.rank)],
            .credit = &receiver.consumed,
            .credit_count = credit_count},
           {block.rank, peer}, control);
    });
  }

  void sum_slice(const lanes::BlockExchange& block, std::int64_t first, std::int64_t count,
                 const lanes::RunControl& control) {
    const std::int64_t offset = first * planner::size_bytes(block.dtype);
    Rank& own = rank_of(block.rank);
    ++own.received;
    await_slice(block, control);
    for (int peer = 0; peer < world_size_; ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      own.pieces[index] =
          peer == block.rank ? block.pieces->sources[index] + offset : mailbox(block.rank, peer, own.received);
    }
    lanes::sum_in_rank_order(block.dtype, own.pieces, lanes::dense_target(block, offset, count), count);
    own.consumed.add();
  }

  void send(const Put& put, const Route& route, const lanes::RunControl& control) {
    if (proxies_ != nullptr) return proxies_->of(route.sender).post(put, control);
    switch (carry_out(put, control)) {
      case lanes::WaitResult::Reached: return;
      case lanes::WaitResult::Aborted: throw lanes::RunAborted{};
      case lanes::WaitResult::TimedOut:
        throw lanes::deadline_error(rank_text(route.sender) + " waited for " + rank_text(route.receiver) +
                                    " to empty its mailbox");
    }
  }

  void await_slice(const lanes::BlockExchange& block, const lanes::RunControl& control) {
    const Rank& own = rank_of(block.rank);
    for_each_peer(block, [&](int peer) {
      await(own.arrived[static_cast<std::size_t>(peer)], own.received, control,
            [&] { return lanes::awaited_piece(block.rank, block.block, peer); });
    });
  }

  template <typename Action>
  void for_each_peer(const lanes::BlockExchange& block, const Action& action) {
    for (int i = 0; i < world_size_ - 1; ++i) action(lanes::peer_at(block.order, block.rank, world_size_, i));
  }

  /// Address of slice number `ordinal` (from 1) of a sender in the memory of a receiver.
  [[nodiscard]] std::byte* mailbox(int receiver, int sender, std::uint32_t ordinal) const noexcept {
    const std::int64_t slot = static_cast<std::int64_t>(ordinal % kPushSlotCount) * world_size_ + sender;
    return mailboxes_->segment(receiver).data() + slot * kPushSliceBytes;
  }

  [[nodiscard]] static std::size_t mailbox_bytes(int world_size) noexcept {
    return static_cast<std::size_t>(push_bytes(world_size) / world_size);
  }

  int world_size_;
  ProxyThreads* proxies_; ///< null: the lane's own thread writes
  std::unique_ptr<lanes::SymmetricHeap> mailboxes_;
  std::vector<Rank> ranks_;
};

} // namespace

std::int64_t push_bytes(int world_size) noexcept {
  return std::int64_t{kPushSlotCount} * world_size * world_size * kPushSliceBytes;
}

std::unique_ptr<Transport> make_push(const MechanismShape& shape, ProxyThreads* proxies) {
  return std::make_unique<Push>(shape, proxies);
}

} // namespace mc2::executor::host
