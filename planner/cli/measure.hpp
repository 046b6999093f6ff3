#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/active_sweep.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/profiler/sweep.hpp"

namespace mc2::cli {

/// One operator's random matrices on one communicator, with every cut that was asked for ready to run.
class Workbench {
 public:
  /// Errors: Unsupported, InvalidSpec. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<Workbench>> open(const executor::Backend& backend,
                                                               const executor::CommunicatorOptions& options,
                                                               const planner::OpSpec& op, std::uint64_t seed);

  [[nodiscard]] const planner::OpSpec& op() const noexcept { return op_; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept { return communicator_->fingerprint(); }
  [[nodiscard]] const planner::Variant& default_variant() const noexcept { return variant_; }

  /// Prepared once, kept. Errors: as Communicator::prepare.
  [[nodiscard]] Result<executor::Prepared*> prepare(const planner::Cut& cut, const planner::Variant& variant);

  /// Poisons the outputs, runs the cut once and compares with the oracle. Errors: Mismatch, and as prepare.
  [[nodiscard]] Result<executor::Verification> verify(const planner::Cut& cut, const planner::Variant& variant);

 private:
  Workbench(const planner::OpSpec& op, std::unique_ptr<executor::Communicator> communicator,
            planner::Variant variant, bool is_virtual, std::uint64_t seed);

  planner::OpSpec op_;
  std::unique_ptr<executor::Communicator> communicator_;
  planner::Variant variant_;
  bool is_virtual_; ///< virtual compute leaves the matmul out, so only the sum of partial products can be checked
  std::uint64_t seed_;
  executor::RandomProblem problem_;
  std::map<std::string, std::unique_ptr<executor::Prepared>> prepared_;
};

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

/// What times one case of the default variant. Errors: as Workbench::prepare.
[[nodiscard]] Result<profiler::SweepCase> make_sweep_case(Workbench& bench, const profiler::ActiveCase& one);

/// Times both lanes alone and together over a sweep of block lengths, or over those that `settings.active` chooses;
/// each round of the latter is told on standard error. Samples go to `store` after every round, and earlier ones of the
/// same operator and machine count.
/// Errors: as Workbench, run_sweep and run_active_sweep; Cancelled keeps what was measured.
[[nodiscard]] Result<profiler::SweepSummary> profile_operator(Workbench& bench, const ProfileSettings& settings,
                                                              store::Store& store);

/// A cut that races, and its times.
struct Contender {
  planner::Cut cut;
  planner::Variant variant;
  std::vector<double> fused_us;
  std::vector<double> serial_us; ///< of the run next to each fused one
};

struct RaceSettings {
  int min_rounds = 11;
  int max_rounds = 61;
  double relative_half_width = 0.01; ///< of every contender's fused/serial interval
  std::chrono::milliseconds budget{60'000};
};

/// Everything that one race measured; entry i of every vector was taken within moments of the others.
struct Race {
  std::vector<Contender> contenders;
  std::vector<double> compute_us;       ///< uncut matmul alone
  std::vector<double> communication_us; ///< uncut collective alone

  [[nodiscard]] planner::Validation validation(const Contender& contender) const;
  /// Median over rounds of (serial - fused) / (serial - max(compute, communication)) with its 95 % interval.
  [[nodiscard]] profiler::Interval overlap_efficiency(const Contender& contender) const;
};

/// Runs every contender next to an uncut run, in rounds of alternating order, with the uncut parts alone in between.
/// Errors: as Workbench::prepare; Cancelled. Throws SystemError.
[[nodiscard]] Result<Race> race(Workbench& bench, const std::vector<planner::Plan>& plans,
                                const RaceSettings& settings, const std::string& label);

/// The prediction for a contender by `model` anchored at the uncut parts as this race measured them.
[[nodiscard]] Result<planner::Plan> anchored_prediction(const Race& race, const Contender& contender,
                                                        const planner::OpSpec& op, const planner::CostModel& model);

[[nodiscard]] double to_us(std::chrono::nanoseconds time) noexcept;

/// Not empty.
[[nodiscard]] double median(const std::vector<double>& values);

} // namespace mc2::cli
