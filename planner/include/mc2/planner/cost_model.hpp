#pragma once

#include <algorithm>
#include <map>
#include <optional>
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

/// How a block is executed. The host backend has one, "direct"; others differ in transport, SM share or algorithm.
struct Variant {
  std::string name;                          ///< e.g. "direct"
  std::map<std::string, std::string> fields; ///< settings that the backend reads, e.g. {"sm_count", "116"}

  /// "direct", or with settings "nccl(ctas=8,sm_count=116)": what samples name the variant by.
  [[nodiscard]] std::string text() const;
  bool operator==(const Variant&) const = default;
};

/// The variant that a text names: parse_variant(variant.text()) is the variant, provided that its name and settings are
/// free of ( ) , and =. A text of another form is a name without settings.
[[nodiscard]] Variant parse_variant(std::string_view text);

/// The one setting that the planner reads, too: the slices in which a block passes from lane to lane, as
/// Slices::parse() takes them.
inline constexpr std::string_view kSlicesSetting = "slices";

/// SMs that a matmul on a GPU may count on; all where a variant does not say.
inline constexpr std::string_view kMatmulSmsSetting = "gemm_sms";

/// The variant whose blocks share waves: one kernel multiplies the tiles of all of them, of 128 rows and as many
/// columns as its setting says before an x (cuBLASLt's rows are our columns), 256 where it does not say. It stores them
/// where they are summed, a part of the collective.
inline constexpr std::string_view kTileStoreVariant = "tile_store";
inline constexpr std::string_view kTileSetting = "tile";

/// Whether its matmul does a part of the collective, so that a cut's collective takes less than it does alone.
[[nodiscard]] inline bool shares_collective(const Variant& variant) noexcept {
  return variant.name == kTileStoreVariant;
}

/// The variant of which one kernel sums the blocks of a whole run beside the matmul.
inline constexpr std::string_view kPersistentVariant = "persistent";

/// Whether a cut run starts and ends with a kernel of its own. No block's time has what that takes.
[[nodiscard]] inline bool has_run_cost(const Variant& variant) noexcept { return variant.name == kPersistentVariant; }

/// What that is where no race has told it: of H100s and H200s. Source: docs/cost_model.md §6.
inline constexpr double kUsualRunUs = 10;

/// Of every block. One without the setting, and for a value that CostModel::validate() refuses.
[[nodiscard]] Slices slices_of(const Variant& variant);

/// A lane whose blocks take less time in a cut than alone is at most so much faster.
inline constexpr double kLeastSlowdown = 0.05;

/// One lane's cost of a block: curve + fixed, stretched by `slowdown` while the other lane is busy.
struct LaneCost {
  CostCurve curve;     ///< over compute_axis() for compute, over bytes of the full array for communication
  double fixed_us = 0; ///< added to every block of a cut plan: hand-over between the lanes
  /// Duration multiplier while the other lane is busy. Below 1: of a cut's blocks, whatever the other lane does, where
  /// it does a part of their work; the curve is what they take alone.
  double slowdown = 1; ///< kLeastSlowdown to kMaxSlowdown
  /// Relative half-width of the 90 % interval of a slow-down that was assumed; 0 for one that was measured.
  double slowdown_interval = 0;

  /// Of a cut's blocks over what they take alone, while the other lane rests; then that of the other lane's being busy.
  [[nodiscard]] double block_factor() const noexcept { return std::min(1.0, slowdown); }
  [[nodiscard]] double contention() const noexcept { return std::max(1.0, slowdown); }
  bool operator==(const LaneCost&) const = default;
};

struct VariantCost {
  Variant variant;
  LaneCost compute; ///< with a local part: the rows of the other ranks' shards only
  LaneCost communication;
  /// Matmul of a rank's own shard over rows of the cut axis, for kinds with a local part. Without it the compute curve
  /// answers: b rows of the cut axis are (R - 1) b rows of product, so the own L rows cost as much as L / (R - 1).
  std::optional<CostCurve> local_compute = std::nullopt;
  /// What a run whose lanes overlap takes besides its blocks; of variants with has_run_cost().
  double run_us = 0;

  /// What a lane's factor that is fitted anew may come down to: below 1 where it was, and of the communication where
  /// shares_collective().
  [[nodiscard]] double least_slowdown(Lane lane) const noexcept;
  /// Time of the local part of `op` in us; 0 for a kind without one.
  [[nodiscard]] double local_us(const OpSpec& op) const;
  /// What the lanes of the uncut `op` take alone, in us: the local part is a matmul of its own.
  [[nodiscard]] double uncut_compute_us(const OpSpec& op) const;
  [[nodiscard]] double uncut_communication_us(const OpSpec& op) const;
  bool operator==(const VariantCost&) const = default;
};

/// A serial run multiplies the own shard's rows and the others' after they have arrived; on a GPU whose rates are
/// known, all at once. What that takes over the one after the other: 1 elsewhere and for kinds without a local part.
/// Source: docs/cost_model.md §12.
[[nodiscard]] double serial_compute_ratio(const OpSpec& op, const Fingerprint& machine);

/// What a compute curve of the operator counts: rows, or columns where blocks are cut from n.
[[nodiscard]] CurveAxis compute_axis(const OpSpec& op);

/// No model may have more variants: backends offer a few dozen.
inline constexpr std::size_t kMaxVariantCount = 1024;

/// The published recipe's factor for bandwidth contention, and how far off it may be: what is assumed of lanes that
/// were never timed side by side.
inline constexpr double kPublishedContention = 1.15, kContentionInterval = 0.15;

/// A serial run of a model's operator that was measured: on a GPU one launch of many tiles takes less than blocks that
/// add up to as many. Source: docs/cost_model.md §12.
struct SerialRun {
  Variant variant;       ///< the fastest at it
  double compute_us = 0; ///< its matmul, all rows at once
  bool operator==(const SerialRun&) const = default;
};

/// How far off predictions are because a machine changes: half-widths of 90 % intervals, relative (speed_spread()).
struct SpeedSpread {
  double compute = 0, communication = 0; ///< of the uncut parts
  double overlap = 0;                    ///< of a run whose lanes overlap, over serial
  double makespan = 0;                   ///< of a whole run; 0: nothing is known of those
  bool operator==(const SpeedSpread&) const = default;
};

/// What the planner knows of one operator on one machine. Valid for every length of the cut axis: for every m of the
/// given n, k, dtype and ranks that is cut by rows too, or for every n of the given m, k, dtype and ranks.
struct CostModel {
  OpSpec op; ///< the uncut size that was profiled; has_same_block_costs() says which others the curves answer for
  Fingerprint fingerprint;
  std::vector<VariantCost> variants; ///< at least one
  std::string source;                ///< where it came from, e.g. "profile on this machine" or a citation
  /// Half-width of the 90 % interval of a makespan, relative, once the uncut parts' times are known: what remains when
  /// a drift of the machine's speed cancels. Learned from raced cuts; empty before any race.
  std::optional<double> anchored_interval = std::nullopt;
  std::optional<SerialRun> serial = std::nullopt; ///< its variant need not be one of the model's
  /// with_spread()'s, which the measured curves' intervals hold already. It follows from the machine's later runs and
  /// is no part of the document.
  SpeedSpread spread = {};

  /// Errors: InvalidSpec for no variants or too many, one that is there twice, an invalid curve, one that gives the
  /// whole operator a time above kMaxTimeUs, other times as validate_time, a slow-down outside kLeastSlowdown to
  /// kMaxSlowdown, a local curve for a kind without a local part, slices that Slices::parse() does not take, a serial
  /// matmul's time of 0, or an anchored interval that is not above 0 and at most kMaxCurveInterval. Stale for a compute
  /// curve over rows of an operator whose blocks are columns: it was profiled by an earlier mc2.
  [[nodiscard]] Result<void> validate() const;

  /// What the model knows of a variant; null where it knows nothing.
  [[nodiscard]] const VariantCost* cost_of(const Variant& variant) const;

  bool operator==(const CostModel&) const = default;
};

/// Whether a lane of some variant comes from published constants. A wrong constant moves all block lengths alike, so
/// such a model's intervals cannot explain a gain away: the test of significance takes their errors as independent.
[[nodiscard]] bool has_analytic_curve(const CostModel& model);

/// The model with no other variant. Where has_analytic_curve(), a name without settings stands for the only variant of
/// that name. Errors: NotFound, listing those that the model has.
[[nodiscard]] Result<CostModel> restricted_to(const Variant& variant, CostModel model);

/// The curve with every time multiplied by `factor` > 0; sizes, range and relative interval stay.
[[nodiscard]] CostCurve scaled(CostCurve curve, double factor);

/// Of lanes that take so many times as long, both factors > 0.
[[nodiscard]] VariantCost scaled(VariantCost cost, double compute, double communication);
/// The model of a machine whose lanes do.
[[nodiscard]] CostModel scaled(CostModel model, double compute, double communication);

/// What the model's measured serial run says of another m, n and k: its matmul's time by the ratio of all rows at once
/// by the waves of tiles of a GPU whose rates are known. Empty where there is none or nothing carries it there.
[[nodiscard]] std::optional<SerialRun> serial_run(const CostModel& model, const OpSpec& op);

/// The variant for operators of other sizes: without its tile, which was the fastest for one size, so that the library
/// chooses, where the model has that.
[[nodiscard]] Variant of_any_size(const CostModel& model, const Variant& variant);

/// The model with a serial run of its operator; as it is where blocks add up to that, and for a variant that it does
/// not have.
[[nodiscard]] CostModel with_serial_run(CostModel model, const SerialRun& run);

/// The model with each variant's curves scaled so that the uncut lanes of `op` take the given times, each alone: what
/// remains of a model when the machine's speed has drifted since it was profiled. Times > 0.
[[nodiscard]] CostModel anchored(CostModel model, const OpSpec& op, double compute_us, double communication_us);

} // namespace mc2::planner

#pragma GCC visibility pop
