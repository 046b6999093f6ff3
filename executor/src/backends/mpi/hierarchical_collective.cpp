#include "backends/mpi/hierarchical_collective.hpp"

#include <chrono>
#include <cstring>
#include <deque>
#include <utility>

#include "backends/mpi/check.hpp"
#include "backends/mpi/element_sum.hpp"
#include "backends/mpi/neighbours.hpp"
#include "backends/mpi/ring.hpp"
#include "lanes/combine.hpp"
#include "mc2/planner/collective.hpp"
#include "range.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr int kNeverSent = 100;                             // a tag that no message has
constexpr std::chrono::microseconds kProgressInterval{100}; // between two calls of MPI in waits for memory

/// What the four collectives share: the memory of the own node, and messages to ranks of other nodes.
class HierarchicalCollective : public Collective {
 public:
  HierarchicalCollective(const Channel& channel, Neighbours neighbours, const Pause& check_run)
      : placement_(World::get().placement()),
        rank_(World::get().rank()),
        node_(placement_.node_of(rank_)),
        neighbours_(std::move(neighbours)),
        // MPI moves messages only while it is called, and a message that it calls complete may still have to leave. So
        // waits for memory call MPI, too: they probe for a message that never comes, because a probe that found one
        // would return at once.
        progress_([this, check_run] {
          int is_there = 0;
          check(MPI_Iprobe(MPI_ANY_SOURCE, kNeverSent, comm_, &is_there, MPI_STATUS_IGNORE), "MPI_Iprobe");
          check_run();
        }),
        comm_(channel.get()) {
    pieces_.reserve(static_cast<std::size_t>(World::get().size()));
    requests_.reserve(2 * static_cast<std::size_t>(World::get().size()));
  }

 protected:
  /// The other nodes, one for each `step`. In the same step different nodes get different ones.
  [[nodiscard]] int other_node(int step) const noexcept { return (node_ + 1 + step) % placement_.node_count(); }
  [[nodiscard]] int other_node_count() const noexcept { return placement_.node_count() - 1; }
  /// Whether this rank is the partner of `rank`, a rank of another node: it takes the messages of `rank` to this node
  /// and sends it this node's.
  [[nodiscard]] bool is_partner(int rank) const noexcept { return placement_.partner_of(rank, node_) == rank_; }
  [[nodiscard]] int partner_on(int node) const noexcept { return placement_.partner_of(rank_, node); }

  // Pieces have at most INT_MAX elements. Callers start sends before receives (point_to_point.hpp says why).
  void send(const std::byte* piece, std::int64_t byte_count, planner::DType dtype, int to) {
    if (byte_count == 0) return;
    check(MPI_Isend(piece, count_of(byte_count, dtype), element_type(dtype), to, 0, comm_, &requests_.emplace_back()),
          "MPI_Isend");
  }
  void receive(std::byte* piece, std::int64_t byte_count, planner::DType dtype, int from) {
    if (byte_count == 0) return;
    check(MPI_Irecv(piece, count_of(byte_count, dtype), element_type(dtype), from, 0, comm_, &requests_.emplace_back()),
          "MPI_Irecv");
  }
  void finish_messages(const Pause& pause) {
    wait_all(requests_, pause);
    requests_.clear();
  }

  /// Adds up `count` elements of every rank of the node; `address_at(place)` says where they are.
  template <typename AddressAt>
  void sum_over_node(planner::DType dtype, std::int64_t count, std::byte* sum, const AddressAt& address_at) {
    pieces_.clear();
    for (int place = 0; place < neighbours_.count(); ++place) pieces_.push_back(address_at(place));
    lanes::sum_in_rank_order(dtype, pieces_, {.first = sum, .columns = count, .row_stride = count}, count);
  }
  /// Address of the piece that the rank at `place` has for this rank.
  [[nodiscard]] const std::byte* source_at(const BlockExchange& block, int place) const noexcept {
    return block.pieces->sources[static_cast<std::size_t>(neighbours_.rank_at(place))];
  }

  const Placement& placement_;
  int rank_, node_;
  Neighbours neighbours_;
  Pause progress_;                       ///< for waits for memory, which sleep between its calls
  std::vector<const std::byte*> pieces_; ///< addends of the present sum

 private:
  static int count_of(std::int64_t byte_count, planner::DType dtype) {
    return static_cast<int>(byte_count / planner::size_bytes(dtype));
  }

  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
};

/// Each part of a block is summed over a node by one of its ranks and over the nodes by a ring; then all ranks read the
/// sums.
class HierarchicalAllReduce final : public HierarchicalCollective {
 public:
  HierarchicalAllReduce(const Channel& channel, Neighbours neighbours, const Pause& check_run,
                        const std::vector<Rail>& rails, std::byte* own_sums, const StageList& list)
      : HierarchicalCollective(channel, std::move(neighbours), check_run),
        own_sums_(own_sums),
        part_count_(rail_count(placement_)),
        node_sum_(static_cast<std::size_t>(longest_piece_bytes(list) / part_count_ +
                                           planner::size_bytes(planner::exchange_type(list.op)))) {
    for (const Rail& rail : rails) {
      parts_.push_back(rail.part);
      rings_.emplace_back(rail.channel->get(),
                          Ring::Job{.collective = planner::Collective::AllReduce,
                                    .dtype = planner::exchange_type(list.op),
                                    .longest_piece_bytes = static_cast<std::int64_t>(node_sum_.size()),
                                    .most_slices = Ring::kMaxSlices});
    }
  }

  void exchange(const BlockExchange& block, const Pause& pause) override {
    neighbours_.begin_block();
    neighbours_.announce(); // also says that this rank has read the sums of the block before
    neighbours_.wait_for_all(progress_);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Part part = part_of(block, parts_[i]);
      sum_over_node(block.dtype, part.count, node_sum_.data(),
                    [&](int place) { return source_at(block, place) + part.first_byte; });
      rings_[i].run(node_sum_.data(), own_sums_ + part.first_byte, part.count, pause);
    }
    neighbours_.announce_sum();
    take_sums(block);
    finish(block);
  }

 private:
  struct Part {
    std::int64_t count = 0; ///< elements
    std::int64_t first_byte = 0, byte_count = 0;
  };
  [[nodiscard]] Part part_of(const BlockExchange& block, int part) const noexcept {
    const Range range = executor::part_of({0, block.element_count}, part, part_count_);
    const std::int64_t element_bytes = planner::size_bytes(block.dtype);
    return {range.count, range.first * element_bytes, range.count * element_bytes};
  }

  void take_sums(const BlockExchange& block) {
    for (int step = 0; step < part_count_; ++step) {
      const int index = (neighbours_.own() + step) % part_count_;
      const int place = place_on_rail(placement_, node_, index);
      if (place != neighbours_.own()) neighbours_.wait_for_sum(place, progress_);
      const Part part = part_of(block, index);
      std::memcpy(sum_arrival(block) + part.first_byte, neighbours_.at(place, own_sums_) + part.first_byte,
                  static_cast<std::size_t>(part.byte_count));
    }
  }

  std::byte* own_sums_; ///< in memory that the neighbours read; each part of a block lies at its place
  int part_count_;
  std::vector<int> parts_; ///< the parts that this rank sums
  std::deque<Ring> rings_; ///< a deque, because a Ring cannot be moved
  std::vector<std::byte> node_sum_;
};

class HierarchicalReduceScatter final : public HierarchicalCollective {
 public:
  HierarchicalReduceScatter(const Channel& channel, Neighbours neighbours, const Pause& check_run,
                            const StageList& list)
      : HierarchicalCollective(channel, std::move(neighbours), check_run) {
    const auto piece_bytes = static_cast<std::size_t>(longest_piece_bytes(list));
    for (int step = 0; step < other_node_count(); ++step) {
      for (const int rank : placement_.ranks_of(other_node(step)))
        if (is_partner(rank)) outgoing_.push_back({rank, std::vector<std::byte>(piece_bytes)});
      incoming_.push_back({partner_on(other_node(step)), std::vector<std::byte>(piece_bytes)});
    }
  }

  void exchange(const BlockExchange& block, const Pause& pause) override {
    neighbours_.begin_block();
    neighbours_.announce();
    neighbours_.wait_for_all(progress_);
    for (Piece& piece : outgoing_) {
      const std::byte* const own = block.pieces->outgoing[static_cast<std::size_t>(piece.rank)];
      sum_over_node(block.dtype, block.element_count, piece.bytes.data(),
                    [&](int place) { return neighbours_.at(place, own); });
      send(piece.bytes.data(), block.piece_bytes(), block.dtype, piece.rank);
    }
    for (Piece& piece : incoming_) receive(piece.bytes.data(), block.piece_bytes(), block.dtype, piece.rank);
    finish_messages(pause);
    sum_all(block);
  }

 private:
  /// A piece that is the sum over one node.
  struct Piece {
    int rank = 0; ///< the rank it is sent to or received from
    std::vector<std::byte> bytes;
  };

  void sum_all(const BlockExchange& block) {
    pieces_.clear();
    for (int place = 0; place < neighbours_.count(); ++place) pieces_.push_back(source_at(block, place));
    for (const Piece& piece : incoming_) pieces_.push_back(piece.bytes.data());
    lanes::sum_past_caches(block.dtype, pieces_, block.sum, block.element_count);
  }

  std::vector<Piece> outgoing_, incoming_;
};

class HierarchicalAllGather final : public HierarchicalCollective {
 public:
  using HierarchicalCollective::HierarchicalCollective;

  void exchange(const BlockExchange& block, const Pause& pause) override {
    const lanes::PieceAddresses& pieces = *block.pieces;
    neighbours_.begin_block();
    for (int step = 0; step < other_node_count(); ++step)
      send(pieces.outgoing.front(), block.piece_bytes(), block.dtype, partner_on(other_node(step)));
    for_each_partner([&](int from) { receive(landing(block, from), block.piece_bytes(), block.dtype, from); });
    neighbours_.push(pieces);
    finish_messages(pause);
    for_each_partner([&](int from) { pass_on(block, landing(block, from)); });
    neighbours_.announce();
    neighbours_.wait_for_all(progress_);
  }

 private:
  static std::byte* landing(const BlockExchange& block, int from) {
    return block.pieces->landings[static_cast<std::size_t>(from)];
  }
  template <typename Work>
  void for_each_partner(const Work& work) {
    for (int step = other_node_count() - 1; step >= 0; --step) { // in the order in which the partners send
      for (const int rank : placement_.ranks_of(other_node(step)))
        if (is_partner(rank)) work(rank);
    }
  }

  void pass_on(const BlockExchange& block, const std::byte* landed) {
    for (int step = 0; step + 1 < neighbours_.count(); ++step)
      std::memcpy(neighbours_.at(neighbours_.other(step), landed), landed,
                  static_cast<std::size_t>(block.piece_bytes()));
  }
};

class HierarchicalAllToAll final : public HierarchicalCollective {
 public:
  HierarchicalAllToAll(const Channel& channel, Neighbours neighbours, const Pause& check_run, const planner::OpSpec& op)
      : HierarchicalCollective(channel, std::move(neighbours), check_run), pushes_(lanes::communicates_first(op)) {}

  void exchange(const BlockExchange& block, const Pause& pause) override {
    neighbours_.begin_block();
    start_messages(block);
    if (pushes_) {
      neighbours_.push(*block.pieces);
      finish_messages(pause);
      neighbours_.announce();
      neighbours_.wait_for_all(progress_);
      return;
    }
    neighbours_.announce();
    neighbours_.wait_for_all(progress_);
    for (int place = 0; place < neighbours_.count(); ++place)
      lanes::land(block, neighbours_.rank_at(place), source_at(block, place));
    finish_messages(pause);
    land_messages(block);
    lanes::add_residuals(block);
  }

 private:
  void start_messages(const BlockExchange& block) {
    const lanes::PieceAddresses& pieces = *block.pieces;
    for_each_elsewhere([&](int rank) {
      const auto index = static_cast<std::size_t>(rank);
      send(pieces.outgoing[index], pieces.outgoing_bytes[index], block.dtype, rank);
    });
    for_each_elsewhere([&](int rank) {
      receive(arrival_of(block, rank), pieces.incoming_bytes[static_cast<std::size_t>(rank)], block.dtype, rank);
    });
  }

  void land_messages(const BlockExchange& block) {
    if (block.landing.is_dense()) return; // they have arrived at their final place
    for_each_elsewhere([&](int rank) { lanes::land(block, rank, arrival_of(block, rank)); });
  }

  /// Calls `work` for the ranks of other nodes, each rank in an order of its own, so that no two ranks begin with the
  /// same peer.
  template <typename Work>
  void for_each_elsewhere(const Work& work) {
    const int count = World::get().size();
    for (int step = 1; step < count; ++step)
      if (const int rank = (rank_ + step) % count; placement_.node_of(rank) != node_) work(rank);
  }

  bool pushes_; ///< writes to the neighbours instead of reading from them
};

} // namespace

std::int64_t hierarchical_bytes(const StageList& list) noexcept {
  const Placement& placement = World::get().placement();
  const std::int64_t piece_bytes = longest_piece_bytes(list);
  switch (planner::collective_of(list.op.kind)) {
    case planner::Collective::AllReduce: return 2 * piece_bytes;
    case planner::Collective::ReduceScatter: {
      const int own = placement.node_of(World::get().rank()), count = placement.size_of(own);
      int most_for = 0; // most ranks of other nodes with the same partner here
      for (int node = 0; node < placement.node_count(); ++node)
        if (node != own) most_for += (placement.size_of(node) + count - 1) / count;
      return (most_for + placement.node_count() - 1) * piece_bytes;
    }
    case planner::Collective::AllGather:
    case planner::Collective::AllToAll: break;
  }
  return 0;
}

std::unique_ptr<Collective> make_hierarchical_collective(const Channel& channel, const std::vector<Rail>& rails,
                                                         const node::NodeHeap& heap, const SegmentLayout& layout,
                                                         const Pause& check_run, const StageList& list) {
  const Placement& placement = World::get().placement();
  const int rank = World::get().rank(), place = placement.place_of(rank);
  Neighbours neighbours(heap, layout.signals, place, placement.ranks_of(placement.node_of(rank)), kProgressInterval);
  switch (planner::collective_of(list.op.kind)) {
    case planner::Collective::AllReduce:
      return std::make_unique<HierarchicalAllReduce>(channel, std::move(neighbours), check_run, rails,
                                                     heap.segment(place).data() + layout.sums, list);
    case planner::Collective::ReduceScatter:
      return std::make_unique<HierarchicalReduceScatter>(channel, std::move(neighbours), check_run, list);
    case planner::Collective::AllGather:
      return std::make_unique<HierarchicalAllGather>(channel, std::move(neighbours), check_run);
    case planner::Collective::AllToAll: break;
  }
  return std::make_unique<HierarchicalAllToAll>(channel, std::move(neighbours), check_run, list.op);
}

} // namespace mc2::executor::mpi
