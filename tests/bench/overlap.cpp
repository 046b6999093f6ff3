#include <iostream>

#include "benches.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "support.hpp"

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
    MC2_ASSIGN(auto store, scratch.open());
    MC2_ASSIGN(auto bench, open_bench(bench_op(c.m, c.n, c.k), c.link));
    MC2_ASSIGN(const auto tuned, tune_operator(*bench, settings, store));
    const planner::Cut& cut = tuned.plan.cut;
    MC2_ASSIGN(const FamilyRace family, race_family(*bench, *settings.plan, tuned.plan.variant, {cut}));
    const profiler::Interval efficiency = efficiency_of(family.race, cut);
    rows.push_back({bench->op().text(), c.link, percent_text(ideal_benefit(family.race)), cut.text(),
                    percent_text(efficiency.value),
                    percent_text(efficiency.low) + " to " + percent_text(efficiency.high), family.best_cut.text(),
                    std::to_string(family.family_size), percent_text(family.regret_of(cut))});
    std::cerr << "mc2: " << rows.back()[0] << " " << c.link << ": efficiency " << rows.back()[4] << "\n";
  }
  std::cout << "Overlap efficiency of tuned plans on emulated links, 2 ranks (median of paired runs)\n"
            << render::table(rows, render::kAnyWidth) << "\n";
  return ExitCode::Success;
}

Result<ExitCode> bench_shared_memory(const TuneSettings& settings) {
  std::vector<std::vector<std::string>> rows{
      {"shape", "kept plan", "uniform 4 blocks, measured", "95 % interval", "verdict"}};
  for (const auto& op : {bench_op(1024, 1024, 1024), bench_op(2048, 1024, 512), bench_op(1024, 2048, 256)}) {
    ScratchStore scratch;
    MC2_ASSIGN(auto store, scratch.open());
    MC2_ASSIGN(auto bench, open_bench(op, "shm"));
    MC2_ASSIGN(const auto tuned, tune_to_model(*bench, settings, store));
    const planner::Cut four{std::vector<std::int64_t>(4, op.m / 4)};
    MC2_ASSIGN(const auto plan, planner::predict_cut(op, *tuned.model, tuned.plan.variant, four));
    MC2_ASSIGN(const auto raced, shown_race(*bench, {plan}, settings.race, "race 4 blocks"));
    const planner::Validation v = raced.contenders.front().validation();
    rows.push_back({op.text(), tuned.plan.is_cut() ? tuned.plan.cut.text() : "do not cut", percent_text(v.benefit),
                    percent_text(v.benefit_low) + " to " + percent_text(v.benefit_high),
                    v.benefit_low > 0 ? "a cut would have gained" : "right not to cut"});
  }
  std::cout << "Plain shared memory, 2 ranks: communication is CPU work\n"
            << render::table(rows, render::kAnyWidth) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
