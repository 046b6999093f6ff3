#include "mc2/planner/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "gpu_matmul.hpp"
#include "mc2/planner/pipeline.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::planner {
namespace {

/// The slices that the variant's setting names; nothing if the setting cannot be read.
std::optional<Slices> read_slices(const Variant& variant) {
  const auto found = variant.fields.find(std::string(kSlicesSetting));
  return found == variant.fields.end() ? Slices() : Slices::parse(found->second);
}

Result<void> validate_variant(const Variant& variant, const std::string& field) {
  if (variant.name.empty()) return Error{ErrorCode::InvalidSpec, field + ".name", "is empty; name the variant"};
  if (!read_slices(variant))
    return Error{ErrorCode::InvalidSpec, field + "." + std::string(kSlicesSetting),
                 "is \"" + variant.fields.at(std::string(kSlicesSetting)) + "\"; must be a whole number from 1 to " +
                     std::to_string(kMaxSliceCount) + ", or slices' proportions as in 1+2+4"};
  return {};
}

Error axis_error(CurveAxis found, CurveAxis expected, const std::string& field) {
  const std::string message = "is " + std::string(to_string(found)) + "; must be " + std::string(to_string(expected));
  if (expected != CurveAxis::Columns || found != CurveAxis::Rows) return {ErrorCode::InvalidSpec, field, message};
  return {ErrorCode::Stale, field, message + ", because so few rows are cut along n; profile this operator again"};
}

Result<void> validate_lane(const LaneCost& lane, CurveAxis axis, const std::string& field) {
  if (auto curve = lane.curve.validate(); !curve)
    return Error{curve.error().code, field + ".curve." + curve.error().field, curve.error().message};
  if (lane.curve.axis != axis) return axis_error(lane.curve.axis, axis, field + ".curve.axis");
  MC2_TRY(validate_time(field + ".fixed_us", lane.fixed_us));
  MC2_TRY(validate_time(field + ".start_us", lane.start_us));
  if (!(lane.start_interval >= 0 && lane.start_interval <= kMaxCurveInterval))
    return Error{ErrorCode::InvalidSpec, field + ".start_interval",
                 "is " + number_text(lane.start_interval) + "; must be at least 0 and at most " +
                     number_text(kMaxCurveInterval)};
  if (!(lane.slowdown >= kLeastSlowdown && lane.slowdown <= kMaxSlowdown))
    return Error{ErrorCode::InvalidSpec, field + ".slowdown",
                 "is " + number_text(lane.slowdown) + "; legal: " + number_text(kLeastSlowdown) + " to 1e15"};
  if (!(lane.slowdown_interval >= 0 && lane.slowdown_interval < 1))
    return Error{ErrorCode::InvalidSpec, field + ".slowdown_interval", "must be at least 0 and below 1"};
  return {};
}

/// A plan must be able to store the times of the whole operator.
Result<void> validate_uncut(const VariantCost& cost, const OpSpec& op, const std::string& field) {
  for (const auto& [lane, us] : {std::pair{".compute.curve", cost.uncut_compute_us(op)},
                                 {".communication.curve", cost.uncut_communication_us(op)}})
    if (!(us <= kMaxTimeUs))
      return Error{ErrorCode::InvalidSpec, field + lane,
                   "gives " + number_text(us) + " us for all of " + op.text() + "; legal: at most 1e15"};
  return {};
}

Result<void> validate_local(const CostCurve& local, const OpTraits& traits, const std::string& field) {
  if (!traits.has_local_part)
    return Error{ErrorCode::InvalidSpec, field, "is given, but " + std::string(traits.name) + " has no local part"};
  return validate_lane({local}, CurveAxis::Rows, field);
}

Result<void> validate_steps(const std::vector<CostStep>& steps, const std::string& field) {
  if (steps.size() > kMaxOpenSteps)
    return Error{ErrorCode::InvalidSpec, field,
                 "are " + std::to_string(steps.size()) + "; at most " + std::to_string(kMaxOpenSteps)};
  for (const CostStep& step : steps)
    for (const double change : {step.compute_slowdown, step.communication_slowdown, step.fixed_us, step.run_us})
      if (!(std::abs(change) <= kMaxTimeUs))
        return Error{ErrorCode::InvalidSpec, field,
                     "has a change of " + number_text(change) + "; legal: -1e15 to 1e15"};
  return {};
}

Result<void> validate_cost(const VariantCost& cost, const OpSpec& op, const std::string& field) {
  MC2_TRY(validate_variant(cost.variant, field + ".variant"));
  MC2_TRY(validate_lane(cost.compute, compute_axis(op), field + ".compute"));
  MC2_TRY(validate_lane(cost.communication, CurveAxis::Bytes, field + ".communication"));
  if (cost.local_compute) MC2_TRY(validate_local(*cost.local_compute, traits_of(op.kind), field + ".local_compute"));
  MC2_TRY(validate_time(field + ".run_us", cost.run_us));
  MC2_TRY(validate_steps(cost.open_steps, field + ".open_steps"));
  return validate_uncut(cost, op, field);
}

/// A published variant has no backend that completes a name without settings, so the name means its only variant.
Variant meant_by(const Variant& asked, const CostModel& model) {
  if (!asked.fields.empty() || model.cost_of(asked) != nullptr) return asked;
  const auto is_named = [&](const VariantCost& cost) { return cost.variant.name == asked.name; };
  if (std::ranges::count_if(model.variants, is_named) != 1) return asked;
  return std::ranges::find_if(model.variants, is_named)->variant;
}

} // namespace

std::string Variant::text() const {
  const auto setting_text = [](const auto& field) { return field.first + "=" + field.second; };
  return fields.empty() ? name : name + "(" + list_text(fields, setting_text, ",") + ")";
}

Variant parse_variant(std::string_view text) {
  const Variant plain{std::string(text), {}};
  const auto open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')')) return plain;
  Variant variant{std::string(text.substr(0, open)), {}};
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  while (!rest.empty()) {
    const std::string_view setting = rest.substr(0, rest.find(','));
    const auto equals = setting.find('=');
    if (equals == std::string_view::npos) return plain;
    variant.fields.emplace(setting.substr(0, equals), setting.substr(equals + 1));
    rest.remove_prefix(std::min(setting.size() + 1, rest.size()));
  }
  return variant.text() == text ? variant : plain;
}

Slices slices_of(const Variant& variant) { return read_slices(variant).value_or(Slices()); }

double VariantCost::least_slowdown(Lane lane) const noexcept {
  const bool is_shared = lane == Lane::Communication && shares_collective(variant);
  const double now = (lane == Lane::Compute ? compute : communication).slowdown;
  return is_shared || now < 1 ? kLeastSlowdown : 1;
}

double VariantCost::local_us(const OpSpec& op) const {
  const OpTraits& traits = traits_of(op.kind);
  if (!traits.has_local_part) return 0;
  const auto rows = static_cast<double>(traits.cut_axis_length(op));
  return local_compute ? local_compute->time_us(rows) : compute.curve.time_us(rows / (op.world_size - 1));
}

double VariantCost::uncut_compute_us(const OpSpec& op) const {
  const std::int64_t rows = cut_axis_length(op);
  return compute_us(op, {&rows, 1});
}

double VariantCost::uncut_communication_us(const OpSpec& op) const {
  const std::int64_t rows = cut_axis_length(op);
  return communication_us(op, {&rows, 1});
}

double VariantCost::compute_us(const OpSpec& op, std::span<const std::int64_t> block_rows) const {
  double us = compute.start_us + local_us(op);
  for (const std::int64_t rows : block_rows) us += compute.curve.time_us(static_cast<double>(rows));
  return us;
}

double VariantCost::communication_us(const OpSpec& op, std::span<const std::int64_t> block_rows) const {
  const auto bytes = static_cast<double>(traits_of(op.kind).message_bytes_per_unit(op));
  double us = communication.start_us;
  for (const std::int64_t rows : block_rows) us += communication.curve.time_us(static_cast<double>(rows) * bytes);
  return us;
}

CurveAxis compute_axis(const OpSpec& op) {
  return cut_axis(op) == CutAxis::Rows ? CurveAxis::Rows : CurveAxis::Columns;
}

Result<void> CostModel::validate() const {
  MC2_TRY(op.validate());
  if (variants.empty()) return Error{ErrorCode::InvalidSpec, "variants", "is empty; a model needs at least one"};
  if (variants.size() > kMaxVariantCount)
    return Error{ErrorCode::InvalidSpec, "variants",
                 "are " + std::to_string(variants.size()) + "; at most " + std::to_string(kMaxVariantCount)};
  if (anchored_interval && !(*anchored_interval > 0 && *anchored_interval <= kMaxCurveInterval))
    return Error{
        ErrorCode::InvalidSpec, "anchored_interval",
        "is " + number_text(*anchored_interval) + "; must be above 0 and at most " + number_text(kMaxCurveInterval)};
  if (serial) MC2_TRY(validate_variant(serial->variant, "serial.variant"));
  if (serial && !(serial->compute_us > 0 && serial->compute_us <= kMaxTimeUs))
    return Error{ErrorCode::InvalidSpec, "serial.compute_us",
                 "is " + number_text(serial->compute_us) + " us; must be above 0 and at most 1e15"};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const std::string field = "variants[" + std::to_string(i) + "]";
    MC2_TRY(validate_cost(variants[i], op, field));
    if (cost_of(variants[i].variant) != &variants[i])
      return Error{ErrorCode::InvalidSpec, field + ".variant",
                   "is " + variants[i].variant.text() + ", as an earlier one is; give each variant once"};
  }
  return {};
}

double serial_compute_ratio(const OpSpec& op, const Fingerprint& machine) {
  const OpTraits& traits = traits_of(op.kind);
  const auto rates = traits.has_local_part ? gpu_rates(machine, op) : std::nullopt;
  if (!rates) return 1;
  const BlockWaves waves(*rates, op, {});
  const auto rows = static_cast<double>(traits.cut_axis_length(op));
  return waves.at_once_us(op.world_size * rows) / (waves.at_once_us(rows) + waves.us(rows));
}

std::optional<SerialRun> serial_run(const CostModel& model, const OpSpec& op) {
  if (!model.serial || op == model.op) return model.serial;
  const auto rates = gpu_rates(model.fingerprint, op);
  if (!rates || !gpu_rates(model.fingerprint, model.op)) return std::nullopt;
  const auto at_once_us = [&](const OpSpec& of) {
    return BlockWaves(*rates, of, {}).at_once_us(static_cast<double>(of.m));
  };
  return SerialRun{of_any_size(model, model.serial->variant),
                   model.serial->compute_us * at_once_us(op) / at_once_us(model.op)};
}

Variant of_any_size(const CostModel& model, const Variant& variant) {
  if (variant.name == kTileStoreVariant) return variant;
  Variant any_tile = variant;
  any_tile.fields.erase(std::string(kTileSetting));
  return model.cost_of(any_tile) == nullptr ? variant : any_tile;
}

CostModel with_serial_run(CostModel model, const SerialRun& run) {
  const bool is_time = run.compute_us > 0 && std::isfinite(run.compute_us);
  if (is_time && gpu_rates(model.fingerprint, model.op) && model.cost_of(run.variant)) model.serial = run;
  return model;
}

const VariantCost* CostModel::cost_of(const Variant& variant) const {
  const auto found = std::ranges::find(variants, variant, &VariantCost::variant);
  return found == variants.end() ? nullptr : &*found;
}

bool has_analytic_curve(const CostModel& model) {
  return std::ranges::any_of(model.variants, [](const VariantCost& cost) {
    return cost.compute.curve.is_analytic || cost.communication.curve.is_analytic;
  });
}

Result<CostModel> restricted_to(const Variant& variant, CostModel model) {
  const bool is_analytic = has_analytic_curve(model);
  const Variant meant = is_analytic ? meant_by(variant, model) : variant;
  const std::string known = list_text(model.variants, [](const auto& cost) { return cost.variant.text(); });
  std::erase_if(model.variants, [&](const VariantCost& cost) { return cost.variant != meant; });
  if (!model.variants.empty()) return model;
  return Error{ErrorCode::NotFound, "variant",
               "the model knows nothing of " + variant.text() + ", only of: " + known +
                   (is_analytic ? "" : "; mc2 profile --variant measures it")};
}

CostCurve scaled(CostCurve curve, double factor) {
  std::visit([factor](auto& family) { family.scale_times(factor); }, curve.shape);
  return curve;
}

VariantCost scaled(VariantCost cost, double compute, double communication) {
  cost.compute.curve = scaled(std::move(cost.compute.curve), compute);
  if (cost.local_compute) cost.local_compute = scaled(*std::move(cost.local_compute), compute);
  cost.communication.curve = scaled(std::move(cost.communication.curve), communication);
  cost.compute.start_us *= compute;
  cost.communication.start_us *= communication;
  return cost;
}

CostModel scaled(CostModel model, double compute, double communication) {
  for (auto& variant : model.variants) variant = scaled(std::move(variant), compute, communication);
  if (model.serial) model.serial->compute_us *= compute;
  return model;
}

CostModel anchored(CostModel model, const OpSpec& op, double compute_us, double communication_us,
                   std::span<const std::int64_t> block_rows) {
  const std::int64_t whole = cut_axis_length(op);
  if (block_rows.empty()) block_rows = {&whole, 1};
  double log_factors = 0;
  for (auto& variant : model.variants) {
    const double compute_factor = compute_us / variant.compute_us(op, block_rows);
    const double communication_factor = communication_us / variant.communication_us(op, block_rows);
    variant = scaled(std::move(variant), compute_factor, communication_factor);
    log_factors += std::log(compute_factor);
  }
  if (model.serial) model.serial->compute_us *= std::exp(log_factors / static_cast<double>(model.variants.size()));
  return model;
}

} // namespace mc2::planner
