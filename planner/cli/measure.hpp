#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/active_sweep.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/profiler/sweep.hpp"
#include "workbench.hpp"

namespace mc2::cli {

/// How many measurements an active profile may take, and when the plan is good enough.
struct ActiveSettings {
  int max_measurement_count = 48;
  double tolerated_regret = 0.005;
};

struct ProfileSettings {
  profiler::SweepOptions sweep;
  std::int64_t alignment = 128;
  std::optional<ActiveSettings> active; ///< measure what the plan depends on, instead of the whole sweep
  planner::PlanOptions plan;            ///< whose regret an active profile lowers
};

/// What times one case of a variant. Errors: as Workbench::prepare.
[[nodiscard]] Result<profiler::SweepCase> make_sweep_case(Workbench& bench, const profiler::ActiveCase& one,
                                                          const planner::Variant& variant);

/// Leaves out variants that screening.hpp shows to be dominated, then times both lanes of the others, alone and
/// together, over a sweep of block lengths, or over those that `settings.active` chooses; each round of the latter is
/// told on standard error. Samples go to `store` after every round, and earlier ones of the same operator and machine
/// count. Errors: as Workbench, run_sweep and run_active_sweep; Cancelled keeps what was measured.
[[nodiscard]] Result<profiler::SweepSummary> profile_operator(Workbench& bench, const ProfileSettings& settings,
                                                              store::Store& store);

/// A cut that races, and its times.
struct Contender {
  planner::Cut cut;
  planner::Variant variant;
  std::vector<double> fused_us;
  std::vector<double> serial_us;        ///< of the run next to each fused one
  std::vector<double> compute_us;       ///< the variant's uncut matmul alone, local part included
  std::vector<double> communication_us; ///< the variant's uncut collective alone
  bool overlaps = true;                 ///< whether its runs had both lanes busy at once; else they were serial
};

struct RaceSettings {
  int min_rounds = 6; ///< whatever the budget: the fewest pairs whose median has a 95 % interval
  int max_rounds = 61;
  double relative_half_width = 0.01; ///< of every contender's fused/serial interval
  /// after which no round starts; finding the serial variant and warm-up count
  std::chrono::milliseconds budget{60'000};
};

/// Everything that one race measured; entry i of every vector was taken within moments of the others.
struct Race {
  std::vector<Contender> contenders;
  planner::Variant serial_variant;      ///< the fastest uncut
  std::vector<double> compute_us;       ///< its matmul alone, of all rows
  std::vector<double> communication_us; ///< its collective alone

  [[nodiscard]] planner::Validation validation(const Contender& contender) const;
  /// Median over rounds of (serial - fused) / (serial - max(compute, communication)) with its 95 % interval.
  [[nodiscard]] profiler::Interval overlap_efficiency(const Contender& contender) const;
};

/// Runs every contender next to a serial run, in rounds of alternating order, with the uncut parts alone in between.
/// Serial is what one has without mc2, with the variant that is fastest at it: the uncut operator, whose lanes follow
/// each other; where a local part would overlap, its collective and then its matmul, each on its own.
/// Errors: as Workbench::prepare; Cancelled. Throws SystemError.
[[nodiscard]] Result<Race> race(Workbench& bench, const std::vector<planner::Plan>& plans, const RaceSettings& settings,
                                const std::string& label);

/// Rounds that a race will still take if they go on like this: until every interval should be narrow, which falls with
/// the square root of their number, or the budget ends.
/// @param round_time  of one round, above 0
[[nodiscard]] int missing_rounds(const Race& race, const RaceSettings& settings, std::chrono::nanoseconds round_time,
                                 std::chrono::nanoseconds budget_left);

[[nodiscard]] double to_us(std::chrono::nanoseconds time) noexcept;

/// Not empty.
[[nodiscard]] double median(const std::vector<double>& values);

} // namespace mc2::cli
