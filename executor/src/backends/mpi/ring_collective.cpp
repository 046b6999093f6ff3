
#include "backends/mpi/collective.hpp"
#include "backends/mpi/ring.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::executor::mpi {
namespace {

class RingCollective final : public Collective {
 public:
  RingCollective(MPI_Comm comm, const MpiVariant& variant, const StageList& list)
      : ring_(comm, {.collective = planner::collective_of(list.op.kind),
                     .dtype = planner::exchange_type(list.op),
                     .longest_piece_bytes = longest_piece_bytes(list),
                     .most_slices = variant.algorithm == MpiVariant::Algorithm::SlicedRing ? Ring::kMaxSlices : 1}) {}

  void exchange(const BlockExchange& block, const Pause& pause) override {
    ring_.run(block.pieces->outgoing.front(), block.is_summed() ? sum_arrival(block) : gathered(block),
              block.element_count, pause);
    finish(block);
  }

 private:
  Ring ring_;
};

} // namespace

std::unique_ptr<Collective> make_ring_collective(const Channel& channel, const MpiVariant& variant,
                                                 const StageList& list) {
  return std::make_unique<RingCollective>(channel.get(), variant, list);
}

} // namespace mc2::executor::mpi
