#pragma once

#include <cstdint>
#include <memory>

#include "backends/host/mechanisms/proxy_threads.hpp"
#include "backends/host/mechanisms/variants.hpp"
#include "backends/host/transports/transport.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::host {

/// Ways to exchange blocks through plain shared memory other than reading the peers' pieces whole, which is what the
/// shared-memory transport does. docs/mechanisms.md says how each works and why its memory order is right. Every wait
/// ends when the run is aborted, and when its deadline passes.

/// What a mechanism is made for.
struct MechanismShape {
  int world_size = 0;
  bool is_summed = false;
};

[[nodiscard]] MechanismShape mechanism_shape(const planner::OpSpec& op) noexcept;

/// Memory that a mechanism takes, of all ranks together; it does not grow with the operator.
[[nodiscard]] std::int64_t mechanism_bytes(const HostVariant& variant, const MechanismShape& shape) noexcept;

/// Null for the variant "direct", which every link's transport carries itself. `proxies` outlive the result and are
/// started if the variant needs them. Throws SystemError.
[[nodiscard]] std::unique_ptr<Transport> make_mechanism(const HostVariant& variant, const MechanismShape& shape,
                                                        ProxyThreads& proxies);

/// Every rank sums a slice of the block from all ranks' pieces and copies the other slices from those who summed them.
[[nodiscard]] std::unique_ptr<Transport> make_two_shot(int world_size);

/// Every rank writes its pieces into the receivers' memory and raises a signal of theirs.
/// @param proxies  who starts the transfers; null: the lane's own thread
[[nodiscard]] std::unique_ptr<Transport> make_push(const MechanismShape& shape, ProxyThreads* proxies);
[[nodiscard]] std::int64_t push_bytes(int world_size) noexcept;

/// Every rank writes words that are half data, half flag into the receivers' memory.
[[nodiscard]] std::unique_ptr<Transport> make_low_latency(int world_size);
[[nodiscard]] std::int64_t low_latency_bytes(int world_size) noexcept;

/// Slices of partial sums go round the ranks through bounded buffers; each lane has one slice under way.
[[nodiscard]] std::unique_ptr<Transport> make_ring(int world_size, int lane_count);
[[nodiscard]] std::int64_t ring_bytes(int world_size, int lane_count) noexcept;

} // namespace mc2::executor::host
