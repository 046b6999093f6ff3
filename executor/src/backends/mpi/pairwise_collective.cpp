#include <cstring>

#include "backends/mpi/collective.hpp"
#include "backends/mpi/point_to_point.hpp"

namespace mc2::executor::mpi {
namespace {

class PairwiseCollective final : public Collective {
 public:
  explicit PairwiseCollective(MPI_Comm comm) : steps_(comm), rank_(World::get().rank()), size_(World::get().size()) {}

  void exchange(const BlockExchange& block, const Pause& pause) override {
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_, from = (rank_ + size_ - step) % size_;
      steps_.pass({outgoing(block, to), to}, {incoming(block, from), from}, block.dtype, pause);
    }
    const auto own = incoming(block, rank_); // empty if the local part reads the own piece in place
    if (!own.empty()) std::memcpy(own.data(), outgoing(block, rank_).data(), own.size());
    finish(block);
  }

 private:
  static std::span<const std::byte> outgoing(const BlockExchange& block, int to) {
    const auto index = static_cast<std::size_t>(to);
    return {block.pieces->outgoing[index], static_cast<std::size_t>(block.pieces->outgoing_bytes[index])};
  }
  static std::span<std::byte> incoming(const BlockExchange& block, int from) {
    const std::int64_t bytes = block.pieces->incoming_bytes[static_cast<std::size_t>(from)];
    return {arrival_of(block, from), static_cast<std::size_t>(bytes)};
  }

  PointToPoint steps_;
  int rank_, size_;
};

} // namespace

std::unique_ptr<Collective> make_pairwise_collective(const Channel& channel) {
  return std::make_unique<PairwiseCollective>(channel.get());
}

} // namespace mc2::executor::mpi
