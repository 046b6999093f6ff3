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

/// n, k and n k of the target must each be 1/16 to 16 times the source's. Beyond that, a row's FLOPs and bytes no
/// longer say what it costs, because other kernels and caches take over. Source: docs/cost_model.md §12.
inline constexpr double kMaxTransferRatio = 16;
/// Below this n or k a matmul is limited by memory or call overhead rather than FLOPs. Source and target must be on the
/// same side of it in n (where rows are cut) and in k.
inline constexpr std::int64_t kMinTransferLength = 64;
/// Added to the relative interval of a transferred compute curve: once for each doubling or halving of n k, half for
/// each of the aspect n / k, and once at least. Compared with leave-one-shape-out errors: `mc2-bench transfer`,
/// docs/benchmarks.md.
inline constexpr double kComputeTransferSpread = 0.06;
/// Added instead on GPUs whose rates are known, whatever the distance: 90 % of the matmuls of docs/cost_model.md §12
/// are within it.
inline constexpr double kWaveTransferSpread = 0.14;
/// Added to the relative interval of a transferred communication curve: its bytes were measured in other blocks.
inline constexpr double kCommunicationTransferSpread = 0.06;

/// A model of one (n, k), transferred to another.
struct Transfer {
  CostModel model; ///< its op is the target; its intervals are wider than the source's
  OpSpec source;   ///< the operator that was measured
  /// the two operators have the same block costs: nothing was transferred, and intervals are the source's
  bool is_same = false;
  std::string reason; ///< "transferred from n=1024 k=1024: a row has 2 x the FLOPs and 1 x the bytes"
};

/// The model for a target operator with another n and k. The compute curve is read at equal FLOPs and the communication
/// curve at equal bytes:
///   compute'(rows) = compute(rows n'k' / (n k))
///   communication'(bytes) = communication(bytes)
/// A staircase has its wave shortened by n'/n and its step scaled by k'/k. On a GPU whose rates are known:
///   compute'(rows) = compute(rows) W(rows, n', k') / L(rows)
/// W is the time by waves of tiles. L is W(rows, n, k) or, for a curve that is a straight line, a line through it.
/// Slow-downs and fixed costs stay. Fixed parts of a curve are kept, parts per row are scaled. Where blocks are
/// columns, a column has k'/k times the FLOPs and bytes of B, and n does not matter.
/// Errors: InvalidSpec (model or target), Stale (another machine), OutOfRange naming the reason: another kind, element
/// type or number of ranks, another cut axis, another m where columns are cut, a ratio beyond kMaxTransferRatio, n or k
/// on the other side of kMinTransferLength, or a result that CostModel::validate refuses.
[[nodiscard]] Result<Transfer> transfer(const CostModel& model, const OpSpec& target, const Fingerprint& fingerprint);

/// Distance in doublings from the length of the cut axis that was profiled to the one that is asked for. A profiled
/// length that is shorter counts twice as far, because the longest blocks then lie beyond what was measured.
[[nodiscard]] double length_distance(const OpSpec& profiled, const OpSpec& asked);

/// transfer() from the nearest model for which it succeeds. Distance is Euclidean over the doublings of n and of k and
/// half of length_distance(); of equally near models, the first one is taken.
/// Errors: InvalidSpec (target); NotFound without models; the nearest model's error if no transfer succeeds.
[[nodiscard]] Result<Transfer> transfer_from_nearest(std::span<const CostModel> models, const OpSpec& target,
                                                     const Fingerprint& fingerprint);
/// The model for one length of the cut axis, on a GPU whose rates are known; unchanged on other machines. Waves of
/// tiles bend a compute curve in three cases: it is a straight line, which has lost where waves end; blocks may be
/// shorter than the fewest measured rows; or a rank holds several experts and op.m is not the profiled m. The interval
/// grows if all blocks are shorter than the fewest measured rows. kTileStoreVariant's kernel takes whole waves for all
/// blocks together: its curve is scaled by TileWaves::whole_waves_ratio() of `op` over that of the model's operator.
/// @param op  an operator that the model answers for
[[nodiscard]] CostModel with_waves(CostModel model, const OpSpec& op);

/// Times of a kind's uncut collectives on one machine, one for each message that a model of the kind has. They correct
/// a model for other messages: equally many bytes take equally long whatever n and k are, but a profile's blocks, which
/// run back to back, do not tell how long a shorter message takes alone.
struct MessageTimes {
  struct Point {
    double bytes = 0, us = 0;
  };
  OpSpec profiled;                                      ///< the operator of the model to be corrected
  std::map<std::string, std::vector<Point>> by_variant; ///< by Variant::text(); bytes ascend
  /// For variants with shares_collective(), by Variant::text(): the start of a separate pass, which the collective of a
  /// cut saves. The median over the models whose communication slow-down is clearly below 1.
  std::map<std::string, double> saved_us_by_variant = {};
  std::map<double, Variant> serial_by_bytes = {}; ///< by message, the variant with the fastest serial run
};

/// The times in those models whose operators differ from `profiled` in m, n and k alone. Analytic curves are left out.
/// @param models  models of one machine
[[nodiscard]] MessageTimes message_times(std::span<const CostModel> models, OpSpec profiled);

/// Whether at_length() may give different curves for different lengths.
[[nodiscard]] bool depends_on_length(const CostModel& model, const MessageTimes& messages);

/// The model for one length of the cut axis. Source: docs/cost_model.md §12.
/// Compute: with_waves(); and no variant's blocks multiply faster than the model's serial run multiplies all rows.
/// For another operator than the one that was profiled, also:
/// - Each communication curve is multiplied by the ratio of measured to computed time of op's message. Between known
///   messages, the ratio's logarithm is interpolated over the message's logarithm. Beyond the outermost message it is
///   that message's ratio or, on a GPU whose rates are known, the time is on the line through that message and another
///   one that is clearly apart.
/// - A communication slow-down below 1 is set so that a cut saves the same time of every message. For a variant with
///   shares_collective() and a slow-down of about 1, the cut saves MessageTimes::saved_us_by_variant.
/// - The serial run has the variant whose serial run was the fastest at the nearest message.
[[nodiscard]] CostModel at_length(CostModel model, const MessageTimes& messages, const OpSpec& op);

/// The plan, marked Extrapolated with the transfer's reason (Analytic stays Analytic). Unchanged if transfer.is_same.
[[nodiscard]] Plan as_transferred(Plan plan, const Transfer& transfer);

} // namespace mc2::planner

#pragma GCC visibility pop
