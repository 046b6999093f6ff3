#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include "benches.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

/// An operator that is tuned at one m and then asked for others.
struct UnseenOperator {
  std::int64_t n, k;
  const char* link;
};

constexpr std::int64_t kTunedRows = 1024;
constexpr UnseenOperator kOperators[] = {
    {1024, 1024, "2.5Gbit,20us"}, {768, 2048, "1Gbit,20us"}, {1536, 768, "2.5Gbit,20us"}, {1280, 1280, "1Gbit,20us"}};
constexpr std::int64_t kAskedRows[] = {576, 704, 832, 960, 1216};

/// What one unseen shape showed.
struct UnseenResult {
  planner::OpSpec op;
  std::string link, cut;
  double predicted_us = 0, measured_us = 0;
  double regret = 0; ///< of the planner's choice, to the fastest cut that was measured
  std::optional<double> wave_groups_regret;
  double free_gain = 0;               ///< of strategy free over strategy search
  bool is_slower_than_serial = false; ///< beyond the 95 % interval
  /// |measured - predicted| / half-width of the interval, of every raced cut
  std::vector<double> misses;

  [[nodiscard]] double error() const { return predicted_us / measured_us - 1; }
};

/// The choices to compare.
struct Choices {
  planner::Plan chosen, free_list;
  std::optional<planner::Plan> wave_groups;
};

Result<Choices> choices_of(const planner::OpSpec& op, const planner::CostModel& model, planner::PlanOptions options) {
  const auto planned = [&](const char* strategy) {
    options.strategy = strategy;
    return planner::make_plan(op, model, options);
  };
  auto chosen = planned("search"), free_list = planned("free"), wave_groups = planned("wave_groups");
  if (!chosen) return chosen.error();
  if (!free_list) return free_list.error();
  Choices choices{std::move(chosen).value(), std::move(free_list).value(), std::nullopt};
  if (wave_groups) choices.wave_groups = std::move(wave_groups).value();
  return choices;
}

Result<void> judge_predictions(const Race& raced, const planner::CostModel& model, const planner::Cut& chosen,
                               UnseenResult& result) {
  for (const auto& contender : raced.contenders) {
    MC2_ASSIGN(const auto predicted, anchored_prediction(contender, result.op, model));
    const planner::Estimate& makespan = predicted.makespan;
    const double measured_us = median(contender.fused_us);
    result.misses.push_back(std::abs(measured_us - makespan.us) / (makespan.high_us - makespan.us));
    if (contender.cut != chosen) continue;
    result.predicted_us = makespan.us;
    result.measured_us = measured_us;
    result.is_slower_than_serial = contender.validation().benefit_high < 0;
  }
  return {};
}

Result<UnseenResult> race_unseen(const planner::OpSpec& op, const planner::CostModel& model, const std::string& link,
                                 const planner::PlanOptions& options) {
  MC2_ASSIGN(const auto planned, choices_of(op, model, options));
  const auto& [chosen, free_list, wave_groups] = planned;
  MC2_ASSIGN(auto bench, open_bench(op, link));
  std::vector<planner::Cut> asked{chosen.cut, free_list.cut};
  if (wave_groups) asked.push_back(wave_groups->cut);
  MC2_ASSIGN(const FamilyRace family, race_family(*bench, options, chosen.variant, asked));

  UnseenResult result;
  result.op = op;
  result.link = link;
  result.cut = chosen.cut.text();
  result.regret = family.regret_of(chosen.cut);
  if (wave_groups) result.wave_groups_regret = family.regret_of(wave_groups->cut);
  result.free_gain = 1 - family.ratio_of(free_list.cut) / family.ratio_of(chosen.cut);
  MC2_TRY(judge_predictions(family.race, model, chosen.cut, result));
  return result;
}

Result<planner::CostModel> tuned_model(const UnseenOperator& asked, const TuneSettings& settings) {
  ScratchStore scratch;
  MC2_ASSIGN(auto store, scratch.open());
  MC2_ASSIGN(auto bench, open_bench(bench_op(kTunedRows, asked.n, asked.k), asked.link));
  MC2_ASSIGN(auto tuned, tune_to_model(*bench, settings, store));
  return *std::move(tuned).model;
}

void print_unseen(const std::vector<UnseenResult>& results) {
  std::vector<std::vector<std::string>> rows{{"shape (not used for fitting)", "link", "plan", "predicted", "measured",
                                              "error", "regret", "wave_groups", "free gains"}};
  std::vector<double> errors, regrets, wave_regrets, free_gains, misses;
  int slower_count = 0;
  for (const auto& r : results) {
    rows.push_back({r.op.text(), r.link, r.cut, time_text(r.predicted_us), time_text(r.measured_us),
                    percent_text(r.error()), percent_text(r.regret),
                    r.wave_groups_regret ? percent_text(*r.wave_groups_regret) : "refused", percent_text(r.free_gain)});
    errors.push_back(std::abs(r.error()));
    regrets.push_back(r.regret);
    if (r.wave_groups_regret) wave_regrets.push_back(*r.wave_groups_regret);
    free_gains.push_back(r.free_gain);
    slower_count += r.is_slower_than_serial ? 1 : 0;
    misses.insert(misses.end(), r.misses.begin(), r.misses.end());
  }
  const auto covered_count = std::count_if(misses.begin(), misses.end(), [](double miss) { return miss <= 1; });
  const auto summary = [](const char* name, const std::vector<double>& values) {
    return std::string("  ") + name + ": median " + percent_text(median(values)) + ", worst " +
           percent_text(*std::max_element(values.begin(), values.end())) + "\n";
  };
  std::cout << "Models tuned at m = " << kTunedRows << ", asked for other m; every cut of the family raced, 2 ranks\n"
            << render::table(rows, render::kAnyWidth) << summary("prediction error", errors)
            << summary("regret to measured brute force", regrets);
  if (!wave_regrets.empty()) std::cout << summary("regret of wave_groups", wave_regrets);
  std::cout << "  free lists gain over short/long: median " << percent_text(median(free_gains)) << "\n"
            << "  90 % intervals that hold the measured time: " << covered_count << " of " << misses.size() << ", "
            << percent_text(static_cast<double>(covered_count) / static_cast<double>(misses.size()))
            << "; 90 % of the measured times lie within " << percent_text(profiler::quantile(misses, 0.9))
            << " of the half-width\n"
            << "  plans slower than serial: " << slower_count << " of " << results.size() << "\n\n";
}

} // namespace

Result<ExitCode> bench_unseen(double race_budget_s) {
  const TuneSettings settings = bench_settings(race_budget_s);
  std::vector<UnseenResult> results;
  for (const auto& asked : kOperators) {
    MC2_ASSIGN(const auto model, tuned_model(asked, settings));
    for (const std::int64_t m : kAskedRows) {
      MC2_ASSIGN(auto result, race_unseen(bench_op(m, asked.n, asked.k), model, asked.link, settings.plan));
      results.push_back(std::move(result));
      std::cerr << "mc2: " << results.back().op.text() << " " << asked.link << ": error "
                << percent_text(results.back().error()) << ", regret " << percent_text(results.back().regret) << "\n";
    }
  }
  print_unseen(results);
  return ExitCode::Success;
}

} // namespace mc2::cli
