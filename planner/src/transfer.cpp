#include "mc2/planner/transfer.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <variant>

#include "gpu_matmul.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/tile_waves.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::planner {
namespace {

/// Distances between the knots of a curve that follows waves: a tile's rows up to kFineRows; beyond that, where a wave
/// is a small part of a block, a share of the length.
constexpr double kTileStep = 128, kFineRows = 8192, kCoarseShare = 1.0 / 16;

SizeRatios ratios_of(const OpSpec& source, const OpSpec& target) {
  return {cut_axis(target) == CutAxis::Columns ? 1 : static_cast<double>(target.n) / static_cast<double>(source.n),
          static_cast<double>(target.k) / static_cast<double>(source.k)};
}

/// The transfer adds an error of the curve, not of single timings, so the curve's own error grows too.
CostCurve widened(CostCurve curve, double spread) {
  curve.relative_interval = std::min(curve.relative_interval + spread, kMaxCurveInterval);
  curve.quality.cross_validated_rms += spread / kNormal90;
  return curve;
}

CostCurve with_dearer_rows(CostCurve curve, const SizeRatios& ratios) {
  std::visit([&](auto& family) { family.scale_rows(ratios); }, curve.shape);
  curve.valid_min_x /= ratios.flops();
  curve.valid_max_x /= ratios.flops();
  const double size_doublings = std::abs(std::log2(ratios.flops()));
  const double aspect_doublings = std::abs(std::log2(ratios.n / ratios.k)) / 2;
  return widened(std::move(curve), kComputeTransferSpread * std::max(size_doublings + aspect_doublings, 1.0));
}

/// Time of a block in us, by its rows.
using TimesOfRows = std::function<double(double)>;

/// The straight line that a fit with relative errors finds through the times by waves, at the sizes that a profile
/// takes.
AffineCurve line_through(const TimesOfRows& waves_us, double first_x, double last_x) {
  constexpr double kLeastDeterminant = 1e-9;                 // over its products; a single size tells no slope
  double ones = 0, xs = 0, squares = 0, left = 0, right = 0; // sums of 1/t, x/t and their products
  const auto add = [&](double x) {
    const double one = 1 / waves_us(x), slope = x * one;
    ones += one * one, xs += one * slope, squares += slope * slope, left += one, right += slope;
  };
  for (double x = first_x; x < last_x; x *= 2) add(x);
  add(last_x);
  const double determinant = ones * squares - xs * xs;
  if (determinant <= kLeastDeterminant * ones * squares) return {left / ones, 0};
  const double alpha_us = (left * squares - right * xs) / determinant;
  const double beta_us = (ones * right - xs * left) / determinant;
  if (alpha_us > 0 && beta_us > 0) return {alpha_us, beta_us};
  return alpha_us > 0 ? AffineCurve{left / ones, 0} : AffineCurve{0, right / squares};
}

std::vector<double> wave_knots(double first_x, double last_x) {
  std::vector<double> knots;
  for (double x = first_x; x < std::min(kTileStep, last_x); x *= 2) knots.push_back(x);
  for (double x = kTileStep; x < last_x && knots.size() + 1 < kMaxCurveKnots;
       x += x < kFineRows ? kTileStep : kCoarseShare * x)
    knots.push_back(x);
  knots.push_back(last_x);
  return knots;
}

/// The curve bent by waves of tiles. The measured times include waves, but a straight line fitted to them has lost
/// where waves end, so the reference for a line is the line through the times by waves; for another curve, it is these
/// times. The ratio of curve to reference stays constant beyond the measured sizes. `source_us` and `target_us` are the
/// times by waves of the operator that was measured and of the one that is asked for.
CostCurve with_rows_of_waves(const CostCurve& curve, const TimesOfRows& source_us, const TimesOfRows& target_us,
                             double last_x) {
  const bool is_line = std::holds_alternative<AffineCurve>(curve.shape);
  const AffineCurve line = is_line ? line_through(source_us, curve.valid_min_x, curve.valid_max_x) : AffineCurve{};
  InterpolatedCurve shape;
  constexpr double kFewestRows = 4;
  for (const double x : wave_knots(std::min(kFewestRows, curve.valid_min_x), std::max(last_x, curve.valid_max_x))) {
    const double from_x = std::clamp(x, curve.valid_min_x, curve.valid_max_x);
    const double us = curve.time_us(from_x) * target_us(x) / (is_line ? line.time_us(from_x) : source_us(from_x));
    const double least_us = shape.knots.empty() ? 0 : shape.knots.back().time_us;
    if (us > 0) shape.knots.push_back({x, std::max(us, least_us)});
  }
  CostCurve result = curve;
  result.shape = std::move(shape);
  return result.validate() ? result : curve; // if all costs are 0, or one is beyond all bounds
}

/// Times by waves of a variant's blocks, or of the own shard.
TimesOfRows times_of_rows(const GpuRates& rates, const OpSpec& op, const Variant& variant, bool is_local) {
  return [times = BlockWaves(rates, op, variant), is_local](double rows) {
    return is_local ? times.at_once_us(rows) : times.us(rows);
  };
}

/// TileWaves::whole_waves_ratio() of `op` over that of the profiled operator. The profiled block times include the
/// latter, because a run's time in whole waves was shared among its blocks.
double waves_over(const GpuRates& rates, const OpSpec& op, const OpSpec& profiled, const Variant& variant) {
  const auto ratio = [&](const OpSpec& of) {
    return TileWaves(of, tile_store_columns(variant), matmul_sms(variant, rates.sm_count))
        .whole_waves_ratio(cut_axis_length(of));
  };
  return ratio(op) / ratio(profiled);
}

Result<void> check_ratio(const char* field, double ratio) {
  if (ratio <= kMaxTransferRatio && ratio >= 1 / kMaxTransferRatio) return {};
  return Error{ErrorCode::OutOfRange, field,
               "is " + number_text(ratio) +
                   " times the profiled one; a model answers for 1/16 to 16 times, profile this "
                   "operator"};
}

Result<void> check_length(const char* field, std::int64_t source, std::int64_t target) {
  if ((source < kMinTransferLength) == (target < kMinTransferLength)) return {};
  return Error{ErrorCode::OutOfRange, field,
               "is " + std::to_string(target) + ", profiled was " + std::to_string(source) +
                   "; a model does not answer "
                   "across " +
                   std::to_string(kMinTransferLength) + ", where FLOPs stop to decide, profile this operator"};
}

/// A block of rows and one of columns cost different amounts, and so do columns of different m: reading B, not FLOPs,
/// decides there.
Result<void> check_axis(const OpSpec& source, const OpSpec& target) {
  const CutAxis axis = cut_axis(source);
  if (axis == cut_axis(target) && (axis == CutAxis::Rows || source.m == target.m)) return {};
  return Error{ErrorCode::OutOfRange, "m",
               "is " + std::to_string(target.m) + ", profiled was " + std::to_string(source.m) + " in blocks of " +
                   std::string(to_string(axis)) +
                   "; blocks of columns are answered for by a profile of the same m "
                   "only, profile this operator"};
}

bool differs_in_size_only(OpSpec a, const OpSpec& b) {
  a.m = b.m, a.n = b.n, a.k = b.k;
  return a == b;
}

Result<void> check_soundness(const CostModel& model, const OpSpec& target, const Fingerprint& fingerprint) {
  if (model.fingerprint != fingerprint) {
    const auto differences = model.fingerprint.differences(fingerprint);
    return Error{ErrorCode::Stale, "model",
                 "is of another machine (" + (differences.empty() ? std::string() : differences.front()) +
                     "); costs do not transfer between machines, profile this one"};
  }
  if (!differs_in_size_only(model.op, target))
    return Error{
        ErrorCode::OutOfRange, "model",
        "describes " + model.op.text() + "; only other m, n and k of it can be answered, not " + target.text()};
  MC2_TRY(check_axis(model.op, target));
  const SizeRatios ratios = ratios_of(model.op, target);
  MC2_TRY(check_ratio("n", ratios.n));
  MC2_TRY(check_ratio("k", ratios.k));
  MC2_TRY(check_ratio("n k", ratios.flops()));
  if (cut_axis(target) == CutAxis::Rows) MC2_TRY(check_length("n", model.op.n, target.n));
  return check_length("k", model.op.k, target.k);
}

/// Distance in doublings. The length of the cut axis counts half, because curves answer for many lengths.
double distance(const OpSpec& source, const OpSpec& target) {
  const SizeRatios ratios = ratios_of(source, target);
  return std::hypot(std::log2(ratios.n), std::log2(ratios.k), length_distance(source, target) / 2);
}

/// Whether a model of `a` answers for `b` as it is: n and k are equal where rows are cut, m and k where columns are.
bool has_same_shape(const OpSpec& a, const OpSpec& b) {
  return cut_axis(a) == cut_axis(b) && a.k == b.k && (cut_axis(a) == CutAxis::Rows ? a.n == b.n : a.m == b.m);
}

/// The matmul's curve for `target`. `rates` are empty if those of the device are not known.
CostCurve transferred_matmul(const CostCurve& curve, const Variant& variant, const OpSpec& profiled,
                             const OpSpec& target, const std::optional<GpuRates>& rates, bool is_local) {
  const SizeRatios ratios = ratios_of(profiled, target);
  if (!rates || !are_rates_of(*rates, variant) || curve.is_analytic || !(curve.valid_min_x > 0))
    return with_dearer_rows(curve, ratios);
  if (variant.name == kTileStoreVariant)
    return scaled(with_dearer_rows(curve, ratios), waves_over(*rates, target, profiled, variant));
  const auto last_x = static_cast<double>(cut_axis_length(target));
  return widened(with_rows_of_waves(curve, times_of_rows(*rates, profiled, variant, is_local),
                                    times_of_rows(*rates, target, variant, is_local), last_x),
                 kWaveTransferSpread);
}

void transfer_variant(VariantCost& cost, const OpSpec& profiled, const OpSpec& target,
                      const std::optional<GpuRates>& rates) {
  const auto transferred = [&](const CostCurve& curve, bool is_local) {
    return transferred_matmul(curve, cost.variant, profiled, target, rates, is_local);
  };
  cost.compute.curve = transferred(cost.compute.curve, false);
  if (cost.local_compute) cost.local_compute = transferred(*cost.local_compute, true);
  cost.communication.curve = widened(std::move(cost.communication.curve), kCommunicationTransferSpread);
}

std::string transfer_reason(const OpSpec& profiled, const OpSpec& target) {
  const OpTraits& traits = traits_of(target.kind);
  const double byte_ratio = static_cast<double>(traits.message_bytes_per_unit(target)) /
                            static_cast<double>(traits.message_bytes_per_unit(profiled));
  const bool cuts_rows = cut_axis(target) == CutAxis::Rows;
  return std::string(kTransferred) + (cuts_rows ? "n=" + std::to_string(profiled.n) + " " : std::string()) +
         "k=" + std::to_string(profiled.k) + ": a " + (cuts_rows ? "row" : "column") + " has " +
         number_text(ratios_of(profiled, target).flops()) + " x the FLOPs and " + number_text(byte_ratio) +
         " x the bytes";
}

} // namespace

Result<Transfer> transfer(const CostModel& model, const OpSpec& target, const Fingerprint& fingerprint) {
  MC2_TRY(target.validate());
  if (auto valid = model.validate(); !valid)
    return Error{valid.error().code, "model." + valid.error().field, valid.error().message};
  MC2_TRY(check_soundness(model, target, fingerprint));
  Transfer result{model, model.op, has_same_shape(model.op, target), "the model is of this operator"};
  result.model.serial = serial_run(model, target);
  result.model.op = target;
  if (result.is_same) return result;
  // Races vouch for the profiled shape alone. Another is known no better: it keeps what they left open, and the curves
  // take up what the model missed them by.
  const double raced = result.model.anchored_interval.value_or(0);
  result.model.anchored_interval.reset();
  auto rates = gpu_rates(fingerprint, target);
  if (!gpu_rates(fingerprint, model.op)) rates.reset(); // the grouped matmul does not take the profiled n or k
  for (auto& variant : result.model.variants) {
    for (CostCurve* curve : {&variant.compute.curve, &variant.communication.curve})
      if (!curve->is_analytic) curve->relative_interval = joined_interval(curve->relative_interval, raced);
    transfer_variant(variant, model.op, target, rates);
  }
  result.reason = transfer_reason(model.op, target) + (rates ? ", by waves of this GPU's tiles" : "");
  result.model.source = result.reason + "; " + model.source;
  if (auto valid = result.model.validate(); !valid)
    return Error{ErrorCode::OutOfRange, "model." + valid.error().field,
                 "cannot be transferred: " + valid.error().message};
  return result;
}

double length_distance(const OpSpec& profiled, const OpSpec& asked) {
  const double doublings =
      std::log2(static_cast<double>(cut_axis_length(profiled)) / static_cast<double>(cut_axis_length(asked)));
  return doublings >= 0 ? doublings : -2 * doublings;
}

Result<Transfer> transfer_from_nearest(std::span<const CostModel> models, const OpSpec& target,
                                       const Fingerprint& fingerprint) {
  MC2_TRY(target.validate());
  std::vector<std::pair<double, const CostModel*>> by_distance;
  for (const CostModel& model : models)
    if (model.op.validate()) by_distance.emplace_back(distance(model.op, target), &model);
  std::ranges::stable_sort(by_distance, {}, [](const auto& one) { return one.first; });
  std::optional<Error> refusal;
  for (const auto& [far, model] : by_distance) {
    auto transferred = transfer(*model, target, fingerprint);
    if (transferred) return transferred;
    if (!refusal) refusal = transferred.error();
  }
  if (refusal) return *refusal;
  return Error{ErrorCode::NotFound, "model", "there is none to transfer from; profile this operator"};
}

CostModel with_waves(CostModel model, const OpSpec& op) {
  const auto rates = gpu_rates(model.fingerprint, op);
  if (!rates) return model;
  const OpTraits& traits = traits_of(op.kind);
  const auto rows = static_cast<double>(traits.cut_axis_length(op));
  const double fewest_rows = traits.has_local_part ? rows / (op.world_size - 1) : rows;
  // If a rank holds several experts, a block has rows of more of them the fewer rows each has, i.e. it depends on m.
  const bool has_others = op.experts_per_rank > 1 && op.m != model.op.m;
  const auto waved = [&](CostCurve curve, const Variant& variant, bool is_local) {
    if (curve.is_analytic || !(curve.valid_min_x > 0) || !are_rates_of(*rates, variant)) return curve;
    if (variant.name == kTileStoreVariant) return scaled(std::move(curve), waves_over(*rates, op, model.op, variant));
    const bool is_line = std::holds_alternative<AffineCurve>(curve.shape);
    if (!is_line && !has_others && fewest_rows >= curve.valid_min_x) return curve;
    const bool is_below = rows < curve.valid_min_x;
    curve = with_rows_of_waves(curve, times_of_rows(*rates, model.op, variant, is_local),
                               times_of_rows(*rates, op, variant, is_local), rows);
    return is_below ? widened(std::move(curve), kWaveTransferSpread) : curve;
  };
  for (auto& cost : model.variants) {
    cost.compute.curve = waved(std::move(cost.compute.curve), cost.variant, false);
    if (cost.local_compute) cost.local_compute = waved(*std::move(cost.local_compute), cost.variant, true);
  }
  return model;
}

namespace {

double message_bytes(const OpSpec& op) {
  const OpTraits& traits = traits_of(op.kind);
  return static_cast<double>(traits.cut_axis_length(op)) * static_cast<double>(traits.message_bytes_per_unit(op));
}

double geometric_mean(const std::vector<double>& values) {
  const auto add_log = [](double sum, double one) { return sum + std::log(one); };
  return std::exp(std::accumulate(values.begin(), values.end(), 0.0, add_log) / static_cast<double>(values.size()));
}

/// Two messages whose sizes differ by a smaller factor do not tell a fixed start from noise.
constexpr double kLeastMessageRatio = 1.5;

/// Time of a message beyond the outermost known one, on the line through that and another message: a start plus a time
/// per byte. Nothing if either of the two would be negative.
std::optional<double> time_beyond(const MessageTimes::Point& outermost, const MessageTimes::Point& other,
                                  double bytes) {
  const double us_per_byte = (other.us - outermost.us) / (other.bytes - outermost.bytes);
  const double start_us = outermost.us - us_per_byte * outermost.bytes;
  if (!(us_per_byte >= 0 && start_us >= 0)) return std::nullopt;
  return start_us + us_per_byte * bytes;
}

/// Measured over computed time of a message of `bytes`, from the known messages, of which there is at least one.
/// @param is_steady  whether times are reliable enough to extrapolate along a line through two of them
double time_ratio(std::span<const MessageTimes::Point> known, const CostCurve& curve, double bytes, bool is_steady) {
  const auto ratio = [&](const MessageTimes::Point& point) { return point.us / curve.time_us(point.bytes); };
  const auto after = std::ranges::lower_bound(known, bytes, {}, &MessageTimes::Point::bytes);
  if (after == known.begin() || after == known.end()) {
    const bool is_below = after == known.begin();
    const MessageTimes::Point& outermost = is_below ? known.front() : known.back();
    std::optional<double> us;
    for (const MessageTimes::Point& other : known) { // the nearest that is far enough away
      if (!is_steady) break;
      const double times = is_below ? other.bytes / outermost.bytes : outermost.bytes / other.bytes;
      if (times < kLeastMessageRatio || (is_below && us)) continue;
      if (const auto beyond = time_beyond(outermost, other, bytes)) us = beyond;
    }
    return us ? *us / curve.time_us(bytes) : ratio(outermost);
  }
  const auto before = after - 1;
  const double share = std::log(bytes / before->bytes) / std::log(after->bytes / before->bytes);
  return ratio(*before) * std::pow(ratio(*after) / ratio(*before), share);
}

} // namespace

/// A slow-down below kTellsSaving tells what a cut saves of the collective. From kTellsContention on, the lanes disturb
/// each other by more than a cut saves.
constexpr double kTellsSaving = 0.99, kTellsContention = 1.05;

MessageTimes message_times(std::span<const CostModel> models, OpSpec profiled) {
  MessageTimes times{profiled, {}};
  std::map<std::string, std::map<double, std::vector<double>>> seen_us;
  std::map<std::string, std::vector<double>> saved_us;
  for (const CostModel& model : models) {
    if (!differs_in_size_only(model.op, profiled)) continue;
    if (model.serial) times.serial_by_bytes.emplace(message_bytes(model.op), model.serial->variant);
    for (const VariantCost& cost : model.variants) {
      const double bytes = message_bytes(model.op), us = cost.communication.curve.time_us(bytes);
      if (cost.communication.curve.is_analytic || !(us > 0)) continue;
      seen_us[cost.variant.text()][bytes].push_back(us);
      const double factor = cost.communication.slowdown;
      if (shares_collective(cost.variant) && factor < kTellsSaving)
        saved_us[cost.variant.text()].push_back((1 - factor) * us);
    }
  }
  for (auto& [variant, us] : saved_us) {
    std::ranges::sort(us);
    times.saved_us_by_variant[variant] = (us[(us.size() - 1) / 2] + us[us.size() / 2]) / 2;
  }
  for (const auto& [variant, by_bytes] : seen_us)
    for (const auto& [bytes, us] : by_bytes) times.by_variant[variant].push_back({bytes, geometric_mean(us)});
  return times;
}

bool depends_on_length(const CostModel& model, const MessageTimes& messages) {
  const auto has_several = [](const auto& one) { return one.second.size() > 1; };
  // A saving is a time, so the factor that stands for it depends on the length of the message.
  const auto saves = [&](const VariantCost& cost) {
    return cost.communication.slowdown < 1 && messages.by_variant.contains(cost.variant.text());
  };
  return gpu_rates(model.fingerprint, model.op) || !messages.saved_us_by_variant.empty() ||
         std::ranges::any_of(messages.by_variant, has_several) || std::ranges::any_of(model.variants, saves);
}

namespace {

/// Blocks multiply no faster than all rows at once. The time of the serial run, converted by a variant's waves, is the
/// least that the variant's uncut blocks take: if its compute curves are faster, they are stretched to that.
CostModel no_faster_than_at_once(CostModel model, const OpSpec& op) {
  const auto rates = gpu_rates(model.fingerprint, op);
  const auto serial = serial_run(model, op);
  if (!rates || !serial) return model;
  const double us_of_waves = serial->compute_us / BlockWaves(*rates, op, {}).at_once_us(static_cast<double>(op.m));
  const OpTraits& traits = traits_of(op.kind);
  const auto rows = static_cast<double>(traits.cut_axis_length(op));
  for (VariantCost& cost : model.variants) {
    if (cost.compute.curve.is_analytic || cost.variant.name == kTileStoreVariant) continue;
    if (!are_rates_of(*rates, cost.variant)) continue;
    const BlockWaves waves(*rates, op, cost.variant);
    const double least_us = us_of_waves * (waves.us(rows) + (traits.has_local_part ? waves.at_once_us(rows) : 0));
    const double factor = least_us / cost.uncut_compute_us(op);
    if (!(factor > 1) || !std::isfinite(factor)) continue;
    cost = scaled(std::move(cost), factor, 1);
  }
  return model;
}

/// Which variant sends a whole message the fastest depends on the message's length. The matmul's time is kept.
void choose_serial_variant(CostModel& model, const MessageTimes& messages, double bytes) {
  if (!model.serial || messages.serial_by_bytes.empty()) return;
  const auto distance = [bytes](double known) { return std::abs(std::log(known / bytes)); };
  const auto nearest =
      std::ranges::min_element(messages.serial_by_bytes, {}, [&](const auto& known) { return distance(known.first); });
  if (distance(message_bytes(messages.profiled)) <= distance(nearest->first)) return;
  if (Variant variant = of_any_size(model, nearest->second); model.cost_of(variant))
    model.serial->variant = std::move(variant);
}

/// Time of the collective that a cut saves: the start of a separate pass, equally long for every message. If the matmul
/// took longest, the model's own race could not measure it, but races of other models could.
/// @param profiled_us  time of the profiled operator's message
std::optional<double> saved_us(const VariantCost& cost, const MessageTimes& messages, double profiled_us) {
  const double factor = cost.communication.slowdown;
  const auto others = messages.saved_us_by_variant.find(cost.variant.text());
  const bool can_others_tell = others != messages.saved_us_by_variant.end() && factor < kTellsContention;
  if (factor >= kTellsSaving && can_others_tell) return others->second;
  return factor < 1 ? std::optional((1 - factor) * profiled_us) : std::nullopt;
}

} // namespace

CostModel at_length(CostModel model, const MessageTimes& messages, const OpSpec& op) {
  model = no_faster_than_at_once(with_waves(std::move(model), op), op);
  if (op == messages.profiled) return model;
  choose_serial_variant(model, messages, message_bytes(op));
  const bool is_steady = gpu_rates(model.fingerprint, op).has_value();
  for (VariantCost& cost : model.variants) {
    const auto known = messages.by_variant.find(cost.variant.text());
    CostCurve& curve = cost.communication.curve;
    if (curve.is_analytic || known == messages.by_variant.end()) continue;
    const double profiled_us = curve.time_us(message_bytes(messages.profiled));
    const double ratio = time_ratio(known->second, curve, message_bytes(op), is_steady);
    if (!(std::isfinite(ratio) && ratio > 0)) continue;
    curve = scaled(std::move(curve), ratio);
    if (const auto saved = saved_us(cost, messages, profiled_us))
      cost.communication.slowdown = std::clamp(1 - *saved / curve.time_us(message_bytes(op)), kLeastSlowdown, 1.0);
  }
  return model;
}

Plan as_transferred(Plan plan, const Transfer& transfer) {
  if (transfer.is_same) return plan;
  if (plan.makespan.provenance == Provenance::Analytic) { // weaker than Extrapolated
    plan.makespan.reason = transfer.reason + "; " + plan.makespan.reason;
    return plan;
  }
  plan.makespan.provenance = Provenance::Extrapolated;
  plan.makespan.reason = transfer.reason;
  return plan;
}

} // namespace mc2::planner
