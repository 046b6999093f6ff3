#include "backends/host/mechanisms/mechanism.hpp"

#include "mc2/planner/collective.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::host {

MechanismShape mechanism_shape(const planner::OpSpec& op) noexcept {
  return {.world_size = op.world_size, .is_summed = planner::sums_over_ranks(op.kind)};
}

std::int64_t mechanism_bytes(const HostVariant& variant, const MechanismShape& shape) noexcept {
  switch (variant.mechanism) {
    case HostVariant::Mechanism::Direct:
    case HostVariant::Mechanism::TwoShot: return 0;
    case HostVariant::Mechanism::Push: return shape.is_summed ? push_bytes(shape.world_size) : 0;
    case HostVariant::Mechanism::LowLatency: return low_latency_bytes(shape.world_size);
    case HostVariant::Mechanism::Ring: return ring_bytes(shape.world_size, variant.lane_count);
  }
  MC2_CHECK(false, "a mechanism without a size");
  return 0;
}

std::unique_ptr<Transport> make_mechanism(const HostVariant& variant, const MechanismShape& shape,
                                          ProxyThreads& proxies) {
  switch (variant.mechanism) {
    case HostVariant::Mechanism::Direct: return nullptr;
    case HostVariant::Mechanism::TwoShot: return make_two_shot(shape.world_size);
    case HostVariant::Mechanism::Push:
      if (variant.has_proxy) proxies.start();
      return make_push(shape, variant.has_proxy ? &proxies : nullptr);
    case HostVariant::Mechanism::LowLatency: return make_low_latency(shape.world_size);
    case HostVariant::Mechanism::Ring: return make_ring(shape.world_size, variant.lane_count);
  }
  MC2_CHECK(false, "a mechanism that nothing makes");
  return nullptr;
}

} // namespace mc2::executor::host
