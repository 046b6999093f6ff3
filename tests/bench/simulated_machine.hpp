#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "made_up_lanes.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/profile_case.hpp"

namespace mc2::cli {

/// A made-up machine whose costs are known, so that a plan's regret can be computed exactly.
class SimulatedMachine {
 public:
  using Truth = MadeUpLanes::Truth;

  /// Sizes, costs, slow-downs, noise of 1 to 5 % and, for one in three, drift of 5 % between rounds, all by the seed.
  SimulatedMachine(Truth truth, std::uint64_t seed);

  [[nodiscard]] const planner::OpSpec& op() const noexcept { return op_; }
  [[nodiscard]] const planner::PlanOptions& options() const noexcept { return options_; }
  [[nodiscard]] planner::Fingerprint fingerprint() const { return {{{"backend", "simulated"}, {"emulation", "all"}}}; }

  /// What one visit would measure.
  [[nodiscard]] std::vector<planner::Sample> measure(const profiler::ProfileCase& one, int round);

  /// What a run of a whole cut would measure: noise but no drift, which a paired race takes out.
  [[nodiscard]] double measure_cut_us(const planner::Cut& cut);

  /// Loss of a cut against the best of all legal cuts, relative to the best: exact, by enumeration.
  [[nodiscard]] double regret(const planner::Cut& cut) const;

 private:
  [[nodiscard]] double time_us(profiler::CaseTarget lane, std::int64_t rows) const;
  [[nodiscard]] double makespan_us(const planner::Cut& cut) const;
  [[nodiscard]] planner::Sample sample(profiler::CaseTarget lane, std::int64_t rows, planner::Context context,
                                       double us, int round);

  Draw draw_;
  planner::OpSpec op_;
  planner::PlanOptions options_;
  MadeUpLanes lanes_;
  planner::Slowdown slowdown_;   ///< compute, communication
  double noise_ = 0, drift_ = 0; ///< relative standard deviations
  int drift_round_ = -1;
  double drift_factor_ = 1;
  double best_us_ = 0;
};

} // namespace mc2::cli
