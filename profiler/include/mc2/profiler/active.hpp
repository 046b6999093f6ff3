#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// What one measurement times: a lane alone, or both at once (which gives both slow-downs).
enum class ActiveTarget : std::uint8_t { Matmul = 1, Collective = 2, BothLanes = 3 };

/// One possible measurement: the whole cut axis in blocks of `block_rows`.
struct ActiveCase {
  ActiveTarget target = ActiveTarget::Matmul;
  std::int64_t block_rows = 0;

  /// "compute 256 rows", "both lanes 256 columns".
  [[nodiscard]] std::string text(planner::CutAxis axis) const;
  auto operator<=>(const ActiveCase&) const = default;
};

/// What is to be decided, and how sure one wants to be.
struct ActiveQuestion {
  planner::OpSpec op;
  planner::PlanOptions plan;
  std::string variant;                ///< Variant::text() whose samples count; profiled one variant at a time
  std::int64_t sweep_alignment = 128; ///< shortest block worth timing, as for sweep_block_rows
  double tolerated_regret = 0.005;    ///< stop when less is expected to be lost, relative to the makespan
  /// Cases of one later round, all of one lane: as many as estimate_drift needs to tell drift from size.
  int round_case_count = 4;
  int draw_count = 192; ///< posterior draws that regret is averaged over
  std::uint64_t seed = 1;
  std::optional<planner::Cut> incumbent; ///< the plan that would be used now; default: the posterior's own

  /// Errors: InvalidSpec naming the field: op, plan, alignment >= 1, regret >= 0 and finite, cases 1..64,
  /// draws 16..4096, an incumbent that does not sum to the cut axis.
  [[nodiscard]] Result<void> validate() const;
};

enum class ActiveStop : std::uint8_t { NotYet = 1, RegretTolerated = 2, NothingToDecide = 3, NothingToLearn = 4 };

/// What to do next and why.
struct ActiveAdvice {
  std::vector<ActiveCase> cases; ///< of the next round; empty: stop
  ActiveStop stop = ActiveStop::NotYet;
  bool is_design = false;     ///< the sizes that any fit needs, measured before anything can be judged
  double makespan_us = 0;     ///< expected, of the incumbent; 0 before the design is measured
  double regret_us = 0;       ///< expected loss of the incumbent against the best plan, if nothing more is measured
  double regret_after_us = 0; ///< expected once `cases` are measured
  planner::Cut best;  ///< shortest expected makespan of the plans considered; empty before the design is measured
  std::string reason; ///< one sentence
};

/// The measurement that most reduces the expected regret of the plan, or the reason to stop. Pure: the same question
/// and samples give the same advice; `seed` moves the draws. Bounded: at most 96 plans, 192 sizes and 96 observations
/// per lane enter, whatever the sizes of the operator and of the profile.
///
///   belief   per lane t(x) = (a + b x)(1 + d(x)), a and b vague, d a Gaussian process over log x with a smooth and a
///            rough part; observations t e^(noise + round). The scales of d, noise and round are not known: each
///            combination of a grid counts by its marginal likelihood.
///   regret   mean over posterior draws of makespan(incumbent) - min over plans of makespan.
///   value    knowledge gradient for correlated beliefs (Frazier, Powell and Dayanik, INFORMS J. Comput. 21, 2009), the
///            plans' makespans regressed on the measured time (Jalal and Alarid-Escudero, Med. Decis. Making 38, 2018).
///            Where no single measurement changes the choice, the one that most narrows the makespans' differences.
///   design   the first round: the axis uncut, about a quarter and about a sixteenth of it on each lane (three sizes
///   are
///            what a fit needs), and both lanes together at about a quarter.
/// Later rounds time `round_case_count` sizes of the lane with the most valuable measurement, each chosen given the
/// ones before it; a pair for the slow-downs is timed together with its two lanes alone.
/// A sample counts when it is of the variant, no outlier, and of positive size and time.
/// docs/cost_model.md §11. Errors: InvalidSpec.
[[nodiscard]] Result<ActiveAdvice> advise(const ActiveQuestion& question, std::span<const planner::Sample> samples);

/// Number of timed visits among the samples: one per lane alone, one per pair of lanes together.
[[nodiscard]] int measurement_count(std::span<const planner::Sample> samples, const std::string& variant);

} // namespace mc2::profiler

#pragma GCC visibility pop
