#include "prediction.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <random>
#include <tuple>

#include "benches.hpp"
#include "mc2/embed/store_keeper.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/anchor.hpp"
#include "pages/render.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

constexpr double kAskedShares[] = {0.5, 0.71875, 1.5, 2.125}; ///< m that is asked for, over the tuned one
constexpr const char* kLinks[] = {"2.5Gbit,20us", "1Gbit,50us", "5Gbit,10us"};
constexpr std::int64_t kSizes[] = {384, 512, 640, 768, 1024, 1152, 1280, 1536, 1792, 2048};
constexpr std::int64_t kBagRows[] = {16, 32, 64};

struct AskedOperator {
  planner::OpSpec op; ///< m is the tuned one
  std::string link;
};

/// Operators of all kinds in turn, with m rows and other sizes that depend on the seed.
std::vector<AskedOperator> asked_operators(int count, std::int64_t m, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto any_of = [&](const auto& values) {
    return values[std::uniform_int_distribution<std::size_t>(0, std::size(values) - 1)(random)];
  };
  std::vector<AskedOperator> result;
  for (int i = 0; i < count; ++i) {
    const auto& traits = planner::op_registry()[static_cast<std::size_t>(i) % planner::op_registry().size()];
    planner::OpSpec op = bench_op(m, any_of(kSizes), any_of(kSizes));
    op.kind = traits.kind;
    if (traits.work == planner::Work::Pooling) {
      op.n = op.n / 512 * 512 + 512;
      op.k = any_of(kBagRows);
      op.tables = planner::EmbeddingTables{8, 4096};
    }
    if (traits.work == planner::Work::GroupedMatmul) op.experts = {.count = 8, .top_k = 2};
    result.push_back({op, any_of(kLinks)});
  }
  return result;
}

/// A plan for a length of the cut axis that was not tuned, as users see it, and its measurement a moment later.
struct Outcome {
  planner::OpSpec op;
  std::string link;
  planner::Plan printed, anchored; ///< the same blocks with the printed and with the anchored prediction
  store::Measurement measured;
};

Result<Outcome> predict_and_race(const planner::OpSpec& op, const std::string& link, const RaceSettings& settings,
                                 store::Store& store) {
  MC2_ASSIGN(auto bench, open_bench(op, link));
  const finder::ModelPlaces places{.given = {}, .kept = finder::kept_in_unnamed(store)};
  finder::PlanQuestion question{.op = op, .machine = bench->fingerprint()};
  MC2_ASSIGN(const auto found, finder::find_model(places, question));
  MC2_ASSIGN(const auto printed, finder::plan_with(found, question));
  question.variant = printed.variant;
  question.time_lanes = [&](const planner::CostModel& model) { return profiler::time_lanes(*bench, model); };
  MC2_ASSIGN(const auto now, finder::find_model(places, question));
  MC2_ASSIGN(auto anchored, finder::predict_with(now, question, printed.cut));
  MC2_ASSIGN(const auto raced, shown_race(*bench, {printed}, settings, "race " + op.text()));
  const store::Measurement measured =
      embed::measurement_of(raced.contenders.front(), printed, finder::as_it_is_now(found, op));
  MC2_TRY(store.add_measurement(bench->fingerprint(), measured, utc_now()));
  return Outcome{op, link, printed, std::move(anchored), measured};
}

/// Errors and interval widths of one kind of prediction.
struct Score {
  std::vector<double> errors, widths;
  int covered_count = 0;

  void add(double predicted, double low, double high, double measured, double scale) {
    errors.push_back(std::abs(predicted - measured) / scale);
    widths.push_back((high - low) / scale);
    covered_count += low <= measured && measured <= high ? 1 : 0;
  }
  [[nodiscard]] std::vector<std::string> row(const std::string& name) const {
    if (errors.empty()) return {name, "-", "-", "-", "-", "-"};
    const double covered = static_cast<double>(covered_count) / static_cast<double>(errors.size());
    return {name,
            percent_text(median(errors)),
            percent_text(profiler::quantile(errors, 0.9)),
            percent_text(profiler::quantile(errors, 1)),
            percent_text(covered) + " of " + std::to_string(errors.size()),
            percent_text(median(widths))};
  }
};

void add_time(Score& score, const planner::Plan& plan, const store::Measurement& measured) {
  const auto& makespan = plan.makespan;
  score.add(makespan.us, makespan.low_us, makespan.high_us, measured.fused_us, measured.fused_us);
}

void add_benefit(Score& score, const planner::Plan& plan, const store::Measurement& measured) {
  if (!plan.overlaps() || !plan.benefit_interval) return;
  score.add(plan.benefit(), plan.benefit_interval->low, plan.benefit_interval->high, measured.benefit, 1);
}

void print_scores(const std::vector<Outcome>& outcomes) {
  Score printed, anchored, printed_benefit, anchored_benefit;
  std::vector<double> ratios;
  int slower_count = 0;
  for (const Outcome& one : outcomes) {
    add_time(printed, one.printed, one.measured);
    add_time(anchored, one.anchored, one.measured);
    add_benefit(printed_benefit, one.printed, one.measured);
    add_benefit(anchored_benefit, one.anchored, one.measured);
    ratios.push_back(one.measured.compute_us / one.measured.predicted_compute_us);
    slower_count += one.printed.overlaps() && one.measured.benefit_high < 0 ? 1 : 0;
  }
  std::cout << render::table({{"", "error, median", "90 %", "worst", "inside the 90 % interval", "its width, median"},
                              printed.row("time, as printed"),
                              anchored.row("time, anchored"),
                              printed_benefit.row("benefit, as printed (points)"),
                              anchored_benefit.row("benefit, anchored (points)")},
                             render::kAnyWidth)
            << "  uncut matmul, measured over predicted: 5 % of " << number(profiler::quantile(ratios, 0.05), "%.3f")
            << ", median " << number(median(ratios), "%.3f") << ", 95 % of "
            << number(profiler::quantile(ratios, 0.95), "%.3f")
            << "\n  cuts slower than serial beyond the noise: " << slower_count << " of " << outcomes.size() << "\n\n";
}

std::string csv_line(const Outcome& one, const std::string& session) {
  const auto& tables = one.op;
  std::string line = session + "," + std::string(to_string(tables.kind)) + "," + std::to_string(tables.m) + "," +
                     std::to_string(tables.n) + "," + std::to_string(tables.k) + ",\"" + one.link + "\",\"" +
                     one.printed.cut.text() + "\"";
  for (const double us :
       {one.measured.fused_us, one.printed.makespan.us, one.printed.makespan.low_us, one.printed.makespan.high_us,
        one.anchored.makespan.us, one.anchored.makespan.low_us, one.anchored.makespan.high_us, one.measured.compute_us,
        one.measured.predicted_compute_us, one.measured.communication_us, one.measured.predicted_communication_us})
    line += "," + number(us, "%.1f");
  const auto interval = one.printed.benefit_interval.value_or(planner::BenefitInterval{});
  for (const double share : {one.measured.benefit, one.printed.benefit(), interval.low, interval.high})
    line += "," + number(share, "%.4f");
  return line;
}

constexpr const char* kCsvHead =
    "session,kind,m,n,k,link,cut,measured_us,printed_us,printed_low_us,printed_high_us,anchored_us,anchored_low_us,"
    "anchored_high_us,compute_us,predicted_compute_us,communication_us,predicted_communication_us,benefit,"
    "predicted_benefit,benefit_low,benefit_high";

} // namespace

void PredictionBench::add_to(CLI::App& app) {
  app.add_option("--store", store_file, "keep models and measurements here, and go on from them; default: nowhere");
  app.add_option("--csv", csv_file, "append every row to this file");
  app.add_option("--shapes", shape_count, "operators, of every kind in turn")->check(CLI::Range(1, 1000));
  app.add_option("--m", rows, "rows to tune each with; it is asked for 0.5 to 2.1 times as many")
      ->capture_default_str()
      ->check(CLI::Range(160, 65'536)); // up to 64 rows are cut along n, and answered for by their own m only
  app.add_option("--seed", seed, "of their sizes")->capture_default_str();
  app.add_option("--tune-budget", tune_budget_s, "seconds to tune each operator that has no model yet");
  app.add_option("--race-budget", race_budget_s, "seconds for each race")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
}

Result<ExitCode> PredictionBench::run() const {
  const ScratchStore scratch;
  MC2_ASSIGN(auto store,
             store_file.empty() ? scratch.open() : store::Store::open(store_file, store::OpenMode::ReadWrite));
  TuneSettings tuning = bench_settings(race_budget_s);
  tuning.budget = planner::to_ms(tune_budget_s);
  const auto operators = asked_operators(shape_count, rows, seed);
  for (const auto& [op, link] : operators) {
    MC2_ASSIGN(auto bench, open_bench(op, link));
    if (!store.find_model(op, bench->fingerprint())) MC2_TRY(tune_operator(*bench, tuning, store));
  }
  const std::string session = utc_now();
  std::vector<Outcome> outcomes;
  for (const auto& [tuned, link] : operators)
    for (const double share : kAskedShares) {
      planner::OpSpec op = tuned;
      op.m = planner::align_down(static_cast<std::int64_t>(share * static_cast<double>(rows)), tuned.world_size);
      MC2_ASSIGN(auto outcome, predict_and_race(op, link, tuning.race, store));
      outcomes.push_back(std::move(outcome));
    }
  std::cout << "Tuned at m = " << rows << ", asked for " << std::size(kAskedShares)
            << " other m each; real matmul, emulated links, 2 ranks; " << session << "\n";
  print_scores(outcomes);
  if (csv_file.empty()) return ExitCode::Success;
  const bool is_new = !std::filesystem::exists(csv_file);
  std::ofstream file(csv_file, std::ios::app);
  if (is_new) file << kCsvHead << "\n";
  for (const Outcome& one : outcomes) file << csv_line(one, session) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
