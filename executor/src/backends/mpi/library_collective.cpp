#include "backends/mpi/check.hpp"
#include "backends/mpi/collective.hpp"
#include "backends/mpi/waiting.hpp"

namespace mc2::executor::mpi {
namespace {

class BlockingCollective final : public Collective {
 public:
  explicit BlockingCollective(MPI_Comm comm) : comm_(comm), counts_(static_cast<std::size_t>(World::get().size())) {}

  void exchange(const BlockExchange& block, const std::function<void()>& /*keep_waiting*/) override {
    const int count = static_cast<int>(block.piece_count);
    switch (block.kind) {
      case planner::OpKind::MatmulAllReduce:
        return check(MPI_Allreduce(block.send, block.receive, count, MPI_FLOAT, MPI_SUM, comm_), "MPI_Allreduce");
      case planner::OpKind::MatmulReduceScatter:
        counts_.assign(counts_.size(), count);
        return check(MPI_Reduce_scatter(block.send, block.receive, counts_.data(), MPI_FLOAT, MPI_SUM, comm_),
                     "MPI_Reduce_scatter");
      case planner::OpKind::AllGatherMatmul:
        return check(MPI_Allgather(block.send, count, MPI_FLOAT, block.receive, count, MPI_FLOAT, comm_),
                     "MPI_Allgather");
      default: break;
    }
    MC2_CHECK(false, "a kind that the mpi backend refuses reached its collective");
  }

 private:
  MPI_Comm comm_;
  std::vector<int> counts_;
};

class NonblockingCollective final : public Collective {
 public:
  NonblockingCollective(MPI_Comm comm, std::chrono::microseconds sleep)
      : comm_(comm), sleep_(sleep), counts_(static_cast<std::size_t>(World::get().size())) {}

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
        check(MPI_Iallreduce(block.send, block.receive, count, MPI_FLOAT, MPI_SUM, comm_, &request),
              "MPI_Iallreduce");
        return request;
      case planner::OpKind::MatmulReduceScatter:
        counts_.assign(counts_.size(), count);
        check(MPI_Ireduce_scatter(block.send, block.receive, counts_.data(), MPI_FLOAT, MPI_SUM, comm_, &request),
              "MPI_Ireduce_scatter");
        return request;
      case planner::OpKind::AllGatherMatmul:
        check(MPI_Iallgather(block.send, count, MPI_FLOAT, block.receive, count, MPI_FLOAT, comm_, &request),
              "MPI_Iallgather");
        return request;
      default: break;
    }
    MC2_CHECK(false, "a kind that the mpi backend refuses reached its collective");
    return request;
  }

  MPI_Comm comm_;
  std::chrono::microseconds sleep_;
  std::vector<int> counts_;
};

} // namespace

std::unique_ptr<Collective> make_library_collective(const Channel& channel, const MpiVariant& variant) {
  if (variant.algorithm == MpiVariant::Algorithm::Blocking)
    return std::make_unique<BlockingCollective>(channel.get());
  return std::make_unique<NonblockingCollective>(channel.get(), variant.sleep);
}

} // namespace mc2::executor::mpi
