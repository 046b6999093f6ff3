#include <iostream>

#include "benches.hpp"
#include "mc2/planner/planner.hpp"
#include "measure.hpp"
#include "render.hpp"
#include "support.hpp"
#include "tuner.hpp"

namespace mc2::cli {
namespace {

struct OverlapCase {
  std::int64_t m, n, k;
  const char* link;
};

profiler::Interval efficiency_of(const Race& race, const planner::Cut& cut) {
  profiler::Interval result;
  for (const auto& contender : race.contenders)
    if (contender.cut == cut) result = race.overlap_efficiency(contender);
  return result;
}

} // namespace

Result<ExitCode> bench_overlap(const TuneSettings& settings) {
  const std::vector<OverlapCase> cases{{1024, 1024, 1024, "2.5Gbit,20us"},
                                       {1536, 1024, 1024, "2.5Gbit,20us"},
                                       {1024, 1024, 2048, "1Gbit,20us"},
                                       {1024, 768, 3072, "1Gbit,20us"},
                                       {1024, 1024, 2048, "2.5Gbit,20us"}};
  std::vector<std::vector<std::string>> rows{
      {"shape", "link", "ideal", "tuned", "efficiency", "95 % interval", "best of family", "cuts", "tuned/best"}};
  for (const auto& c : cases) {
    ScratchStore scratch;
    auto store = scratch.open();
    if (!store) return store.error();
    auto bench = open_bench(bench_op(c.m, c.n, c.k), c.link);
    if (!bench) return bench.error();
    const auto tuned = tune_operator(*bench.value(), settings, store.value());
    if (!tuned) return tuned.error();
    const planner::Cut& cut = tuned.value().plan.cut;
    const auto raced = race_family(*bench.value(), settings.plan, tuned.value().plan.variant, {cut});
    if (!raced) return raced.error();
    const FamilyRace& family = raced.value();
    const profiler::Interval efficiency = efficiency_of(family.race, cut);
    rows.push_back({bench.value()->op().text(), c.link, percent_text(ideal_benefit(family.race)), cut.text(),
                    percent_text(efficiency.value),
                    percent_text(efficiency.low) + " to " + percent_text(efficiency.high), family.best_cut.text(),
                    std::to_string(family.family_size), percent_text(family.regret_of(cut))});
    std::cerr << "mc2: " << rows.back()[0] << " " << c.link << ": efficiency " << rows.back()[4] << "\n";
  }
  std::cout << "Overlap efficiency of tuned plans on emulated links, 2 ranks (median of paired runs)\n"
            << table(rows) << "\n";
  return ExitCode::Success;
}

Result<ExitCode> bench_shared_memory(const TuneSettings& settings) {
  std::vector<std::vector<std::string>> rows{
      {"shape", "kept plan", "uniform 4 blocks, measured", "95 % interval", "verdict"}};
  for (const auto& op : {bench_op(1024, 1024, 1024), bench_op(2048, 1024, 512), bench_op(1024, 2048, 256)}) {
    ScratchStore scratch;
    auto store = scratch.open();
    if (!store) return store.error();
    auto bench = open_bench(op, "shm");
    if (!bench) return bench.error();
    const auto tuned = tune_operator(*bench.value(), settings, store.value());
    if (!tuned) return tuned.error();
    const planner::Cut four{std::vector<std::int64_t>(4, op.m / 4)};
    const auto plan = planner::predict_cut(op, tuned.value().model, tuned.value().plan.variant, four);
    if (!plan) return plan.error();
    const auto raced = race(*bench.value(), {plan.value()}, settings.race, "race 4 blocks");
    if (!raced) return raced.error();
    const planner::Validation v = raced.value().validation(raced.value().contenders.front());
    rows.push_back({op.text(), tuned.value().plan.is_cut() ? tuned.value().plan.cut.text() : "do not cut",
                    percent_text(v.benefit), percent_text(v.benefit_low) + " to " + percent_text(v.benefit_high),
                    v.benefit_low > 0 ? "a cut would have gained" : "right not to cut"});
  }
  std::cout << "Plain shared memory, 2 ranks: communication is CPU work\n" << table(rows) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
