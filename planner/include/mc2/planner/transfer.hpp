#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// n, k and n k of the target are each within 1/16 to 16 of the source's. Beyond, a row's FLOPs and bytes no longer
/// say what it costs: other kernels and caches take over. Source: docs/cost_model.md §12.
inline constexpr double kMaxTransferRatio = 16;
/// Below it a matmul is limited by memory or call overhead rather than FLOPs, so neither n nor k may cross it.
inline constexpr std::int64_t kMinTransferLength = 64;
/// Added to the relative interval of a transferred compute curve, for each doubling or halving of n k and for each
/// of the aspect n / k. Held against leave-one-shape-out errors, `mc2-bench transfer`, docs/benchmarks.md.
inline constexpr double kComputeTransferSpread = 0.06;
/// The same for GPUs whose waves are known, whatever the distance: 90 % of the matmuls of docs/cost_model.md §12 are
/// within it.
inline constexpr double kWaveTransferSpread = 0.18;
/// Added to the relative interval of a transferred communication curve: its bytes were measured in other blocks.
inline constexpr double kCommunicationTransferSpread = 0.06;

/// A model of one (n, k) made to answer for another.
struct Transfer {
  CostModel model; ///< op is the target's; intervals are wider than the source's
  OpSpec source;   ///< what was measured
  /// same block costs (has_same_block_costs): nothing was transferred, intervals are the source's
  bool is_same = false;
  std::string reason; ///< "transferred from n=1024 k=1024: a row has 2 x the FLOPs and 1 x the bytes"
};

/// The model with its compute curve asked at equal FLOPs and its communication curve at equal bytes:
///   compute'(rows) = compute(rows n'k' / (n k)), a staircase with its wave shortened by n'/n and its step scaled by
///   k'/k; on a GPU whose rates are known compute(rows) W(rows, n', k') / L(rows), W by waves of tiles
///   communication'(bytes) = communication(bytes)
/// Slow-downs and fixed costs stay. Fixed parts of a curve are kept, parts per row are scaled. Where blocks are
/// columns, a column has k'/k times the FLOPs and bytes of B, and n does not matter. Errors: Stale (another machine),
/// OutOfRange naming what makes it unsound: another kind, element type or number of ranks, another cut axis, another m
/// where columns are cut, a ratio beyond kMaxTransferRatio, or n or k on the other side of kMinTransferLength.
/// InvalidSpec (model or target).
[[nodiscard]] Result<Transfer> transfer(const CostModel& model, const OpSpec& target, const Fingerprint& fingerprint);

/// How far a model that was profiled at one length of the cut axis is from another, in doublings; where it is shorter,
/// twice as far: the longest blocks lie beyond what it measured. Both above 0.
[[nodiscard]] double length_distance(std::int64_t profiled, std::int64_t asked);

/// transfer() from the nearest model that is sound: in log n, log k and half of length_distance(); of equally near ones
/// the first.
/// Errors: NotFound without models; the nearest one's refusal when none is sound.
[[nodiscard]] Result<Transfer> transfer_from_nearest(std::span<const CostModel> models, const OpSpec& target,
                                                     const Fingerprint& fingerprint);
/// The model for one length of the cut axis, on a GPU whose rates are known. A compute curve that is a straight line is
/// bent by waves of tiles, which it has lost; so is every curve below the fewest rows that were measured; where all
/// blocks lie there, intervals grow. A kernel that multiplies all blocks takes whole waves for them together: its
/// curve, a share of a run of the model's operator, is stretched by what they make of `op` over that. Elsewhere the
/// model as it was.
/// @param op  one that the model answers for
[[nodiscard]] CostModel with_waves(CostModel model, const OpSpec& op);

/// What a kind's uncut collectives took on one machine, at every message that a model of it has: the same bytes take as
/// long whatever n and k are, and a profile's blocks, taken back to back, do not say what a shorter message takes
/// alone.
struct MessageTimes {
  struct Point {
    double bytes = 0, us = 0;
  };
  OpSpec profiled;                                      ///< what the model to be corrected is from
  std::map<std::string, std::vector<Point>> by_variant; ///< Variant::text(); sizes ascend
  /// Of variants that share their collective: the start of a pass of its own that a cut's does not take, the median of
  /// models whose communication has a factor clearly below 1.
  std::map<std::string, double> saved_us_by_variant = {};
  std::map<double, Variant> serial_by_bytes = {}; ///< the fastest at a serial run, of each message
};

/// Of those that differ from what was profiled in m, n and k alone. Analytic curves say nothing.
/// @param models  of one machine
[[nodiscard]] MessageTimes message_times(std::span<const CostModel> models, OpSpec profiled);

/// Whether at_length() gives different curves for different lengths, but for what was profiled.
[[nodiscard]] bool depends_on_length(const CostModel& model, const MessageTimes& messages);

/// The model for one length of the cut axis: with_waves(), and each variant's communication times the
/// ratio of what messages took to what its curve says of them, between the nearest two messages on a line in the
/// message's logarithm, beyond the last as there; on a GPU whose rates are known, on the line through the last two that
/// are clearly apart. A factor below 1 saves as much time of each message; one of about 1, where the variant
/// shares its collective, what its other models save. A serial run is of the variant that was the fastest at the
/// nearest message. As it was for the operator that was profiled. Source: docs/cost_model.md §12.
[[nodiscard]] CostModel at_length(CostModel model, const MessageTimes& messages, const OpSpec& op);

/// The plan, marked Extrapolated with the transfer's reason (Analytic stays Analytic). Unchanged for the same n and k.
[[nodiscard]] Plan as_transferred(Plan plan, const Transfer& transfer);

} // namespace mc2::planner

#pragma GCC visibility pop
