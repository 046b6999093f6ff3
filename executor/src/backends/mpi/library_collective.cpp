#include <vector>

#include "backends/mpi/check.hpp"
#include "backends/mpi/collective.hpp"
#include "backends/mpi/element_sum.hpp"
#include "backends/mpi/row_type.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::executor::mpi {
namespace {

/// The layout of one direction of an all-to-all, counted in rows: a number of rows fits MPI's int where a number of
/// elements would not.
template <typename Byte>
struct PieceRows {
  Byte* first = nullptr; ///< address of the first piece that is not empty
  std::vector<int> counts, offsets;

  explicit PieceRows(std::size_t rank_count) : counts(rank_count), offsets(rank_count) {}

  void begin() noexcept { first = nullptr; }
  /// Called for the ranks in order; their pieces lie in memory in the same order.
  void add(std::size_t rank, Byte* piece, std::int64_t bytes, std::int64_t row_bytes) noexcept {
    if (first == nullptr && bytes > 0) first = piece;
    counts[rank] = static_cast<int>(bytes / row_bytes);
    offsets[rank] = bytes > 0 ? static_cast<int>((piece - first) / row_bytes) : 0;
  }
};

/// The arguments that the blocking and the nonblocking collectives of the library share.
class LibraryCollective : public Collective {
 public:
  LibraryCollective(MPI_Comm comm, const planner::OpSpec& op)
      : comm_(comm),
        collective_(planner::collective_of(op.kind)),
        sum_(planner::exchange_type(op)),
        row_(sum_.type(), exchanged_elements(op)),
        row_bytes_(lanes::piece_bytes(op, 1)),
        counts_(static_cast<std::size_t>(op.world_size)),
        sent_(counts_.size()),
        received_(counts_.size()) {}

 protected:
  /// `count` for every rank, as MPI_Reduce_scatter takes it.
  const int* same_counts(int count) {
    counts_.assign(counts_.size(), count);
    return counts_.data();
  }

  /// Fills sent_ and received_.
  void describe_all_to_all(const BlockExchange& block) {
    const lanes::PieceAddresses& pieces = *block.pieces;
    sent_.begin();
    received_.begin();
    for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
      const bool stays = pieces.landings[rank] == nullptr; // the local part reads the piece in place
      const bool is_own = rank == static_cast<std::size_t>(block.rank);
      sent_.add(rank, pieces.outgoing[rank], is_own && stays ? 0 : pieces.outgoing_bytes[rank], row_bytes_);
      received_.add(rank, arrival_of(block, static_cast<int>(rank)), pieces.incoming_bytes[rank], row_bytes_);
    }
  }

  MPI_Comm comm_;
  planner::Collective collective_;
  ElementSum sum_;
  RowType row_;
  std::int64_t row_bytes_;

 private:
  std::vector<int> counts_;

 protected:
  PieceRows<const std::byte> sent_;
  PieceRows<std::byte> received_;
};

class BlockingCollective final : public LibraryCollective {
 public:
  using LibraryCollective::LibraryCollective;

  void exchange(const BlockExchange& block, const Pause& /*pause*/) override {
    call(block);
    finish(block);
  }

 private:
  void call(const BlockExchange& block) {
    const int count = static_cast<int>(block.element_count);
    const std::byte* const send = block.pieces->outgoing.front();
    switch (collective_) {
      case planner::Collective::AllReduce:
        return check(MPI_Allreduce(send, sum_arrival(block), count, sum_.type(), sum_.operation(), comm_),
                     "MPI_Allreduce");
      case planner::Collective::ReduceScatter:
        return check(
            MPI_Reduce_scatter(send, sum_arrival(block), same_counts(count), sum_.type(), sum_.operation(), comm_),
            "MPI_Reduce_scatter");
      case planner::Collective::AllGather:
        return check(MPI_Allgather(send, count, sum_.type(), gathered(block), count, sum_.type(), comm_),
                     "MPI_Allgather");
      case planner::Collective::AllToAll: break;
    }
    describe_all_to_all(block);
    check(MPI_Alltoallv(sent_.first, sent_.counts.data(), sent_.offsets.data(), row_.get(), received_.first,
                        received_.counts.data(), received_.offsets.data(), row_.get(), comm_),
          "MPI_Alltoallv");
  }
};

class NonblockingCollective final : public LibraryCollective {
 public:
  using LibraryCollective::LibraryCollective;

  void exchange(const BlockExchange& block, const Pause& pause) override {
    MPI_Request request = start(block);
    wait_all({&request, 1}, pause);
    finish(block);
  }

 private:
  MPI_Request start(const BlockExchange& block) {
    const int count = static_cast<int>(block.element_count);
    const std::byte* const send = block.pieces->outgoing.front();
    MPI_Request request = MPI_REQUEST_NULL;
    switch (collective_) {
      case planner::Collective::AllReduce:
        check(MPI_Iallreduce(send, sum_arrival(block), count, sum_.type(), sum_.operation(), comm_, &request),
              "MPI_Iallreduce");
        return request;
      case planner::Collective::ReduceScatter:
        check(MPI_Ireduce_scatter(send, sum_arrival(block), same_counts(count), sum_.type(), sum_.operation(), comm_,
                                  &request),
              "MPI_Ireduce_scatter");
        return request;
      case planner::Collective::AllGather:
        check(MPI_Iallgather(send, count, sum_.type(), gathered(block), count, sum_.type(), comm_, &request),
              "MPI_Iallgather");
        return request;
      case planner::Collective::AllToAll: break;
    }
    describe_all_to_all(block);
    check(MPI_Ialltoallv(sent_.first, sent_.counts.data(), sent_.offsets.data(), row_.get(), received_.first,
                         received_.counts.data(), received_.offsets.data(), row_.get(), comm_, &request),
          "MPI_Ialltoallv");
    return request;
  }
};

} // namespace

std::unique_ptr<Collective> make_library_collective(const Channel& channel, const MpiVariant& variant,
                                                    const planner::OpSpec& op) {
  if (variant.algorithm == MpiVariant::Algorithm::Blocking)
    return std::make_unique<BlockingCollective>(channel.get(), op);
  return std::make_unique<NonblockingCollective>(channel.get(), op);
}

} // namespace mc2::executor::mpi
