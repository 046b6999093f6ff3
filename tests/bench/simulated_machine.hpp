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

  /// The seed determines sizes, costs, slow-downs and noise of 1 to 5 %. One machine in three also drifts by 5 %
  /// between rounds.
  SimulatedMachine(Truth truth, std::uint64_t seed);

  [[nodiscard]] const planner::OpSpec& op() const noexcept { return op_; }
  [[nodiscard]] const planner::PlanOptions& options() const noexcept { return options_; }
  [[nodiscard]] planner::Fingerprint fingerprint() const { return {{{"backend", "simulated"}, {"emulation", "all"}}}; }

  /// The samples that one visit measures.
  [[nodiscard]] std::vector<planner::Sample> measure(const profiler::ProfileCase& one, int round);

  /// The time that a run of a whole cut measures, with noise but without drift, which a paired race removes.
  [[nodiscard]] double measure_cut_us(const planner::Cut& cut);

  /// Time of a cut / that of the best legal cut - 1. Exact, by enumeration.
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
