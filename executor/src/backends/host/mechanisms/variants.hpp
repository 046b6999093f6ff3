#pragma once

#include <cstdint>
#include <vector>

#include "lanes/peer_order.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::host {

/// How a block is exchanged: a planner::Variant whose settings have been read. docs/mechanisms.md describes the
/// mechanisms.
struct HostVariant {
  enum class Mechanism : std::uint8_t {
    Direct,     ///< "direct": reads every peer's piece; works over every link; fields: order, slices
    TwoShot,    ///< "two_shot": sums one slice, copies the others; matmul_all_reduce only; field: order
    Push,       ///< "push": writes into the receivers' memory; field: initiator
    LowLatency, ///< "low_latency": data and flag in one word; field: order
    Ring,       ///< "ring": slices through bounded buffers; only kinds that sum; field: lanes
  };
  Mechanism mechanism = Mechanism::Direct;
  lanes::PeerOrder order = lanes::PeerOrder::Staggered; ///< field: order; Ring and Push do not take it
  bool has_proxy = false;                               ///< Push: a proxy thread carries out the transfers
  int lane_count = 2;                                   ///< Ring: slices under way at a time
  int slice_count = 1; ///< Direct only; 1: the matmul gets whole blocks; R-1: one peer's piece at a time
};

inline constexpr const char* kDirectVariant = "direct";

/// Every variant that runs an operator over a link, in order of preference; the first is the best known default.
[[nodiscard]] std::vector<planner::Variant> host_variants(const planner::OpSpec& op, const LinkSpec& link);

/// Errors: UnknownName (no such variant), InvalidSpec (a setting is unknown or out of range), Unsupported (the variant
/// cannot carry the operator or does not run over the link, or the setting slices does not apply).
[[nodiscard]] Result<HostVariant> read_variant(const planner::OpSpec& op, const LinkSpec& link,
                                               const planner::Variant& variant);

} // namespace mc2::executor::host
