#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/embed/workbench.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/profiler/race.hpp"
#include "mc2/profiler/tune.hpp"
#include "mc2/store/store.hpp"

namespace mc2::cli {

using embed::Workbench;
using planner::to_us;
using profiler::Contender;
using profiler::median;
using profiler::ProfileSettings;
using profiler::Race;
using profiler::RaceSettings;
using profiler::Tuned;
using profiler::TuneSettings;

/// A store that disappears with the benchmark.
class ScratchStore {
 public:
  ScratchStore();
  ~ScratchStore();
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;
  [[nodiscard]] Result<store::Store> open() const;

 private:
  std::filesystem::path path_;
};

/// f32 on two ranks, the operator that every host benchmark runs.
[[nodiscard]] planner::OpSpec bench_op(std::int64_t m, std::int64_t n, std::int64_t k);

/// A workbench of the host backend on a link. Errors: as Workbench::open.
[[nodiscard]] Result<std::unique_ptr<Workbench>> open_bench(const planner::OpSpec& op, const std::string& link,
                                                            const std::string& virtual_compute = "",
                                                            const embed::Workload& workload = fresh_seed());

/// @param race_budget_s for each race; tuning has 30 s to profile, and two of these
[[nodiscard]] TuneSettings bench_settings(double race_budget_s,
                                          std::int64_t alignment = planner::default_alignment("host"));

/// profiler::profile(), kept in a store and shown on standard error.
[[nodiscard]] Result<profiler::SweepSummary> profile_operator(Workbench& bench, const ProfileSettings& settings,
                                                              store::Store& store);
/// profiler::tune() likewise: the answer that users get, with or without a model.
[[nodiscard]] Result<Tuned> tune_operator(Workbench& bench, const TuneSettings& settings, store::Store& store);
/// The same for what needs the model, which there is. Errors: as tune_operator; CannotFit where no curve fits.
[[nodiscard]] Result<Tuned> tune_to_model(Workbench& bench, const TuneSettings& settings, store::Store& store);
/// profiler::race(), shown on standard error.
[[nodiscard]] Result<Race> shown_race(Workbench& bench, const std::vector<planner::Plan>& plans,
                                      const RaceSettings& settings, const std::string& label);

/// One run, as its caller waits for it.
[[nodiscard]] double wall_us(executor::Prepared& prepared, executor::RunMode mode);

/// Times in us of two that ran in turn.
struct Pairs {
  std::vector<double> first_us, second_us;

  /// Median of the pairs' first / second.
  [[nodiscard]] double ratio() const { return profiler::paired_ratio(first_us, second_us, 0.95).value; }
};

/// Every other pair begins with the second. Errors: Cancelled.
[[nodiscard]] Result<Pairs> time_pairs(std::size_t count, const std::function<double()>& first,
                                       const std::function<double()>& second);

/// Median of the paired fused / serial ratios.
[[nodiscard]] double fused_to_serial(const Contender& contender);

/// Time of a plan that hides the shorter of serial's two parts completely, and its benefit.
[[nodiscard]] double ideal_us(const Race& race);
[[nodiscard]] double ideal_benefit(const Race& race);

/// Cut and variant, or "do not cut" where the plan is serial.
[[nodiscard]] std::string plan_text(const planner::Plan& plan);

/// 0 of none.
[[nodiscard]] double geomean(std::span<const double> values);
/// "  name: median 1.2 %, worst 3.4 %" and a line's end. Not empty.
[[nodiscard]] std::string spread_text(const std::string& name, const std::vector<double>& ratios,
                                      bool is_more_worse = true);

/// The prediction for a contender by `model` anchored at its variant's uncut parts as its race measured them.
/// Errors: as planner::predict_anchored.
[[nodiscard]] Result<planner::Plan> anchored_prediction(const Contender& contender, const planner::OpSpec& op,
                                                        const planner::CostModel& model);

[[nodiscard]] double seconds_since(std::chrono::steady_clock::time_point start);

/// Prints a table of so many rows, which `row_of` makes one after the other. Where it fails, rows that were finished
/// are printed nevertheless: each takes minutes. Errors: as row_of.
[[nodiscard]] Result<ExitCode> print_rows(const std::string& title, const std::vector<std::string>& header,
                                          std::size_t count,
                                          const std::function<Result<std::vector<std::string>>(std::size_t)>& row_of);

/// Of every contender.
[[nodiscard]] std::vector<double> ratios_of(const Race& race);

/// What nobody predicted. Errors: as planner::unpredicted_plan.
[[nodiscard]] Result<std::vector<planner::Plan>> plans_of(const Workbench& bench, const std::vector<planner::Cut>& cuts,
                                                          const planner::Variant& variant);

/// After all have run, heats of more and more rounds for fewer and fewer plans, of which this is the last: the best of
/// many noisy medians is too good by chance, and that few run often takes it out.
/// @param ratios   fused / serial of each plan
/// @param staying  the first contenders of every heat
/// Errors: as race.
[[nodiscard]] Result<Race> race_fastest(Workbench& bench, std::vector<planner::Plan> plans, std::vector<double> ratios,
                                        const std::vector<planner::Plan>& staying);

/// A race of every cut of the family, and of those that were asked for.
struct FamilyRace {
  Race race; ///< the last heat: the fastest cuts and those asked for
  std::size_t family_size = 0;
  planner::Cut best_cut; ///< of the family
  double best_ratio = 0; ///< its fused / serial

  /// Fused / serial of a cut that was asked for.
  [[nodiscard]] double ratio_of(const planner::Cut& cut) const;
  /// How much slower than the best cut of the family, relative.
  [[nodiscard]] double regret_of(const planner::Cut& cut) const { return ratio_of(cut) / best_ratio - 1; }
};

/// Measured brute force: every cut runs, then race_fastest().
/// @param asked  race to the end; they may lie outside the family
/// Errors: as enumerate_cuts and race.
[[nodiscard]] Result<FamilyRace> race_family(Workbench& bench, const planner::PlanOptions& options,
                                             const planner::Variant& variant, const std::vector<planner::Cut>& asked);

} // namespace mc2::cli
