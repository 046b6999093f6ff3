#pragma once

#include <cstdint>
#include <memory>

#include "backends/host/mechanisms/proxy_threads.hpp"
#include "backends/host/mechanisms/variants.hpp"
#include "backends/host/transports/transport.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::host {

/// Ways to exchange blocks through plain shared memory. The shared-memory transport reads the peers' pieces whole; the
/// mechanisms here work otherwise. docs/mechanisms.md explains each one and why its memory order is right. Every wait
/// ends when the run is aborted or its deadline passes.

/// The properties of an operator on which a mechanism depends.
struct MechanismShape {
  int world_size = 0;
  bool is_summed = false;
};

[[nodiscard]] MechanismShape mechanism_shape(const planner::OpSpec& op) noexcept;

/// Bytes that a mechanism allocates for all ranks together. The size does not grow with the operator.
[[nodiscard]] std::int64_t mechanism_bytes(const HostVariant& variant, const MechanismShape& shape) noexcept;

/// Makes the mechanism of a variant. Returns null for the variant "direct", which the transport of every link carries
/// itself. Starts `proxies` if the variant needs them; they outlive the result. Throws SystemError.
[[nodiscard]] std::unique_ptr<Transport> make_mechanism(const HostVariant& variant, const MechanismShape& shape,
                                                        ProxyThreads& proxies);

/// Every rank sums its own slice of the block from the pieces of all ranks, then copies the other slices from the ranks
/// that have summed them.
[[nodiscard]] std::unique_ptr<Transport> make_two_shot(int world_size);

/// Every rank writes its pieces into the receivers' memory and raises a signal there.
/// @param proxies  threads that carry out the transfers; null: the lane's own thread does
[[nodiscard]] std::unique_ptr<Transport> make_push(const MechanismShape& shape, ProxyThreads* proxies);
[[nodiscard]] std::int64_t push_bytes(int world_size) noexcept;

/// Every rank writes words into the receivers' memory; half of each word is data, the other half is a flag.
[[nodiscard]] std::unique_ptr<Transport> make_low_latency(int world_size);
[[nodiscard]] std::int64_t low_latency_bytes(int world_size) noexcept;

/// Slices of partial sums go round the ranks through bounded buffers. Each of the `lane_count` lanes has one slice
/// under way.
[[nodiscard]] std::unique_ptr<Transport> make_ring(int world_size, int lane_count);
[[nodiscard]] std::int64_t ring_bytes(int world_size, int lane_count) noexcept;

} // namespace mc2::executor::host
