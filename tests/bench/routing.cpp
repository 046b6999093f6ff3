#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <sstream>

#include "benches.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/routing.hpp"
#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

constexpr const char* kRoutedLink = "2.5Gbit,20us";
constexpr const char* kRoutedCompute = "90Gflops,10us"; ///< virtual: 4 ranks share two cores here
constexpr int kRoutedRanks = 4;
constexpr std::int64_t kRoutedExperts = 4, kBalancedRows = 2048, kRoutedColumns = 1024, kRoutedInner = 1024;
constexpr double kRoutedCapacity = 2.5; ///< capacity of every plan here, as a multiple of the balanced rows
constexpr double kPlannedImbalance = 1.5;

planner::OpSpec routed_op(planner::OpKind kind, double capacity) {
  planner::OpSpec op{kind,
                     static_cast<std::int64_t>(capacity * kBalancedRows),
                     kRoutedColumns,
                     kRoutedInner,
                     planner::DType::F32,
                     kRoutedRanks};
  op.experts_per_rank = kRoutedExperts;
  return op;
}

/// Rows that every rank sends: to each expert (RankBuffers::send_counts of all ranks), and to each rank.
struct Table {
  std::vector<std::int64_t> by_expert;
  planner::RowCounts by_rank;
};

/// A random table. The experts of rank 0 together are chosen `imbalance` times as often as those of the mean rank. The
/// popularity of a single expert is random, and the tokens of each rank choose independently.
Table random_table(const planner::OpSpec& op, double imbalance, std::mt19937_64& random) {
  const std::int64_t most = op.m / kRoutedRanks;
  std::exponential_distribution<double> popularity(1);
  std::vector<double> weights(kRoutedRanks * kRoutedExperts);
  for (double& weight : weights) weight = 0.5 + popularity(random);
  for (int rank = 0; rank < kRoutedRanks; ++rank) { // scales the weights so that the ranks have the asked imbalance
    const auto own = std::span(weights).subspan(static_cast<std::size_t>(rank * kRoutedExperts), kRoutedExperts);
    const double wanted = (rank == 0 ? imbalance : (kRoutedRanks - imbalance) / (kRoutedRanks - 1)) / kRoutedRanks;
    const double sum = std::reduce(own.begin(), own.end());
    for (double& weight : own) weight *= wanted / sum;
  }
  Table table{std::vector<std::int64_t>(kRoutedRanks * kRoutedRanks * kRoutedExperts),
              planner::RowCounts(kRoutedRanks * kRoutedRanks)};
  for (int token_rank = 0; token_rank < kRoutedRanks; ++token_rank) {
    std::discrete_distribution<int> choose(weights.begin(), weights.end());
    for (std::int64_t token = 0; token < kBalancedRows; ++token) {
      const int expert = choose(random), holder = expert / static_cast<int>(kRoutedExperts);
      const bool is_sent = planner::traits_of(op.kind).communicates_first();
      const auto pair =
          static_cast<std::size_t>(is_sent ? token_rank * kRoutedRanks + holder : holder * kRoutedRanks + token_rank);
      if (table.by_rank[pair] == most) continue; // beyond the capacity: dropped, as routers do
      ++table.by_rank[pair];
      ++table.by_expert[pair * static_cast<std::size_t>(kRoutedExperts) +
                        static_cast<std::size_t>(expert % kRoutedExperts)];
    }
  }
  return table;
}

struct RoutedResult {
  planner::OpKind kind = {};
  double asked = 0, imbalance = 0;
  planner::Cut cut, cut_of_imbalance;
  double predicted_us = 0, fused_us = 0, serial_us = 0, ideal_us = 0;
  double loss = 0; ///< of the plan for kPlannedImbalance against the plan for the table
  bool is_slower_than_serial = false;

  [[nodiscard]] double error() const { return predicted_us / fused_us - 1; }
  [[nodiscard]] double ideal_benefit() const { return 1 - ideal_us / serial_us; }
  [[nodiscard]] double efficiency() const { return (serial_us - fused_us) / (serial_us - ideal_us); }
};

/// The model with only the variant "direct", which takes counts.
planner::CostModel direct_only(planner::CostModel model) {
  std::erase_if(model.variants, [](const planner::VariantCost& cost) { return cost.variant.name != "direct"; });
  return model;
}

Result<RoutedResult> race_table(const planner::OpSpec& op, const planner::CostModel& model, double imbalance,
                                std::mt19937_64& random, const RaceSettings& settings) {
  const Table table = random_table(op, imbalance, random);
  planner::PlanOptions options = planner::default_options_on(model.fingerprint);
  options.counts = table.by_rank;
  MC2_ASSIGN(const auto chosen, planner::make_plan(op, model, options));
  MC2_ASSIGN(const auto assumed, planner::with_imbalance(routed_op(op.kind, 1), kPlannedImbalance));
  options.counts = assumed.counts;
  MC2_ASSIGN(const auto foreseen, planner::make_plan(op, model, options));

  MC2_ASSIGN(const auto bench, open_bench(op, kRoutedLink, kRoutedCompute, {random(), table.by_expert}));
  bench->keep_variants({chosen.variant});
  MC2_TRY(bench->verify(chosen));
  std::vector<planner::Plan> plans{chosen};
  if (foreseen.cut != chosen.cut) plans.push_back(foreseen);
  MC2_ASSIGN(const Race raced, shown_race(*bench, plans, settings, op.text()));

  const Contender& own = raced.contenders.front();
  RoutedResult result{.kind = op.kind,
                      .asked = imbalance,
                      .imbalance = planner::imbalance_of(op, table.by_rank),
                      .cut = chosen.cut,
                      .cut_of_imbalance = foreseen.cut,
                      .predicted_us = chosen.makespan.us,
                      .fused_us = median(own.fused_us),
                      .serial_us = median(own.serial_us),
                      .ideal_us = ideal_us(raced)};
  result.is_slower_than_serial = own.validation().benefit_high < 0;
  if (plans.size() > 1) result.loss = fused_to_serial(raced.contenders.back()) / fused_to_serial(own) - 1;
  return result;
}

std::vector<double> values_of(const std::vector<RoutedResult>& results, double (*value)(const RoutedResult&)) {
  std::vector<double> values;
  for (const RoutedResult& result : results) values.push_back(value(result));
  return values;
}

void print_results(const std::vector<RoutedResult>& results) {
  std::vector<std::vector<std::string>> rows{
      {"kind", "imbalance", "plan", "predicted", "measured", "serial", "ideal", "efficiency", "loss of 1.5's"}};
  for (const RoutedResult& each : results)
    rows.push_back({std::string(to_string(each.kind)), number_text(each.imbalance, 3), each.cut.text(),
                    time_text(each.predicted_us), time_text(each.fused_us), time_text(each.serial_us),
                    percent_text(each.ideal_benefit()), percent_text(each.efficiency()), percent_text(each.loss)});
  const auto slower = std::ranges::count_if(results, &RoutedResult::is_slower_than_serial);
  std::cout << "Counts that nobody profiled: " << kRoutedRanks << " ranks with " << kRoutedExperts << " experts, "
            << kRoutedLink << ", " << kRoutedCompute << "\n"
            << render::table(rows, render::kAnyWidth)
            << spread_text("prediction error", values_of(results, [](const auto& r) { return std::abs(r.error()); }))
            << spread_text("overlap efficiency", values_of(results, [](const auto& r) { return r.efficiency(); }),
                           false)
            << spread_text("loss of the plan for an imbalance of 1.5",
                           values_of(results, [](const auto& r) { return r.loss; }))
            << "  plans slower than serial: " << slower << " of " << results.size() << "\n\n";
}

void write_csv(const std::vector<RoutedResult>& results, const std::string& path) {
  std::ostringstream file;
  file << "kind,imbalance_asked,imbalance,plan,plan_for_1.5,predicted_ms,measured_ms,serial_ms,ideal_ms,error_%,"
          "efficiency_%,loss_of_plan_for_1.5_%\n";
  const auto ms = [](double us) { return number(us / 1000, "%.4g"); };
  const auto percent = [](double share) { return number(100 * share, "%.1f"); };
  for (const RoutedResult& r : results)
    file << to_string(r.kind) << "," << number(r.asked, "%.4g") << "," << number(r.imbalance, "%.4g") << ",\""
         << r.cut.text() << "\",\"" << r.cut_of_imbalance.text() << "\"," << ms(r.predicted_us) << "," << ms(r.fused_us)
         << "," << ms(r.serial_us) << "," << ms(r.ideal_us) << "," << percent(r.error()) << ","
         << percent(r.efficiency()) << "," << percent(r.loss) << "\n";
  write_file(path, file.str());
}

} // namespace

Result<ExitCode> bench_routing(int table_count, double race_budget_s, const std::string& csv_file) {
  std::vector<RoutedResult> results;
  if (!csv_file.empty()) write_csv(results, csv_file); // early, so that a bad path is reported before the races
  TuneSettings settings = bench_settings(race_budget_s);
  std::mt19937_64 random(20261128);
  for (const auto kind : {planner::OpKind::AllToAllMatmul, planner::OpKind::MatmulAllToAll}) {
    ScratchStore scratch;
    MC2_ASSIGN(auto store, scratch.open());
    MC2_ASSIGN(auto bench, open_bench(routed_op(kind, 1), kRoutedLink, kRoutedCompute));
    MC2_ASSIGN(const auto tuned, tune_to_model(*bench, settings, store));
    const planner::OpSpec op = routed_op(kind, kRoutedCapacity);
    const finder::ModelPlaces places{.given = {}, .kept = finder::kept_in_unnamed(store)};
    MC2_ASSIGN(const auto found, finder::find_model(places, {.op = op, .machine = tuned.model->fingerprint}));
    const planner::CostModel model = direct_only(finder::as_it_is_now(found, op));
    for (int table = 0; table < table_count; ++table) {
      constexpr double kImbalances[] = {1, 1.25, 1.5, 2, 2.25};
      MC2_ASSIGN(auto result,
                 race_table(op, model, kImbalances[table % std::ssize(kImbalances)], random, settings.race));
      results.push_back(std::move(result));
      if (!csv_file.empty()) write_csv(results, csv_file);
    }
  }
  print_results(results);
  return ExitCode::Success;
}

} // namespace mc2::cli
