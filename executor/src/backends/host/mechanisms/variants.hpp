#pragma once

#include <cstdint>
#include <vector>

#include "lanes/peer_order.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::host {

/// How a block is exchanged: a planner::Variant, read. docs/mechanisms.md.
struct HostVariant {
  enum class Mechanism : std::uint8_t {
    Direct,     ///< reads every peer's piece ("direct"); the only one over links that are not shared memory; fields:
                ///< slices
    TwoShot,    ///< sums a slice, copies the others' ("two_shot"); matmul_all_reduce
    Push,       ///< writes into the receivers' memory ("push"); fields: initiator
    LowLatency, ///< data and flag in one word ("low_latency")
    Ring,       ///< slices through bounded buffers ("ring"); kinds that sum; fields: lanes
  };
  Mechanism mechanism = Mechanism::Direct;
  lanes::PeerOrder order = lanes::PeerOrder::Staggered; ///< field: order, of all but Ring
  bool has_proxy = false;                               ///< Push: a proxy thread starts the transfers
  int lane_count = 2;                                   ///< Ring: slices under way at a time
  int slice_count = 1; ///< Direct: a block is handed to the matmul at once, or as each peer's piece has come
};

inline constexpr const char* kDirectVariant = "direct";

/// Every variant that runs an operator over a link, best known default first.
[[nodiscard]] std::vector<planner::Variant> host_variants(const planner::OpSpec& op, const LinkSpec& link);

/// Errors: UnknownName (variant), InvalidSpec (a setting that is unknown or out of range), Unsupported (a variant
/// that cannot carry this operator, or not over this link).
[[nodiscard]] Result<HostVariant> read_variant(const planner::OpSpec& op, const LinkSpec& link,
                                               const planner::Variant& variant);

} // namespace mc2::executor::host
