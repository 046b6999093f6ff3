#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <sstream>

#include "benches.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

/// An operator that is tuned at one m and then asked for others.
struct UnseenOperator {
  planner::OpKind kind;
  std::int64_t n, k;
  const char* link;
};

constexpr std::int64_t kTunedRows = 1024;
constexpr double kNear = 0.02; ///< a regret up to this counts as near the fastest measured cut
constexpr UnseenOperator kOperators[] = {{planner::OpKind::MatmulAllReduce, 1024, 1024, "2.5Gbit,20us"},
                                         {planner::OpKind::MatmulAllReduce, 768, 2048, "1Gbit,20us"},
                                         {planner::OpKind::MatmulAllReduce, 1536, 768, "2.5Gbit,20us"},
                                         {planner::OpKind::MatmulAllReduce, 1280, 1280, "1Gbit,20us"},
                                         {planner::OpKind::MatmulReduceScatter, 1024, 1024, "1Gbit,20us"},
                                         {planner::OpKind::MatmulReduceScatter, 1536, 768, "2.5Gbit,20us"},
                                         {planner::OpKind::AllGatherMatmul, 768, 2048, "2.5Gbit,20us"},
                                         {planner::OpKind::AllGatherMatmul, 1024, 1280, "1Gbit,20us"},
                                         {planner::OpKind::MatmulAllToAll, 1024, 1024, "1Gbit,20us"},
                                         {planner::OpKind::MatmulAllToAll, 1280, 768, "2.5Gbit,20us"},
                                         {planner::OpKind::AllToAllMatmul, 1024, 1024, "2.5Gbit,20us"},
                                         {planner::OpKind::AllToAllMatmul, 768, 1536, "1Gbit,20us"}};
constexpr std::int64_t kAskedRows[] = {640, 768, 896, 1152, 1408};

/// The results of one unseen shape.
struct UnseenResult {
  planner::OpSpec op;
  std::string link, cut;
  double predicted_us = 0, measured_us = 0; ///< predicted at the speed that the uncut parts had in the race
  planner::Estimate planned = {};           ///< the prediction that users see
  double regret = 0;                        ///< of the planner's choice against the fastest measured cut
  std::optional<double> wave_groups_regret;
  double free_gain = 0;               ///< gain of strategy free over strategy search
  bool is_slower_than_serial = false; ///< beyond the 95 % interval
  /// |measured - predicted| / half-width of the interval, of every raced cut
  std::vector<double> misses;

  [[nodiscard]] double error() const { return predicted_us / measured_us - 1; }
  [[nodiscard]] double planned_error() const { return planned.us / measured_us - 1; }
  [[nodiscard]] bool is_planned_inside() const {
    return planned.low_us <= measured_us && measured_us <= planned.high_us;
  }
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

/// @param model    the fitted model
/// @param seen_as  the model that the plan finder gives for this m
Result<UnseenResult> race_unseen(const planner::OpSpec& op, const planner::CostModel& model,
                                 const planner::CostModel& seen_as, const std::string& link,
                                 const planner::PlanOptions& options) {
  MC2_ASSIGN(const auto planned, choices_of(op, seen_as, options));
  const auto& [chosen, free_list, wave_groups] = planned;
  MC2_ASSIGN(auto bench, open_bench(op, link));
  std::vector<planner::Cut> asked{chosen.cut, free_list.cut};
  if (wave_groups) asked.push_back(wave_groups->cut);
  MC2_ASSIGN(const FamilyRace family, race_family(*bench, options, chosen.variant, asked));

  UnseenResult result;
  result.op = op;
  result.link = link;
  result.cut = chosen.cut.text();
  result.planned = chosen.makespan;
  result.regret = family.regret_of(chosen.cut);
  if (wave_groups) result.wave_groups_regret = family.regret_of(wave_groups->cut);
  result.free_gain = 1 - family.ratio_of(free_list.cut) / family.ratio_of(chosen.cut);
  MC2_TRY(judge_predictions(family.race, model, chosen.cut, result));
  return result;
}

planner::OpSpec op_of(const UnseenOperator& asked, std::int64_t m) {
  planner::OpSpec op = bench_op(m, asked.n, asked.k);
  op.kind = asked.kind;
  return op;
}

/// Tunes one operator and races the plans for its other m. Reports each race when it ends.
Result<void> ask_others(const UnseenOperator& asked, const TuneSettings& settings, std::vector<UnseenResult>& results) {
  ScratchStore scratch;
  MC2_ASSIGN(auto store, scratch.open());
  MC2_ASSIGN(auto bench, open_bench(op_of(asked, kTunedRows), asked.link));
  MC2_ASSIGN(const auto tuned, tune_to_model(*bench, settings, store));
  const planner::CostModel& model = *tuned.model;
  const finder::ModelPlaces places{.given = {}, .kept = finder::kept_in_unnamed(store)};
  for (const std::int64_t m : kAskedRows) {
    const planner::OpSpec op = op_of(asked, m);
    MC2_ASSIGN(const auto found, finder::find_model(places, {.op = op, .machine = model.fingerprint}));
    MC2_ASSIGN(auto result, race_unseen(op, model, finder::as_it_is_now(found, op), asked.link, *settings.plan));
    std::cerr << "mc2: " << op.text() << " " << asked.link << ": error " << percent_text(result.error())
              << ", as planned " << percent_text(result.planned_error()) << ", regret " << percent_text(result.regret)
              << "\n";
    results.push_back(std::move(result));
  }
  return {};
}

void write_csv(const std::vector<UnseenResult>& results, const std::string& path) {
  std::ostringstream file;
  file << "kind,m,n,k,link,plan,planned_ms,planned_error_%,inside,predicted_at_race_speed_ms,error_at_race_speed_%,"
          "measured_ms,regret_%,"
          "regret_of_wave_groups_%,free_lists_gain_%\n";
  const auto ms = [](double us) { return number(us / 1000, "%.4g"); };
  const auto percent = [](double share) { return number(100 * share, "%.1f"); };
  for (const UnseenResult& r : results)
    file << to_string(r.op.kind) << "," << r.op.m << "," << r.op.n << "," << r.op.k << ",\"" << r.link << "\",\""
         << r.cut << "\""
         << "," << ms(r.planned.us) << "," << percent(r.planned_error()) << ","
         << (r.is_planned_inside() ? "yes" : "no") << "," << ms(r.predicted_us) << "," << percent(r.error()) << ","
         << ms(r.measured_us) << "," << percent(r.regret) << ","
         << (r.wave_groups_regret ? percent(*r.wave_groups_regret) : "refused") << "," << percent(r.free_gain) << "\n";
  write_file(path, file.str());
}

void print_unseen(const std::vector<UnseenResult>& results) {
  std::vector<std::vector<std::string>> rows{{"shape (not used for fitting)", "link", "plan", "measured", "as planned",
                                              "at the race's speed", "regret", "wave_groups", "free gains"}};
  std::vector<double> planned_errors, errors, regrets, wave_regrets, free_gains, misses;
  std::ptrdiff_t slower_count = 0, inside_count = 0, near_count = 0;
  for (const auto& r : results) {
    rows.push_back({r.op.text(), r.link, r.cut, time_text(r.measured_us),
                    percent_text(r.planned_error()) + (r.is_planned_inside() ? "" : " (outside)"),
                    percent_text(r.error()), percent_text(r.regret),
                    r.wave_groups_regret ? percent_text(*r.wave_groups_regret) : "refused", percent_text(r.free_gain)});
    errors.push_back(std::abs(r.error()));
    planned_errors.push_back(std::abs(r.planned_error()));
    inside_count += r.is_planned_inside() ? 1 : 0;
    near_count += r.regret <= kNear ? 1 : 0;
    regrets.push_back(r.regret);
    if (r.wave_groups_regret) wave_regrets.push_back(*r.wave_groups_regret);
    free_gains.push_back(r.free_gain);
    slower_count += r.is_slower_than_serial ? 1 : 0;
    misses.insert(misses.end(), r.misses.begin(), r.misses.end());
  }
  const auto covered_count = std::count_if(misses.begin(), misses.end(), [](double miss) { return miss <= 1; });
  std::cout << "Models tuned at m = " << kTunedRows << ", asked for other m; every cut of the family raced, 2 ranks\n"
            << render::table(rows, render::kAnyWidth) << spread_text("prediction error, as planned", planned_errors)
            << "  plans whose time lies inside the interval that was printed: " << inside_count << " of "
            << results.size() << "\n"
            << spread_text("prediction error at the race's speed", errors)
            << spread_text("regret to measured brute force", regrets) << "  plans within " << percent_text(kNear)
            << " of it: " << near_count << " of " << results.size() << "\n";
  if (!wave_regrets.empty()) std::cout << spread_text("regret of wave_groups", wave_regrets);
  std::cout << "  free lists gain over short/long: median " << percent_text(median(free_gains)) << "\n"
            << "  90 % intervals at the race's speed that hold a raced cut's time: " << covered_count << " of "
            << misses.size() << ", "
            << percent_text(static_cast<double>(covered_count) / static_cast<double>(misses.size()))
            << "; 90 % of the measured times lie within " << percent_text(profiler::quantile(misses, 0.9))
            << " of the half-width\n"
            << "  plans slower than serial: " << slower_count << " of " << results.size() << "\n\n";
}

} // namespace

Result<ExitCode> bench_unseen(double race_budget_s, const std::string& csv_file) {
  const TuneSettings settings = bench_settings(race_budget_s);
  std::vector<UnseenResult> results;
  if (!csv_file.empty()) write_csv(results, csv_file); // early, so that a bad path is reported before an hour of races
  for (const auto& asked : kOperators) {
    MC2_TRY(ask_others(asked, settings, results));
    if (!csv_file.empty()) write_csv(results, csv_file);
  }
  print_unseen(results);
  return ExitCode::Success;
}

} // namespace mc2::cli
