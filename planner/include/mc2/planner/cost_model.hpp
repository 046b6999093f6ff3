#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/slices.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// How a block is executed. The host backend has one variant, "direct"; the variants of other backends differ in
/// transport, SM share or algorithm.
struct Variant {
  std::string name;                          ///< e.g. "direct"
  std::map<std::string, std::string> fields; ///< settings that the backend reads, e.g. {"sm_count", "116"}

  /// "direct", or with settings "nccl(ctas=8,sm_count=116)": what samples name the variant by.
  [[nodiscard]] std::string text() const;
  bool operator==(const Variant&) const = default;
};

/// The variant that a text names. parse_variant(variant.text()) equals the variant if its name and settings contain
/// none of ( ) , and =. A text of another form is read as a name without settings.
[[nodiscard]] Variant parse_variant(std::string_view text);

/// A setting that the planner reads as well as the backend: the slices in which a block passes from lane to lane, in
/// the form that Slices::parse() reads.
inline constexpr std::string_view kSlicesSetting = "slices";

/// The setting for the number of SMs that a variant's matmul uses on a GPU. Without it, the matmul uses all SMs.
inline constexpr std::string_view kMatmulSmsSetting = "gemm_sms";

/// The variant whose blocks share waves: one kernel multiplies the tiles of all blocks. A tile has 128 rows; its
/// columns are the number before the x in the setting kTileSetting (cuBLASLt's rows are our columns), or 256 without
/// the setting. The kernel stores each tile at the rank that sums it, which is a part of the collective.
inline constexpr std::string_view kTileStoreVariant = "tile_store";
inline constexpr std::string_view kTileSetting = "tile";

/// Whether the variant's matmul does a part of the collective, so that the collective takes less time in a cut than
/// alone.
[[nodiscard]] inline bool shares_collective(const Variant& variant) noexcept {
  return variant.name == kTileStoreVariant;
}

/// The variant in which one kernel sums the blocks of a whole run while the matmul runs.
inline constexpr std::string_view kPersistentVariant = "persistent";

/// Whether a cut run starts and ends one kernel for the whole run. That takes time which no block's time includes.
[[nodiscard]] inline bool has_run_cost(const Variant& variant) noexcept { return variant.name == kPersistentVariant; }

/// VariantCost::run_us until a race has measured it; the value for H100s and H200s. Source: docs/cost_model.md §6.
inline constexpr double kUsualRunUs = 10;

/// The slices of each block of a variant. One slice without kSlicesSetting, and for a value that CostModel::validate()
/// refuses.
[[nodiscard]] Slices slices_of(const Variant& variant);

/// Smallest LaneCost::slowdown: in a cut, a lane's blocks take at least this part of their time alone.
inline constexpr double kLeastSlowdown = 0.05;

/// One lane's cost of a block: curve + fixed, stretched by `slowdown` while the other lane is busy.
struct LaneCost {
  CostCurve curve;     ///< over compute_axis() for compute, over bytes of the full array for communication
  double fixed_us = 0; ///< added to every block of a cut plan: hand-over between the lanes
  /// From 1 on: duration multiplier while the other lane is busy. Below 1: the other lane does a part of this lane's
  /// work, so a cut's blocks always take this part of the curve's time; the curve is their time alone.
  double slowdown = 1; ///< kLeastSlowdown to kMaxSlowdown
  /// Relative half-width of the 90 % interval of a slow-down that was assumed; 0 for one that was measured.
  double slowdown_interval = 0;
  /// Time of a run of this lane besides its blocks, for the caller: waking the lane's threads, and hearing of their
  /// end. A run of both lanes takes the start_us of both, cut or not. 0 where nothing tells it.
  double start_us = 0;
  double start_interval = 0; ///< relative half-width of the 90 % interval of start_us

  /// Time of a cut's blocks over their time alone, while the other lane rests.
  [[nodiscard]] double block_factor() const noexcept { return std::min(1.0, slowdown); }
  /// Duration multiplier while the other lane is busy.
  [[nodiscard]] double contention() const noexcept { return std::max(1.0, slowdown); }
  bool operator==(const LaneCost&) const = default;
};

/// A change of what races set in a variant's cost: both slow-downs, the fixed cost of the lane that blocks pass second,
/// and the cost of a run.
struct CostStep {
  double compute_slowdown = 0, communication_slowdown = 0; ///< added to LaneCost::slowdown
  double fixed_us = 0, run_us = 0;
  bool operator==(const CostStep&) const = default;
};

/// As many as a CostStep has numbers.
inline constexpr std::size_t kMaxOpenSteps = 4;

struct VariantCost {
  Variant variant;
  LaneCost compute; ///< for kinds with a local part: only the rows of the other ranks' shards
  LaneCost communication;
  /// Matmul of a rank's own shard over rows of the cut axis, for kinds with a local part. If absent, the compute curve
  /// stands in: b rows of the cut axis are (R - 1) b rows of product, so L own rows cost as much as a block of
  /// L / (R - 1).
  std::optional<CostCurve> local_compute = std::nullopt;
  /// Time that a run whose lanes overlap takes besides its blocks; not 0 only for variants with has_run_cost().
  double run_us = 0;
  /// Time of a run whose lanes overlap besides its blocks: run_us and the start_us of both lanes.
  [[nodiscard]] double overhead_us() const noexcept { return run_us + compute.start_us + communication.start_us; }
  /// What races left open: independent changes, each the half-width of a 90 % interval. Empty before any race.
  std::vector<CostStep> open_steps = {};

  /// Lower limit when a lane's slow-down is fitted anew: kLeastSlowdown if it is below 1 now, and for the communication
  /// lane of a variant with shares_collective(); otherwise 1.
  [[nodiscard]] double least_slowdown(Lane lane) const noexcept;
  /// Time of the local part of `op` in us; 0 for a kind without one.
  [[nodiscard]] double local_us(const OpSpec& op) const;
  /// Time of a run of each lane of the uncut `op` alone, in us, start_us included. The local part is added to the
  /// compute lane as a second matmul.
  [[nodiscard]] double uncut_compute_us(const OpSpec& op) const;
  [[nodiscard]] double uncut_communication_us(const OpSpec& op) const;
  /// The same in blocks of these lengths, one after the other.
  [[nodiscard]] double compute_us(const OpSpec& op, std::span<const std::int64_t> block_rows) const;
  [[nodiscard]] double communication_us(const OpSpec& op, std::span<const std::int64_t> block_rows) const;
  bool operator==(const VariantCost&) const = default;
};

/// For kinds with a local part on a GPU whose rates are known, a serial run multiplies all rows at once after they have
/// arrived. This is the time of that matmul over the time of two matmuls, of the own shard and of the other shards.
/// 1 on other machines and for kinds without a local part. Source: docs/cost_model.md §12.
[[nodiscard]] double serial_compute_ratio(const OpSpec& op, const Fingerprint& machine);

/// What x counts in a compute curve of the operator: rows, or columns where blocks are cut from n.
[[nodiscard]] CurveAxis compute_axis(const OpSpec& op);

/// No model may have more variants: backends offer a few dozen.
inline constexpr std::size_t kMaxVariantCount = 1024;

/// The published recipe's factor for bandwidth contention, and the half-width of its interval, relative. They are
/// assumed for lanes that were never timed side by side.
inline constexpr double kPublishedContention = 1.15, kContentionInterval = 0.15;

/// A measured serial run of a model's operator. On a GPU, one launch of many tiles takes less time than blocks that
/// have as many tiles together. Source: docs/cost_model.md §12.
struct SerialRun {
  Variant variant;       ///< the variant with the fastest serial run
  double compute_us = 0; ///< the run's matmul, all rows at once
  bool operator==(const SerialRun&) const = default;
};

/// How far off predictions are because a machine changes: half-widths of 90 % intervals, relative (speed_spread()).
struct SpeedSpread {
  double compute = 0, communication = 0; ///< of the uncut parts
  double overlap = 0;                    ///< of fused / serial, for a run whose lanes overlap
  double makespan = 0;                   ///< of a whole run; 0: no whole run is known
  bool operator==(const SpeedSpread&) const = default;
};

/// What the planner knows of one operator on one machine. It is valid for every length of the cut axis: if rows are
/// cut, for every m that is cut by rows, at the given n, k, dtype and ranks; if columns are cut, for every n at the
/// given m, k, dtype and ranks.
struct CostModel {
  OpSpec op; ///< the uncut size that was profiled; has_same_block_costs() says which others the curves answer for
  Fingerprint fingerprint;
  std::vector<VariantCost> variants; ///< at least one
  std::string source;                ///< where it came from, e.g. "profile on this machine" or a citation
  /// Half-width of the 90 % interval of a makespan, relative, when the uncut parts' present times are known, so that a
  /// drift of the machine's speed cancels, and the costs are right. Learned from raced cuts; empty before any race.
  /// race_intervals() joins it with VariantCost::open_steps.
  std::optional<double> anchored_interval = std::nullopt;
  std::optional<SerialRun> serial = std::nullopt; ///< its variant need not be one of the model's
  /// Set by with_spread(), which also joined it to the measured curves' intervals. It follows from the machine's later
  /// runs and is not part of the document.
  SpeedSpread spread = {};

  /// Errors: as OpSpec::validate. InvalidSpec for no variants or more than kMaxVariantCount, a variant that is there
  /// twice or has no name, an invalid curve or one over another axis, a curve that gives the whole operator a time
  /// above kMaxTimeUs, a fixed_us or run_us as validate_time, a slow-down outside kLeastSlowdown to kMaxSlowdown, a
  /// slow-down interval outside 0 to below 1, more than kMaxOpenSteps steps or one beyond kMaxTimeUs, a local curve for
  /// a kind without a local part, slices that Slices::parse() does not read, a serial matmul's time that is not above 0
  /// and at most kMaxTimeUs, or an anchored interval that is not above 0 and at most kMaxCurveInterval. Stale for a
  /// compute curve over rows where blocks are columns: an earlier mc2 profiled it.
  [[nodiscard]] Result<void> validate() const;

  /// The cost of a variant; null if the model does not have the variant.
  [[nodiscard]] const VariantCost* cost_of(const Variant& variant) const;

  bool operator==(const CostModel&) const = default;
};

/// Whether any variant has an analytic curve. Plans of such a model skip the test of significance: the test takes
/// errors at different block lengths as independent, but a wrong constant moves the times of all lengths alike.
[[nodiscard]] bool has_analytic_curve(const CostModel& model);

/// The model with this variant only. If has_analytic_curve(), a name without settings also means the only variant of
/// that name. Errors: NotFound, listing the model's variants.
[[nodiscard]] Result<CostModel> restricted_to(const Variant& variant, CostModel model);

/// The curve with every time multiplied by `factor` > 0; sizes, range and relative interval stay.
[[nodiscard]] CostCurve scaled(CostCurve curve, double factor);

/// The cost with all times of each lane's curves multiplied by the lane's factor > 0; the local part is the compute
/// lane's. Fixed costs and slow-downs stay.
[[nodiscard]] VariantCost scaled(VariantCost cost, double compute, double communication);
/// The model with every variant scaled like that, and the serial run's matmul by `compute`.
[[nodiscard]] CostModel scaled(CostModel model, double compute, double communication);

/// The model's measured serial run, transferred to another m, n and k: its matmul's time is multiplied by the ratio of
/// the two operators' matmuls of all rows at once, computed from waves of tiles on a GPU whose rates are known. Empty
/// if the model has no serial run, or if `op` is another operator than the model's and the rates are not known.
[[nodiscard]] std::optional<SerialRun> serial_run(const CostModel& model, const OpSpec& op);

/// The variant to use for operators of other sizes. If the model has the same variant without kTileSetting, it is that
/// one, in which the library chooses the tile: the given tile was the fastest for one size only. Otherwise, and for
/// kTileStoreVariant, it is the given variant.
[[nodiscard]] Variant of_any_size(const CostModel& model, const Variant& variant);

/// The model with a measured serial run of its operator. The model stays as it is on a machine without known GPU rates,
/// for a variant that it does not have, and for a time that is not positive and finite.
[[nodiscard]] CostModel with_serial_run(CostModel model, const SerialRun& run);

/// The model with each variant's curves scaled so that the lanes of `op`, each alone, take the given times > 0.
/// This corrects a model for a machine whose speed has drifted since it was profiled.
/// @param block_rows  the blocks that took these times; none: uncut
[[nodiscard]] CostModel anchored(CostModel model, const OpSpec& op, double compute_us, double communication_us,
                                 std::span<const std::int64_t> block_rows = {});

} // namespace mc2::planner

#pragma GCC visibility pop
