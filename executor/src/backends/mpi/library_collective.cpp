#include "backends/mpi/check.hpp"
#include "backends/mpi/collective.hpp"
#include "backends/mpi/element_sum.hpp"
#include "backends/mpi/row_type.hpp"
#include "backends/mpi/waiting.hpp"

namespace mc2::executor::mpi {
namespace {

/// How an all-to-all's pieces lie, counted in rows: whole rows fit MPI's int where elements would not.
struct AllToAllRows {
  std::vector<int> send_counts, send_offsets, receive_counts, receive_offsets;

  explicit AllToAllRows(std::size_t rank_count)
      : send_counts(rank_count), send_offsets(rank_count), receive_counts(rank_count), receive_offsets(rank_count) {}

  void describe(const BlockExchange& block, int own_rank) {
    const std::int64_t columns = block.piece_count / block.row_count;
    for (std::size_t rank = 0; rank < send_counts.size(); ++rank) {
      const auto index = static_cast<std::int64_t>(rank);
      // The local part multiplies a rank's own rows of A where they are.
      const bool is_left_out =
          block.kind == planner::OpKind::AllToAllMatmul && static_cast<int>(rank) == own_rank;
      send_counts[rank] = receive_counts[rank] = is_left_out ? 0 : static_cast<int>(block.row_count);
      send_offsets[rank] = static_cast<int>(index * block.send_stride / columns);
      receive_offsets[rank] = static_cast<int>(index * block.receive_stride / columns);
    }
  }
};

/// What the library's collectives are called with, blocking or not.
class LibraryCollective : public Collective {
 public:
  LibraryCollective(MPI_Comm comm, const planner::OpSpec& op)
      : comm_(comm),
        sum_(op.dtype),
        row_(sum_.type(), exchanged_columns(op)),
        rank_(World::get().rank()),
        counts_(static_cast<std::size_t>(op.world_size)),
        rows_(counts_.size()) {}

 protected:
  /// The count of every rank's piece, in the form that MPI_Reduce_scatter takes.
  const int* same_counts(int count) {
    counts_.assign(counts_.size(), count);
    return counts_.data();
  }
  const AllToAllRows& all_to_all_rows(const BlockExchange& block) {
    rows_.describe(block, rank_);
    return rows_;
  }

  MPI_Comm comm_;
  ElementSum sum_;
  RowType row_;

 private:
  int rank_;
  std::vector<int> counts_;
  AllToAllRows rows_;
};

class BlockingCollective final : public LibraryCollective {
 public:
  using LibraryCollective::LibraryCollective;

  void exchange(const BlockExchange& block, const std::function<void()>& /*keep_waiting*/) override {
    const int count = static_cast<int>(block.piece_count);
    switch (block.kind) {
      case planner::OpKind::MatmulAllReduce:
        return check(MPI_Allreduce(block.send, block.receive, count, sum_.type(), sum_.operation(), comm_),
                     "MPI_Allreduce");
      case planner::OpKind::MatmulReduceScatter:
        return check(MPI_Reduce_scatter(block.send, block.receive, same_counts(count), sum_.type(), sum_.operation(),
                                        comm_),
                     "MPI_Reduce_scatter");
      case planner::OpKind::AllGatherMatmul:
        return check(MPI_Allgather(block.send, count, sum_.type(), block.receive, count, sum_.type(), comm_),
                     "MPI_Allgather");
      case planner::OpKind::MatmulAllToAll:
      case planner::OpKind::AllToAllMatmul: return all_to_all(block);
      case planner::OpKind::EmbeddingAllToAll: break;
    }
    MC2_CHECK(false, "a kind that the mpi backend refuses reached its collective");
  }

 private:
  void all_to_all(const BlockExchange& block) {
    const AllToAllRows& rows = all_to_all_rows(block);
    check(MPI_Alltoallv(block.send, rows.send_counts.data(), rows.send_offsets.data(), row_.get(), block.receive,
                        rows.receive_counts.data(), rows.receive_offsets.data(), row_.get(), comm_),
          "MPI_Alltoallv");
  }
};

class NonblockingCollective final : public LibraryCollective {
 public:
  NonblockingCollective(MPI_Comm comm, const planner::OpSpec& op, std::chrono::microseconds sleep)
      : LibraryCollective(comm, op), sleep_(sleep) {}

  void exchange(const BlockExchange& block, const std::function<void()>& keep_waiting) override {
    MPI_Request request = start(block);
    wait_all({&request, 1}, Patience(sleep_, {}), keep_waiting);
  }

 private:
  MPI_Request start(const BlockExchange& block) {
    const int count = static_cast<int>(block.piece_count);
    MPI_Request request = MPI_REQUEST_NULL;
    switch (block.kind) {
      case planner::OpKind::MatmulAllReduce:
        check(MPI_Iallreduce(block.send, block.receive, count, sum_.type(), sum_.operation(), comm_, &request),
              "MPI_Iallreduce");
        return request;
      case planner::OpKind::MatmulReduceScatter:
        check(MPI_Ireduce_scatter(block.send, block.receive, same_counts(count), sum_.type(), sum_.operation(), comm_,
                                  &request),
              "MPI_Ireduce_scatter");
        return request;
      case planner::OpKind::AllGatherMatmul:
        check(MPI_Iallgather(block.send, count, sum_.type(), block.receive, count, sum_.type(), comm_, &request),
              "MPI_Iallgather");
        return request;
      case planner::OpKind::MatmulAllToAll:
      case planner::OpKind::AllToAllMatmul: return start_all_to_all(block);
      case planner::OpKind::EmbeddingAllToAll: break;
    }
    MC2_CHECK(false, "a kind that the mpi backend refuses reached its collective");
    return request;
  }

  MPI_Request start_all_to_all(const BlockExchange& block) {
    const AllToAllRows& rows = all_to_all_rows(block);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ialltoallv(block.send, rows.send_counts.data(), rows.send_offsets.data(), row_.get(), block.receive,
                         rows.receive_counts.data(), rows.receive_offsets.data(), row_.get(), comm_, &request),
          "MPI_Ialltoallv");
    return request;
  }

  std::chrono::microseconds sleep_;
};

} // namespace

std::unique_ptr<Collective> make_library_collective(const Channel& channel, const MpiVariant& variant,
                                                    const planner::OpSpec& op) {
  if (variant.algorithm == MpiVariant::Algorithm::Blocking)
    return std::make_unique<BlockingCollective>(channel.get(), op);
  return std::make_unique<NonblockingCollective>(channel.get(), op, variant.sleep);
}

} // namespace mc2::executor::mpi
