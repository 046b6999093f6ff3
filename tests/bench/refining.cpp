#include "refining.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <iostream>
#include <string>
#include <vector>

#include "mc2/planner/text.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/refine.hpp"
#include "mc2/profiler/statistics.hpp"
#include "options/numbers.hpp"
#include "pages/render.hpp"
#include "simulated_npu.hpp"

namespace mc2::cli {
namespace {

constexpr int kRoundCount = 3;
constexpr double kGoal = 0.01; ///< regret
constexpr double kSame = 1e-9;

/// The regrets of the kept cuts after each round, over all machines. Round 0 is the plan before any cut was measured.
struct Rounds {
  std::array<std::vector<double>, kRoundCount + 1> regrets;
  std::array<int, kRoundCount + 1> slower_than_serial{};
  std::vector<double> cut_counts; ///< cuts measured until the end, for each machine

  void add(int round, const SimulatedNpu& npu, const planner::Cut& kept) {
    const auto at = static_cast<std::size_t>(round);
    regrets[at].push_back(npu.regret(kept));
    slower_than_serial[at] += npu.fused_us(kept) > npu.serial_us() * (1 + kSame) ? 1 : 0;
  }
};

/// Measures and refines until the refinement is settled, at most kRoundCount times.
Result<void> refine_one(SimulatedNpu npu, bool times_blocks, Rounds& rounds) {
  MC2_ASSIGN(const auto fitted, profiler::fit_cost_model(npu.samples()));
  const profiler::RefineSettings settings{npu.options()};
  std::vector<planner::MeasuredCut> measured;
  MC2_ASSIGN(auto refined, profiler::refine(npu.op(), fitted.model, measured, settings));
  MC2_ASSIGN(const auto plan, planner::make_plan(npu.op(), fitted.model, npu.options()));
  rounds.add(0, npu, plan.cut);
  for (int round = 1; round <= kRoundCount; ++round) {
    for (const auto& next : refined.next) measured.push_back(npu.measure(next.cut, times_blocks));
    if (!refined.next.empty()) {
      MC2_ASSIGN(refined, profiler::refine(npu.op(), fitted.model, measured, settings));
    }
    rounds.add(round, npu, refined.plan.cut);
  }
  rounds.cut_counts.push_back(static_cast<double>(measured.size()));
  return {};
}

std::string table_of(const Rounds& rounds) {
  std::vector<std::vector<std::string>> rows{
      {"  rounds", "median", "p95", "worst", "within 1 %", "slower than serial"}};
  for (int round = 0; round <= kRoundCount; ++round) {
    const auto at = static_cast<std::size_t>(round);
    const auto& regrets = rounds.regrets[at];
    const auto good = std::ranges::count_if(regrets, [](double regret) { return regret <= kGoal; });
    rows.push_back({"  " + std::to_string(round), percent_text(profiler::quantile(regrets, 0.5)),
                    percent_text(profiler::quantile(regrets, 0.95)), percent_text(profiler::quantile(regrets, 1)),
                    percent_text(static_cast<double>(good) / static_cast<double>(regrets.size())),
                    std::to_string(rounds.slower_than_serial[at])});
  }
  return table(rows);
}

} // namespace

void RefiningBench::add_to(CLI::App& app) {
  app.add_option("--truths", truth_count, "simulated NPUs")->capture_default_str()->check(whole_number(1, 10'000));
  app.add_option("--seed", seed, "of the simulated NPUs")->capture_default_str()->check(whole_number(0, kMaxSeed));
  app.add_flag("--block-times", times_blocks, "what runs a cut also times its blocks");
}

Result<ExitCode> RefiningBench::run() const {
  Rounds rounds;
  for (int i = 0; i < truth_count; ++i)
    MC2_TRY(refine_one(SimulatedNpu(seed * 1'000'003 + static_cast<std::uint64_t>(i)), times_blocks, rounds));
  std::cout << "Regret of the cut that is kept against the best of all, " << truth_count
            << " simulated NPUs (noise of a run 1 to 5 %, " << SimulatedNpu::kRunCount << " runs of a cut)\n"
            << table_of(rounds) << "  cuts measured: median " << profiler::quantile(rounds.cut_counts, 0.5) << ", most "
            << profiler::quantile(rounds.cut_counts, 1) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
