#include "explain_evidence.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "mc2/profiler/drift.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/statistics.hpp"
#include "measure.hpp"

namespace mc2::cli {
namespace {

using planner::Component;
using planner::Sample;

/// Samples beyond these are neither fitted nor drawn.
bool is_drawable(const Sample& sample, Component component, const std::string& variant) {
  return sample.component == component && sample.variant == variant && sample.time.count() > 0 &&
         (component == Component::Matmul ? sample.block_rows : sample.message_bytes) > 0;
}

std::int64_t size_of(const Sample& sample) {
  return sample.component == Component::Matmul ? sample.block_rows : sample.message_bytes;
}

/// The rounds' drift and its level, by which fit_cost_model corrects times.
struct Correction {
  profiler::Drift drift;
  double level = 1;

  [[nodiscard]] double time_us(const Sample& sample) const {
    return to_us(sample.time) / drift.factor(sample.round) * level;
  }
};

Correction correction_of(const planner::Profile& profile, Component component) {
  std::map<std::tuple<std::string, planner::Context, std::int64_t>, int> rows;
  std::vector<profiler::DriftCell> cells;
  for (const auto& sample : profile.samples) {
    if (sample.is_outlier || !is_drawable(sample, component, sample.variant)) continue;
    const auto key = std::tuple(sample.variant, sample.context, size_of(sample));
    const int row = rows.try_emplace(key, static_cast<int>(rows.size())).first->second;
    cells.push_back({row, sample.round, to_us(sample.time)});
  }
  Correction correction{profiler::estimate_drift(cells)};
  std::vector<double> factors;
  for (const auto& [number, round] : correction.drift.rounds)
    if (round.is_estimated) factors.push_back(round.factor);
  if (!factors.empty()) correction.level = profiler::quantile(factors, profiler::FitOptions{}.quantile);
  return correction;
}

std::vector<CurveSample> samples_of(const planner::Profile& profile, Component component,
                                    const std::string& variant) {
  const Correction correction = correction_of(profile, component);
  std::vector<CurveSample> result;
  for (const auto& sample : profile.samples)
    if (is_drawable(sample, component, variant))
      result.push_back({static_cast<double>(size_of(sample)), correction.time_us(sample),
                        sample.context == planner::Context::CoRun, sample.is_outlier});
  return result;
}

std::vector<double> block_sizes(const planner::Plan& plan, double x_per_row) {
  const std::set<std::int64_t> rows(plan.cut.block_rows.begin(), plan.cut.block_rows.end());
  std::vector<double> sizes;
  for (const auto length : rows) sizes.push_back(static_cast<double>(length) * x_per_row);
  return sizes;
}

} // namespace

void look_up(Evidence& evidence, const planner::Plan& plan, store::Layers& layers) {
  if (!evidence.model) {
    auto model = layers.find_model(plan.op, plan.fingerprint);
    if (model)
      evidence.model = std::move(model).value();
    else
      evidence.notes.push_back("the cost model is not in the store (" + model.error().message +
                               "); --model FILE supplies it");
  }
  if (!evidence.profile) {
    auto profile = layers.writable().find_profile(evidence.model ? evidence.model->op : plan.op, plan.fingerprint);
    if (profile)
      evidence.profile = std::move(profile).value();
    else
      evidence.notes.push_back("the samples are not in the store (" + profile.error().message +
                               "); --profile FILE supplies them");
  }
  auto measurements = layers.writable().list_measurements(plan.op, plan.fingerprint);
  if (!measurements) return;
  for (auto& measurement : measurements.value())
    if (measurement.cut == plan.cut && measurement.variant == plan.variant) evidence.measurement = measurement;
}

void drop_foreign(Evidence& evidence, const planner::Plan& plan) {
  if (!evidence.profile) return;
  if (has_same_block_costs(evidence.profile->op, plan.op)) return;
  evidence.notes.push_back("the samples are of " + evidence.profile->op.text() + ", another operator: not shown");
  evidence.profile.reset();
}

std::vector<CurveEvidence> curve_evidence(const planner::Plan& plan, const Evidence& evidence) {
  if (!evidence.model) return {};
  const auto& variants = evidence.model->variants;
  const auto cost = std::find_if(variants.begin(), variants.end(),
                                 [&](const planner::VariantCost& each) { return each.variant == plan.variant; });
  if (cost == variants.end()) return {};
  const auto bytes = static_cast<double>(planner::traits_of(plan.op.kind).message_bytes_per_unit(plan.op));
  std::vector<CurveEvidence> result{
      {planner::Lane::Compute, cost->compute, {}, block_sizes(plan, 1)},
      {planner::Lane::Communication, cost->communication, {}, block_sizes(plan, bytes)}};
  if (!evidence.profile) return result;
  result[0].samples = samples_of(*evidence.profile, Component::Matmul, plan.variant.text());
  result[1].samples = samples_of(*evidence.profile, Component::Collective, plan.variant.text());
  return result;
}

} // namespace mc2::cli
