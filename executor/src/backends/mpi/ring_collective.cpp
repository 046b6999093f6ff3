
#include "backends/mpi/collective.hpp"
#include "backends/mpi/ring.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::executor::mpi {
namespace {

class RingCollective final : public Collective {
 public:
  RingCollective(const RingOrder& order, const MpiVariant& variant, const StageList& list)
      : ring_(order.channel->get(),
              {.collective = planner::collective_of(list.op.kind),
               .dtype = planner::exchange_type(list.op),
               .longest_piece_bytes = longest_piece_bytes(list),
               .most_slices = variant.algorithm == MpiVariant::Algorithm::SlicedRing ? Ring::kMaxSlices : 1,
               .piece_of_rank = order.ranks}) {}

  void exchange(const BlockExchange& block, const Pause& pause) override {
    ring_.run(block.pieces->outgoing.front(), block.is_summed() ? sum_arrival(block) : gathered(block),
              block.element_count, pause);
    finish(block);
  }

 private:
  Ring ring_;
};

} // namespace

std::unique_ptr<Collective> make_ring_collective(const RingOrder& order, const MpiVariant& variant,
                                                 const StageList& list) {
  return std::make_unique<RingCollective>(order, variant, list);
}

} // namespace mc2::executor::mpi
