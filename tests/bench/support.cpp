#include "support.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>

#include "mc2/embed/store_keeper.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "pages/render.hpp"
#include "pages/terminal.hpp"
#include "pages/tune_progress.hpp"

namespace mc2::cli {

ScratchStore::ScratchStore()
    : path_(std::filesystem::temp_directory_path() / ("mc2-bench-" + std::to_string(getpid()) + ".db")) {}

ScratchStore::~ScratchStore() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

Result<store::Store> ScratchStore::open() const { return store::Store::open(path_, store::OpenMode::ReadWrite); }

planner::OpSpec bench_op(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {planner::OpKind::MatmulAllReduce, m, n, k, planner::DType::F32, 2};
}

Result<std::unique_ptr<Workbench>> open_bench(const planner::OpSpec& op, const std::string& link,
                                              const std::string& virtual_compute, const embed::Workload& workload) {
  MachineOptions machine;
  machine.link = link;
  machine.virtual_compute = virtual_compute;
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(const auto options, machine.communicator_options(op.world_size));
  return Workbench::open(*backend, options, op, workload);
}

TuneSettings bench_settings(double race_budget_s, std::string_view backend) {
  TuneSettings result;
  result.plan = result.profile.plan = planner::default_options_on({{{"backend", std::string(backend)}}});
  result.profile.sweep.budget = std::chrono::seconds(30);
  result.race.budget = planner::to_ms(race_budget_s);
  result.budget = result.profile.sweep.budget + 2 * result.race.budget;
  return result;
}

Result<profiler::SweepSummary> profile_operator(Workbench& bench, const ProfileSettings& settings,
                                                store::Store& store) {
  embed::StoreKeeper keeper(embed::access_to(store), bench, {});
  TuneProgressLine progress;
  return profiler::profile(bench, settings, keeper, progress.hooks());
}

Result<Tuned> tune_operator(Workbench& bench, const TuneSettings& settings, store::Store& store) {
  embed::StoreKeeper keeper(embed::access_to(store), bench, settings);
  TuneProgressLine progress;
  return profiler::tune(bench, settings, keeper, progress.hooks());
}

Result<Tuned> tune_to_model(Workbench& bench, const TuneSettings& settings, store::Store& store) {
  auto tuned = tune_operator(bench, settings, store);
  if (tuned && !tuned.value().model) return Error{ErrorCode::CannotFit, "samples", tuned.value().plan.makespan.reason};
  return tuned;
}

Result<Race> shown_race(Workbench& bench, const std::vector<planner::Plan>& plans, const RaceSettings& settings,
                        const std::string& label) {
  TuneProgressLine progress;
  return profiler::race(bench, plans, settings, label, progress.hooks());
}

double wall_us(executor::Prepared& prepared, executor::RunMode mode) {
  return to_us(prepared.run(mode, executor::RunDetail::Makespan).wall);
}

Result<Pairs> time_pairs(std::size_t count, const std::function<double()>& first,
                         const std::function<double()>& second) {
  Pairs pairs;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_interrupted()) return Error{ErrorCode::Cancelled, "", "interrupted"};
    if (i % 2 == 0) pairs.first_us.push_back(first());
    pairs.second_us.push_back(second());
    if (i % 2 != 0) pairs.first_us.push_back(first());
  }
  return pairs;
}

double fused_to_serial(const Contender& contender) {
  return profiler::paired_ratio(contender.fused_us, contender.serial_us, 0.95).value;
}

Result<planner::Plan> anchored_prediction(const Contender& contender, const planner::OpSpec& op,
                                          const planner::CostModel& model) {
  return finder::predict_at(
      {contender.variant.text(), median(contender.compute_us), median(contender.communication_us)}, {.given = {model}},
      {.op = op, .machine = model.fingerprint}, contender.cut);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double ideal_us(const Race& race) { return std::max(median(race.compute_us), median(race.communication_us)); }

double ideal_benefit(const Race& race) {
  const double compute_us = median(race.compute_us), communication_us = median(race.communication_us);
  return std::min(compute_us, communication_us) / (compute_us + communication_us);
}

std::string plan_text(const planner::Plan& plan) {
  if (plan.schedule == planner::Schedule::Serial) return "do not cut";
  return plan.cut.text() + " " + plan.variant.text();
}

double geomean(std::span<const double> values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

std::string spread_text(const std::string& name, const std::vector<double>& ratios, bool is_more_worse) {
  const double worst = is_more_worse ? std::ranges::max(ratios) : std::ranges::min(ratios);
  return "  " + name + ": median " + percent_text(median(ratios)) + ", worst " + percent_text(worst) + "\n";
}

Result<ExitCode> print_rows(const std::string& title, const std::vector<std::string>& header, std::size_t count,
                            const std::function<Result<std::vector<std::string>>(std::size_t)>& row_of) {
  std::vector<std::vector<std::string>> rows{header};
  std::optional<Error> stopped;
  for (std::size_t i = 0; i < count && !stopped; ++i) {
    auto row = row_of(i);
    if (row)
      rows.push_back(std::move(row).value());
    else
      stopped = row.error();
  }
  const std::size_t finished = rows.size() - 1;
  const std::string part = stopped ? ", " + std::to_string(finished) + " of " + std::to_string(count) : "";
  if (finished > 0 || !stopped) std::cout << title << part << "\n" << render::table(rows, render::kAnyWidth) << "\n";
  if (stopped) return *stopped;
  return ExitCode::Success;
}

namespace {

bool is_in(const std::vector<planner::Cut>& cuts, const planner::Cut& cut) {
  return std::find(cuts.begin(), cuts.end(), cut) != cuts.end();
}

/// The plans of the next heat: `staying`, then the plans with the least ratios until there are `count`.
std::vector<planner::Plan> advance(const std::vector<planner::Plan>& plans, const std::vector<double>& ratios,
                                   std::size_t count, const std::vector<planner::Plan>& staying) {
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return ratios[i]; });
  std::vector<planner::Plan> result = staying;
  const auto stays = [&](const planner::Plan& plan) {
    return std::ranges::any_of(staying, [&](const auto& other) { return planner::is_same_choice(other, plan); });
  };
  for (const std::size_t i : order)
    if (result.size() < count && !stays(plans[i])) result.push_back(plans[i]);
  return result;
}

} // namespace

std::vector<double> ratios_of(const Race& race) {
  std::vector<double> ratios;
  for (const auto& contender : race.contenders) ratios.push_back(fused_to_serial(contender));
  return ratios;
}

Result<std::vector<planner::Plan>> plans_of(const Workbench& bench, const std::vector<planner::Cut>& cuts,
                                            const planner::Variant& variant) {
  std::vector<planner::Plan> plans;
  for (const auto& cut : cuts) {
    MC2_ASSIGN(auto plan, planner::unpredicted_plan(bench.op(), bench.fingerprint(), variant, cut));
    plans.push_back(std::move(plan));
  }
  return plans;
}

Result<Race> race_fastest(Workbench& bench, std::vector<planner::Plan> plans, std::vector<double> ratios,
                          const std::vector<planner::Plan>& staying) {
  struct Heat {
    int rounds;
    std::size_t contender_count;
  };
  Race raced;
  for (const auto& [rounds, contender_count] : {Heat{9, 24}, Heat{41, 6}}) {
    plans = advance(plans, ratios, contender_count, staying);
    RaceSettings settings;
    settings.take_rounds(rounds);
    settings.proves = false;
    MC2_ASSIGN(raced, shown_race(bench, plans, settings, "the fastest " + std::to_string(plans.size())));
    ratios = ratios_of(raced);
  }
  return raced;
}

double FamilyRace::ratio_of(const planner::Cut& cut) const {
  const auto found = std::find_if(race.contenders.begin(), race.contenders.end(),
                                  [&](const Contender& contender) { return contender.cut == cut; });
  MC2_CHECK(found != race.contenders.end(), "only cuts that were asked for stay in the race to its end");
  return fused_to_serial(*found);
}

Result<FamilyRace> race_family(Workbench& bench, const planner::PlanOptions& options, const planner::Variant& variant,
                               const std::vector<planner::Cut>& asked) {
  MC2_ASSIGN(const auto family, planner::enumerate_cuts(bench.op(), options));
  std::vector<planner::Cut> cuts = family;
  for (const auto& cut : asked)
    if (!is_in(cuts, cut)) cuts.push_back(cut);
  MC2_ASSIGN(const auto plans, plans_of(bench, cuts, variant));
  std::vector<planner::Plan> staying;
  std::ranges::copy_if(plans, std::back_inserter(staying), [&](const auto& plan) { return is_in(asked, plan.cut); });
  RaceSettings settings;
  settings.take_rounds(3);
  settings.proves = false;
  const std::string label = "brute force, " + std::to_string(plans.size()) + " cuts";
  MC2_ASSIGN(const auto first, shown_race(bench, plans, settings, label));
  MC2_ASSIGN(auto raced, race_fastest(bench, plans, ratios_of(first), staying));
  FamilyRace result{std::move(raced), family.size(), {}, std::numeric_limits<double>::infinity()};
  for (const auto& contender : result.race.contenders) {
    const double ratio = fused_to_serial(contender);
    if (ratio >= result.best_ratio || !is_in(family, contender.cut)) continue;
    result.best_ratio = ratio;
    result.best_cut = contender.cut;
  }
  return result;
}

} // namespace mc2::cli
