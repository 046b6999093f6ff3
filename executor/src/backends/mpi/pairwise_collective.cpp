#include <cstring>

#include "backends/mpi/collective.hpp"
#include "backends/mpi/point_to_point.hpp"

namespace mc2::executor::mpi {
namespace {

class PairwiseCollective final : public Collective {
 public:
  PairwiseCollective(MPI_Comm comm, std::chrono::microseconds sleep)
      : steps_(comm, sleep), rank_(World::get().rank()), size_(World::get().size()) {}

  void exchange(const BlockExchange& block, const std::function<void()>& keep_waiting) override {
    const auto bytes = static_cast<std::size_t>(block.piece_bytes());
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_, from = (rank_ + size_ - step) % size_;
      steps_.pass({{block.outgoing(to), bytes}, to}, {{block.landing(from), bytes}, from}, block.dtype, keep_waiting);
    }
    // The local part multiplies a rank's own rows of A where they are.
    if (block.kind == planner::OpKind::MatmulAllToAll)
      std::memcpy(block.landing(rank_), block.outgoing(rank_), bytes);
  }

 private:
  PointToPoint steps_;
  int rank_, size_;
};

} // namespace

std::unique_ptr<Collective> make_pairwise_collective(const Channel& channel, const MpiVariant& variant) {
  return std::make_unique<PairwiseCollective>(channel.get(), variant.sleep);
}

} // namespace mc2::executor::mpi
