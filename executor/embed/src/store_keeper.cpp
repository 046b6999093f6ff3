#include "mc2/embed/store_keeper.hpp"

#include "mc2/finder/plan_source.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/store/dates.hpp"

namespace mc2::embed {

StoreAccess access_to(store::Store& store) {
  return [&store](const std::function<void(store::Store&)>& body) { body(store); };
}

store::Measurement measurement_of(const planner::Plan& plan, const planner::Validation& race, double compute_us,
                                  double communication_us) {
  return {{{.fused_us = race.fused_us,
            .serial_us = race.serial_us,
            .compute_us = compute_us,
            .communication_us = communication_us,
            .run_count = race.pair_count},
           plan.variant,
           plan.cut},
          plan.op,
          race.benefit,
          race.benefit_low,
          race.benefit_high,
          plan.makespan.us};
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

StoreKeeper::StoreKeeper(StoreAccess access, const profiler::Bench& bench, const profiler::TuneSettings& settings)
    : StoreKeeper(
          std::move(access), bench.op(), bench.fingerprint(),
          finder::tuned_purpose(
              {.op = bench.op(), .machine = bench.fingerprint(), .options = settings.plan, .variant = settings.only})) {
}

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

template <typename Body>
Result<void> StoreKeeper::in_store(const Body& body) {
  Result<void> kept;
  access_([&](store::Store& store) {
    if (const auto done = body(store); !done) kept = done.error();
  });
  return kept;
}

Result<void> StoreKeeper::append_samples(std::span<const planner::Sample> samples) {
  if (afresh_) return {}; // replace_samples() gets them
  return in_store([&](store::Store& store) { return store.append_samples(op_, machine_, samples, store::utc_now()); });
}

Result<void> StoreKeeper::replace_samples(std::span<const planner::Sample> samples) {
  return in_store([&](store::Store& store) -> Result<void> {
    MC2_TRY(store.replace_samples(op_, machine_, samples, store::utc_now()));
    afresh_.reset();
    return {};
  });
}

Result<void> StoreKeeper::keep_model(const planner::CostModel& model) {
  return in_store([&](store::Store& store) { return store.put_model(model, store::utc_now()); });
}

Result<void> StoreKeeper::keep_race(const profiler::Race& race, std::span<const planner::Plan> contenders) {
  return in_store([&](store::Store& store) -> Result<void> {
    for (std::size_t i = 0; i < contenders.size(); ++i)
      MC2_TRY(store.add_measurement(machine_, measurement_of(race.contenders[i], contenders[i]), store::utc_now()));
    return {};
  });
}

Result<void> StoreKeeper::keep_plan(const planner::Plan& plan) {
  return in_store([&](store::Store& store) -> Result<void> {
    MC2_ASSIGN(plan_digest_, store.put_plan(plan, purpose_, store::utc_now()));
    return {};
  });
}

} // namespace mc2::embed
