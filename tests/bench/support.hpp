#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"
#include "mc2/embed/workbench.hpp"
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

/// A store in a temporary place; the destructor removes it.
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

/// A matmul_all_reduce in f32 on two ranks, the usual operator of host benchmarks.
[[nodiscard]] planner::OpSpec bench_op(std::int64_t m, std::int64_t n, std::int64_t k);

/// A workbench of the host backend on a link. Errors: as Workbench::open.
[[nodiscard]] Result<std::unique_ptr<Workbench>> open_bench(const planner::OpSpec& op, const std::string& link,
                                                            const std::string& virtual_compute = "",
                                                            const embed::Workload& workload = fresh_seed());

/// @param race_budget_s  budget for each race; tuning gets 30 s for the profile and twice this budget for its races
[[nodiscard]] TuneSettings bench_settings(double race_budget_s, std::string_view backend = "host");

/// profiler::profile() with its samples kept in a store and its progress shown on standard error.
[[nodiscard]] Result<profiler::SweepSummary> profile_operator(Workbench& bench, const ProfileSettings& settings,
                                                              store::Store& store);
/// profiler::tune(), kept and shown alike: the answer that users get, with or without a model.
[[nodiscard]] Result<Tuned> tune_operator(Workbench& bench, const TuneSettings& settings, store::Store& store);
/// As tune_operator, but the result has a model. Errors: as tune_operator; CannotFit where no curve fits.
[[nodiscard]] Result<Tuned> tune_to_model(Workbench& bench, const TuneSettings& settings, store::Store& store);
/// profiler::race(), shown on standard error.
[[nodiscard]] Result<Race> shown_race(Workbench& bench, const std::vector<planner::Plan>& plans,
                                      const RaceSettings& settings, const std::string& label);

/// Time of one run in us, from the call to its return.
[[nodiscard]] double wall_us(executor::Prepared& prepared, executor::RunMode mode);

/// Times in us of two functions that ran in turn.
struct Pairs {
  std::vector<double> first_us, second_us;

  /// Median of the pairs' first / second.
  [[nodiscard]] double ratio() const { return profiler::paired_ratio(first_us, second_us, 0.95).value; }
};

/// Times pairs of `first` and `second`; every other pair begins with `second`. Errors: Cancelled.
[[nodiscard]] Result<Pairs> time_pairs(std::size_t count, const std::function<double()>& first,
                                       const std::function<double()>& second);

/// Median of the paired fused / serial ratios.
[[nodiscard]] double fused_to_serial(const Contender& contender);

/// Time of a plan that hides the shorter of serial's two parts completely, and its benefit.
[[nodiscard]] double ideal_us(const Race& race);
[[nodiscard]] double ideal_benefit(const Race& race);

/// Cut and variant, or "do not cut" where the plan is serial.
[[nodiscard]] std::string plan_text(const planner::Plan& plan);

/// Geometric mean; 0 without values.
[[nodiscard]] double geomean(std::span<const double> values);
/// "  name: median 1.2 %, worst 3.4 %" and a line break. `ratios` must not be empty.
[[nodiscard]] std::string spread_text(const std::string& name, const std::vector<double>& ratios,
                                      bool is_more_worse = true);

/// The prediction for a contender by `model`, anchored at the uncut parts of its variant that the race measured.
/// Errors: as finder::predict_at.
[[nodiscard]] Result<planner::Plan> anchored_prediction(const Contender& contender, const planner::OpSpec& op,
                                                        const planner::CostModel& model);

[[nodiscard]] double seconds_since(std::chrono::steady_clock::time_point start);

/// Prints a table of `count` rows, which `row_of` makes one after the other. Where it fails, the finished rows are
/// printed nevertheless, because each takes minutes. Errors: as row_of.
[[nodiscard]] Result<ExitCode> print_rows(const std::string& title, const std::vector<std::string>& header,
                                          std::size_t count,
                                          const std::function<Result<std::vector<std::string>>(std::size_t)>& row_of);

/// fused_to_serial() of every contender.
[[nodiscard]] std::vector<double> ratios_of(const Race& race);

/// Plans of these cuts without predictions. Errors: as planner::unpredicted_plan.
[[nodiscard]] Result<std::vector<planner::Plan>> plans_of(const Workbench& bench, const std::vector<planner::Cut>& cuts,
                                                          const planner::Variant& variant);

/// Races the fastest plans again in heats, with more rounds for fewer plans, and returns the last heat. The best of
/// many noisy medians is too good by chance; many rounds for few plans remove this bias.
/// @param ratios   fused / serial of each plan in a first race
/// @param staying  plans that take part in every heat, as its first contenders
/// Errors: as race.
[[nodiscard]] Result<Race> race_fastest(Workbench& bench, std::vector<planner::Plan> plans, std::vector<double> ratios,
                                        const std::vector<planner::Plan>& staying);

/// Result of a race of all cuts of the family and of the asked cuts.
struct FamilyRace {
  Race race; ///< the last heat: the fastest cuts and the asked cuts
  std::size_t family_size = 0;
  planner::Cut best_cut; ///< the fastest cut of the family
  double best_ratio = 0; ///< fused / serial of best_cut

  /// Fused / serial of an asked cut.
  [[nodiscard]] double ratio_of(const planner::Cut& cut) const;
  /// Time of an asked cut / that of the best cut of the family - 1.
  [[nodiscard]] double regret_of(const planner::Cut& cut) const { return ratio_of(cut) / best_ratio - 1; }
};

/// Measured brute force: runs every cut, then race_fastest().
/// @param asked  cuts that stay in the race to its end; they may lie outside the family
/// Errors: as enumerate_cuts and race.
[[nodiscard]] Result<FamilyRace> race_family(Workbench& bench, const planner::PlanOptions& options,
                                             const planner::Variant& variant, const std::vector<planner::Cut>& asked);

} // namespace mc2::cli
