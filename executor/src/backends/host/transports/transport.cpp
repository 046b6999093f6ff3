#include "backends/host/transports/transport.hpp"

#include "mc2/planner/collective.hpp"

namespace mc2::executor::host {

std::int64_t staging_bytes(const planner::OpSpec& op, std::int64_t longest_block, const Transport& transport) noexcept {
  const bool is_staged = planner::sums_over_ranks(op.kind) || !lanes::landing_pitch(op).is_dense();
  return is_staged ? transport.staging_bytes(lanes::piece_bytes(op, longest_block)) : 0;
}

std::unique_ptr<Transport> make_transport(const LinkSpec& link, int world_size) {
  switch (link.mode) {
    case LinkSpec::Mode::SharedMemory: return make_shared_memory_transport();
    case LinkSpec::Mode::Emulated: return make_emulated_transport(link, world_size);
    case LinkSpec::Mode::Tcp: return make_tcp_transport(link, world_size);
  }
  MC2_CHECK(false, "a link mode without a transport");
  return nullptr;
}

} // namespace mc2::executor::host
