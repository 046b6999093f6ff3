#include "mc2/embed/store_keeper.hpp"

#include "mc2/profiler/statistics.hpp"
#include "mc2/store/dates.hpp"

namespace mc2::embed {

StoreAccess access_to(store::Store& store) {
  return [&store](const std::function<void(store::Store&)>& body) { body(store); };
}

store::Measurement measurement_of(const planner::Plan& plan, const planner::Validation& race, double compute_us,
                                  double communication_us) {
  return {.op = plan.op,
          .cut = plan.cut,
          .variant = plan.variant,
          .fused_us = race.fused_us,
          .serial_us = race.serial_us,
          .compute_us = compute_us,
          .communication_us = communication_us,
          .benefit = race.benefit,
          .benefit_low = race.benefit_low,
          .benefit_high = race.benefit_high,
          .predicted_us = plan.makespan.us,
          .pair_count = race.pair_count};
}

store::Measurement measurement_of(const profiler::Contender& contender, const planner::Plan& plan) {
  return measurement_of(plan, contender.validation(), profiler::median(contender.compute_us),
                        profiler::median(contender.communication_us));
}

store::Measurement measurement_of(const profiler::Contender& contender, const planner::Plan& plan,
                                  const planner::CostModel& now) {
  store::Measurement measurement = measurement_of(contender, plan);
  const planner::VariantCost* cost = now.cost_of(plan.variant);
  if (cost == nullptr) return measurement;
  measurement.predicted_compute_us = cost->uncut_compute_us(plan.op);
  measurement.predicted_communication_us = cost->uncut_communication_us(plan.op);
  measurement.predicted_serial_us = plan.serial_us;
  return measurement;
}

StoreKeeper::StoreKeeper(StoreAccess access, planner::OpSpec op, planner::Fingerprint machine, std::string purpose)
    : access_(std::move(access)), op_(op), machine_(std::move(machine)), purpose_(std::move(purpose)) {}

void StoreKeeper::start_afresh(std::string variant) { afresh_ = std::move(variant); }

std::vector<planner::Sample> StoreKeeper::earlier_samples() {
  if (afresh_ && afresh_->empty()) return {};
  std::vector<planner::Sample> samples;
  access_([&](store::Store& store) {
    if (auto kept = store.find_profile(op_, machine_)) samples = std::move(kept).value().samples;
  });
  if (afresh_) std::erase_if(samples, [&](const planner::Sample& sample) { return sample.variant == *afresh_; });
  return samples;
}

Result<void> StoreKeeper::append_samples(std::span<const planner::Sample> samples) {
  if (afresh_) return {}; // replace_samples() gets them
  Result<void> kept;
  access_([&](store::Store& store) {
    if (auto added = store.append_samples(op_, machine_, samples, store::utc_now()); !added) kept = added.error();
  });
  return kept;
}

Result<void> StoreKeeper::replace_samples(std::span<const planner::Sample> samples) {
  Result<void> kept;
  access_([&](store::Store& store) { kept = store.replace_samples(op_, machine_, samples, store::utc_now()); });
  if (kept) afresh_.reset();
  return kept;
}

Result<void> StoreKeeper::keep_model(const planner::CostModel& model) {
  Result<void> kept;
  access_([&](store::Store& store) {
    if (auto put = store.put_model(model, store::utc_now()); !put) kept = put.error();
  });
  return kept;
}

Result<void> StoreKeeper::keep_race(const profiler::Race& race, std::span<const planner::Plan> contenders) {
  Result<void> kept;
  access_([&](store::Store& store) {
    for (std::size_t i = 0; i < contenders.size() && kept; ++i)
      if (auto added =
              store.add_measurement(machine_, measurement_of(race.contenders[i], contenders[i]), store::utc_now());
          !added)
        kept = added.error();
  });
  return kept;
}

Result<void> StoreKeeper::keep_plan(const planner::Plan& plan) {
  Result<void> kept;
  access_([&](store::Store& store) {
    auto digest = store.put_plan(plan, purpose_, store::utc_now());
    if (digest)
      plan_digest_ = std::move(digest).value();
    else
      kept = digest.error();
  });
  return kept;
}

} // namespace mc2::embed
