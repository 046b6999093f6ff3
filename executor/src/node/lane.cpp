#include "node/lane.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <new>
#include <numeric>

#include "lanes/combine.hpp"
#include "lanes/peer_order.hpp"
#include "lanes/vector_sum.hpp"
#include "texts.hpp"

namespace mc2::executor::node {
namespace {

using planner::DType;

constexpr std::size_t kPageBytes = 4096;
/// Up to so many bytes of all ranks together, each rank reads and adds up everything itself. That needs one meeting of
/// the ranks, where adding up in parts needs two.
constexpr std::size_t kWholeBytes = std::size_t{64} << 10U;
constexpr std::size_t kStreamedBytes = std::size_t{16} << 10U;

/// Copies to memory that peers read. The data are visible to the peers with the next signal.
/// @param to  aligned to a vector
void copy_to_peers(std::byte* to, const std::byte* from, std::size_t count) {
  if (count < kStreamedBytes) {
    std::memcpy(to, from, count);
    return;
  }
  lanes::copy_past_caches(from, static_cast<std::int64_t>(count), to);
  lanes::finish_past_caches();
}

std::int64_t elements_in(std::size_t bytes, DType dtype) {
  return static_cast<std::int64_t>(bytes) / planner::size_bytes(dtype);
}

std::string text(const Call& call) {
  constexpr std::array names{"all_reduce", "reduce_scatter", "all_gather", "all_to_all"};
  const std::string name = names[static_cast<std::size_t>(call.kind)];
  const bool has_type = call.kind == Call::Kind::AllReduce || call.kind == Call::Kind::ReduceScatter;
  return name + " of " + std::to_string(call.byte_count) + " bytes" +
         (has_type ? " of " + std::string(planner::to_string(call.dtype)) : "");
}

} // namespace

Neighbours neighbours_of(int rank, std::span<const int> nodes) {
  std::map<int, std::vector<int>> ranks_of;
  for (std::size_t other = 0; other < nodes.size(); ++other) ranks_of[nodes[other]].push_back(static_cast<int>(other));
  const std::vector<int>& near = ranks_of.at(nodes[static_cast<std::size_t>(rank)]);
  const bool have_as_many = std::ranges::all_of(
      ranks_of, [&](const auto& node) { return node.first >= 0 && node.second.size() == near.size(); });
  if (!have_as_many || ranks_of.size() == 1 || near.size() == 1) {
    std::vector<int> all(nodes.size());
    std::iota(all.begin(), all.end(), 0);
    return {all, {rank}};
  }
  Neighbours result{near, {}};
  const auto place = std::ranges::find(near, rank) - near.begin();
  for (const auto& [node, ranks] : ranks_of) result.counterparts.push_back(ranks[static_cast<std::size_t>(place)]);
  return result;
}

std::size_t part_start(std::size_t count, int part, int part_count) noexcept {
  const std::size_t lines = (count + kPartAlignment - 1) / kPartAlignment;
  const std::size_t first = lines * static_cast<std::size_t>(part) / static_cast<std::size_t>(part_count);
  return std::min(count, first * kPartAlignment);
}

/// The state that a lane shares with its peers. It is at the start of the lane's part of a segment; the slots follow.
struct Lane::Shared {
  SharedSignal ready;          ///< counts steps whose slot can be read
  SharedSignal node_summed;    ///< counts steps whose sums of a node can be read
  SharedSignal summed;         ///< counts steps whose part of the sum can be read
  std::array<Call, 2> calls{}; ///< the rank's call in the steps of both slots
};

std::size_t Lane::segment_bytes() noexcept {
  static_assert(sizeof(Shared) <= kPageBytes);
  return kPageBytes + 4 * kSlotBytes;
}

Lane::Lane(const NodeHeap& heap, int rank, std::span<const int> nodes, int index, PeerPause pause, int looks)
    : rank_(rank),
      world_size_(static_cast<int>(nodes.size())),
      all_(nodes.size()),
      neighbours_(neighbours_of(rank, nodes)),
      place_(static_cast<int>(std::ranges::find(neighbours_.near, rank) - neighbours_.near.begin())),
      pause_([this, pause = std::move(pause)] {
        if (!waits_since_) waits_since_ = Clock::now();
        pause(peer_, *waits_since_);
      }),
      looks_(looks),
      sources_(nodes.size()) {
  std::iota(all_.begin(), all_.end(), 0);
  for (const int other : all_)
    shared_.push_back(
        reinterpret_cast<Shared*>(heap.segment(other).data() + static_cast<std::size_t>(index) * segment_bytes()));
  new (shared_[static_cast<std::size_t>(rank)]) Shared;
}

std::byte* Lane::slot(int rank) const noexcept {
  return reinterpret_cast<std::byte*>(shared_[static_cast<std::size_t>(rank)]) + kPageBytes + step_ % 2 * kSlotBytes;
}

std::byte* Lane::node_sums(int rank) const noexcept { return slot(rank) + 2 * kSlotBytes; }

int Lane::peer(int step) const noexcept {
  return lanes::peer_at(lanes::PeerOrder::Staggered, rank_, world_size_, step);
}

void Lane::announce(const Call& call) {
  Shared& own = *shared_[static_cast<std::size_t>(rank_)];
  own.calls[step_ % 2] = call;
  own.ready.add();
}

void Lane::wait_for(int peer, const Call& call) {
  const Shared& other = *shared_[static_cast<std::size_t>(peer)];
  wait_for(peer, other.ready, step_);
  const Call& theirs = other.calls[step_ % 2];
  if (theirs == call) return;
  throw SystemError("collective", EINVAL,
                    rank_text(rank_) + " calls " + text(call) + ", " + rank_text(peer) + " " + text(theirs));
}

void Lane::wait_for(int peer, const SharedSignal& signal, std::uint32_t count) {
  peer_ = peer;
  waits_since_.reset();
  try {
    signal.wait_for(count, pause_, looks_);
  } catch (...) {
    if (!signal.has_reached(count)) throw; // else the peer came after all, and other ranks may have gone on
  }
}

void Lane::announce_and_wait(const Call& call) {
  announce(call);
  for (int step = 0; step + 1 < world_size_; ++step) wait_for(peer(step), call);
}

std::span<const std::byte* const> Lane::sources(std::span<const int> ranks, std::size_t offset, const std::byte* own) {
  std::ranges::transform(ranks, sources_.begin(), [&](int rank) { return rank == rank_ ? own : slot(rank) + offset; });
  return std::span(sources_).first(ranks.size());
}

void Lane::sum_near(DType dtype, std::size_t offset, const std::byte* own, std::size_t index, std::size_t bytes) {
  lanes::sum_unrounded(dtype, sources(neighbours_.near, offset, own), node_sums(rank_) + index * node_sum_stride(),
                       elements_in(bytes, dtype));
}

void Lane::sum_nodes(DType dtype, std::byte* out, std::size_t index, std::size_t bytes) {
  const std::vector<int>& ranks = neighbours_.counterparts;
  shared_[static_cast<std::size_t>(rank_)]->node_summed.add();
  ++node_summed_;
  for (const int other : ranks)
    if (other != rank_) wait_for(other, shared_[static_cast<std::size_t>(other)]->node_summed, node_summed_);
  std::ranges::transform(ranks, sources_.begin(),
                         [&](int rank) { return node_sums(rank) + index * node_sum_stride(); });
  lanes::sum_rounded(dtype, std::span(sources_).first(ranks.size()), out, elements_in(bytes, dtype));
}

/// A step in which every rank reads all ranks' data and adds them up.
void Lane::sum_whole(const Call& call, std::byte* data, std::size_t count) {
  copy_to_peers(slot(rank_), data, count);
  announce_and_wait(call);
  lanes::sum_partials(call.dtype, sources(all_, 0, data), data, elements_in(count, call.dtype));
}

/// A step in which every rank adds up one part, together with its counterparts on other nodes, and then reads the other
/// parts from the near ranks.
void Lane::sum_parts(const Call& call, std::byte* data, std::size_t count) {
  const std::vector<int>& near = neighbours_.near;
  const auto near_count = static_cast<int>(near.size());
  const auto start = [&](int place) { return part_start(count, place, near_count); };
  const std::size_t own = start(place_), own_bytes = start(place_ + 1) - own;
  copy_to_peers(slot(rank_), data, own);
  copy_to_peers(slot(rank_) + own + own_bytes, data + own + own_bytes, count - own - own_bytes);
  announce_and_wait(call);
  if (is_of_several_nodes()) {
    sum_near(call.dtype, own, data + own, 0, own_bytes);
    sum_nodes(call.dtype, data + own, 0, own_bytes);
  } else if (world_size_ == 2) { // each part is summed by one rank only, and the order of two addends changes no bits
    lanes::add_partial(call.dtype, slot(1 - rank_) + own, data + own, elements_in(own_bytes, call.dtype));
  } else {
    lanes::sum_partials(call.dtype, sources(all_, own, data + own), data + own, elements_in(own_bytes, call.dtype));
  }
  copy_to_peers(slot(rank_) + own, data + own, own_bytes); // this part of the slot was left free above
  shared_[static_cast<std::size_t>(rank_)]->summed.add();
  ++summed_;
  for (int step = 0; step + 1 < near_count; ++step) {
    const int place = lanes::peer_at(lanes::PeerOrder::Staggered, place_, near_count, step);
    const int other = near[static_cast<std::size_t>(place)];
    wait_for(other, shared_[static_cast<std::size_t>(other)]->summed, summed_);
    std::memcpy(data + start(place), slot(other) + start(place), start(place + 1) - start(place));
  }
}

/// Calls `step(at, bytes)` for steps of at most `most` bytes, which go through [first, first + count).
template <typename Step>
void Lane::in_steps(std::size_t first, std::size_t count, std::size_t most, const Step& step) {
  const std::size_t end = first + count;
  do { // at least one step: ranks compare calls of 0 bytes, too
    ++step_;
    step(first, std::min(most, end - first));
    first += most;
  } while (first < end);
}

void Lane::all_reduce(const Call& call, std::byte* data, std::size_t first, std::size_t count) {
  const bool is_whole = call.byte_count * static_cast<std::size_t>(world_size_) <= kWholeBytes;
  in_steps(first, count, kSlotBytes, [&](std::size_t at, std::size_t bytes) {
    is_whole ? sum_whole(call, data + at, bytes) : sum_parts(call, data + at, bytes);
  });
}

void Lane::reduce_scatter(const Call& call, const std::byte* in, std::byte* out, std::size_t first, std::size_t count) {
  const std::size_t most = most_part_bytes();
  const auto part = [&](int rank) { return in + static_cast<std::size_t>(rank) * call.byte_count; };
  const auto offset = [&](int rank) { return static_cast<std::size_t>(rank) * most; };
  const std::vector<int>& counterparts = neighbours_.counterparts; // this rank itself adds up its node's data for them
  in_steps(first, count, most, [&](std::size_t at, std::size_t bytes) {
    for (const int rank : all_)
      if (std::ranges::find(counterparts, rank) == counterparts.end())
        copy_to_peers(slot(rank_) + offset(rank), part(rank) + at, bytes);
    announce_and_wait(call);
    if (is_of_several_nodes()) {
      for (std::size_t i = 0; i < counterparts.size(); ++i)
        sum_near(call.dtype, offset(counterparts[i]), part(counterparts[i]) + at, i, bytes);
      const auto own = std::ranges::find(counterparts, rank_) - counterparts.begin();
      sum_nodes(call.dtype, out + at, static_cast<std::size_t>(own), bytes);
    } else {
      lanes::sum_partials(call.dtype, sources(all_, offset(rank_), part(rank_) + at), out + at,
                          elements_in(bytes, call.dtype));
    }
  });
}

void Lane::all_gather(const Call& call, const std::byte* in, std::byte* out, std::size_t first, std::size_t count) {
  const auto place = [&](int rank) { return out + static_cast<std::size_t>(rank) * call.byte_count; };
  in_steps(first, count, kSlotBytes, [&](std::size_t at, std::size_t bytes) {
    copy_to_peers(slot(rank_), in + at, bytes);
    announce(call);
    if (place(rank_) != in) std::memcpy(place(rank_) + at, in + at, bytes);
    for (int step = 0; step + 1 < world_size_; ++step) {
      wait_for(peer(step), call);
      std::memcpy(place(peer(step)) + at, slot(peer(step)), bytes);
    }
  });
}

void Lane::all_to_all(const Call& call, const std::byte* in, std::byte* out, std::size_t first, std::size_t count) {
  const std::size_t most = most_part_bytes();
  in_steps(first, count, most, [&](std::size_t at, std::size_t bytes) {
    const auto offset = [&](int rank) { return static_cast<std::size_t>(rank) * call.byte_count + at; };
    for (int rank = 0; rank < world_size_; ++rank)
      if (rank != rank_) copy_to_peers(slot(rank_) + static_cast<std::size_t>(rank) * most, in + offset(rank), bytes);
    announce(call);
    std::memcpy(out + offset(rank_), in + offset(rank_), bytes);
    for (int step = 0; step + 1 < world_size_; ++step) {
      wait_for(peer(step), call);
      std::memcpy(out + offset(peer(step)), slot(peer(step)) + static_cast<std::size_t>(rank_) * most, bytes);
    }
  });
}

} // namespace mc2::executor::node
