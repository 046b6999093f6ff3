#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "mc2/planner/text.hpp"
#include "mc2/profiler/curve_samples.hpp"
#include "routes/listing.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

using planner::Component;
using planner::CostCurve;
using profiler::CurveSample;

constexpr int kPointCount = 121;
constexpr std::size_t kMaxSamples = 2000; ///< of a curve; more samples are thinned evenly
constexpr double kUnboundedX = 1e11;      ///< an analytic curve may be valid for any size

/// One curve of a variant with the samples that it was fitted to.
struct LaneCurve {
  std::string_view lane;
  const CostCurve& curve;
  double fixed_us = 0, slowdown = 1;
  std::vector<CurveSample> samples;
};

std::pair<double, double> range_of(const LaneCurve& lane, double uncut_x) {
  double low = uncut_x, high = uncut_x;
  const auto widen = [&](double x) {
    if (x > 0) low = std::min(low, x);
    high = std::max(high, x);
  };
  if (lane.curve.valid_max_x < kUnboundedX) {
    widen(lane.curve.valid_min_x);
    widen(lane.curve.valid_max_x);
  }
  for (const CurveSample& sample : lane.samples) widen(sample.x);
  if (low == high) low = high / 16;
  return {low, high};
}

/// Points from low to high at equal ratios, so that small blocks are as visible as large ones.
nlohmann::json points_of(const LaneCurve& lane, double uncut_x) {
  const auto [low, high] = range_of(lane, uncut_x);
  nlohmann::json points = nlohmann::json::array();
  for (int i = 0; i < kPointCount; ++i) {
    const double x = low * std::pow(high / low, i / (kPointCount - 1.0));
    const double us = lane.curve.time_us(x), half_us = us * lane.curve.relative_interval;
    points.push_back({{"x", x}, {"us", us}, {"low_us", std::max(0.0, us - half_us)}, {"high_us", us + half_us}});
  }
  return points;
}

nlohmann::json samples_of(const LaneCurve& lane) {
  nlohmann::json samples = nlohmann::json::array();
  for (const CurveSample& sample : profiler::thinned(lane.samples, kMaxSamples))
    samples.push_back({{"x", sample.x},
                       {"us", sample.time_us},
                       {"residual", profiler::relative_residual(lane.curve, lane.slowdown, sample)},
                       {"is_co_run", sample.is_co_run},
                       {"is_outlier", sample.is_outlier}});
  return samples;
}

nlohmann::json entry_of(const LaneCurve& lane, double uncut_x) {
  const CostCurve& curve = lane.curve;
  return {{"lane", lane.lane},
          {"axis", to_string(curve.axis)},
          {"family", curve.family()},
          {"formula", curve.formula_text()},
          {"fixed_us", lane.fixed_us},
          {"slowdown", lane.slowdown},
          {"relative_interval", curve.relative_interval},
          {"is_analytic", curve.is_analytic},
          {"valid_min_x", curve.valid_min_x},
          {"valid_max_x", curve.valid_max_x},
          {"quality",
           {{"point_count", curve.quality.point_count},
            {"relative_rms", curve.quality.relative_rms},
            {"relative_worst", curve.quality.relative_worst},
            {"cross_validated_rms", curve.quality.cross_validated_rms},
            {"reason", curve.quality.reason}}},
          {"points", points_of(lane, uncut_x)},
          {"samples", samples_of(lane)},
          {"sample_count", lane.samples.size()}};
}

nlohmann::json curves_of(const planner::OpSpec& op, const planner::VariantCost& cost, const planner::Profile& profile) {
  const planner::OpTraits& traits = planner::traits_of(op.kind);
  const auto length = static_cast<double>(traits.cut_axis_length(op));
  const std::string variant = cost.variant.text();
  const auto of_lane = [&](std::string_view name, const planner::LaneCost& lane, Component component) {
    return LaneCurve{name, lane.curve, lane.fixed_us, lane.slowdown,
                     profiler::curve_samples(profile, component, variant)};
  };
  nlohmann::json curves = nlohmann::json::array();
  curves.push_back(entry_of(of_lane("compute", cost.compute, Component::Matmul), length));
  curves.push_back(entry_of(of_lane("communication", cost.communication, Component::Collective),
                            length * static_cast<double>(traits.message_bytes_per_unit(op))));
  if (cost.local_compute) curves.push_back(entry_of({"local_compute", *cost.local_compute, 0, 1, {}}, length));
  return curves;
}

/// The variant with this text; the first one without a text. Errors: NotFound.
Result<const planner::VariantCost*> find_variant(const planner::CostModel& model,
                                                 const std::optional<std::string>& text) {
  if (!text) return &model.variants.front();
  const auto text_of = [](const planner::VariantCost& cost) { return cost.variant.text(); };
  const auto found = std::ranges::find(model.variants, *text, text_of);
  if (found != model.variants.end()) return &*found;
  return Error{ErrorCode::NotFound, "variant",
               "the model has no such variant; it has " + list_text(model.variants, text_of)};
}

} // namespace

Result<Response> answer_curves(Context& context, const Call& call) {
  const auto text = call.query.text("variant");
  MC2_ASSIGN(const auto kept, find_kept<store::StoredModel>(context, call, &store::Store::find_model));
  const planner::CostModel& model = kept.model;
  MC2_ASSIGN(const auto cost, find_variant(model, text));
  // A model may be kept without its samples, so this may fail.
  const auto profile =
      context.store.read([&](const store::Store& store) { return store.find_profile(model.op, model.fingerprint); });
  nlohmann::json names = nlohmann::json::array();
  for (const auto& each : model.variants) names.push_back(each.variant.text());
  const nlohmann::json answer{{"schema", "mc2.curves/1"},
                              {"variant", cost->variant.text()},
                              {"variants", std::move(names)},
                              {"curves", curves_of(model.op, *cost, profile ? profile.value() : planner::Profile{})}};
  return json_response(answer);
}

} // namespace mc2::server
