#pragma once

#include <cstdint>

#include "backends/host/peer_order.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::host {

inline constexpr int kMaxHostRanks = 64; ///< two threads each, and a mesh of connections with tcp
inline constexpr const char* kDirectVariant = "direct";
inline constexpr const char* kOrderSetting = "order"; ///< "staggered" (default) or "rank"

/// Whether this CPU runs the operator's type. Errors: InvalidSpec, Unsupported.
[[nodiscard]] planner::Result<void> check_operator(const planner::OpSpec& op);

/// Errors: Unsupported, naming the bytes, when `needed_bytes` exceed what the machine has available.
[[nodiscard]] planner::Result<void> check_memory(std::int64_t needed_bytes);

/// Bytes of A, B, the packed copy of B, what passes between the lanes, and C, of all ranks; of tables and their bags, with
/// 64-bit row numbers, where the operator has them.
[[nodiscard]] std::int64_t operator_bytes(const planner::OpSpec& op) noexcept;

/// The order in which ranks turn to their peers: the one setting of the variant "direct".
/// Errors: UnknownName for another variant than "direct", InvalidSpec for an unknown setting or value.
[[nodiscard]] planner::Result<PeerOrder> read_variant(const planner::Variant& variant);

} // namespace mc2::executor::host
