#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/profile_case.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// The part of a prepared plan that a run executes.
enum class RunPart : std::uint8_t {
  Fused = 1,         ///< the plan
  Serial = 2,        ///< one lane after the other, as without mc2; callers ask for it only with uncut plans
  SerialCompute = 3, ///< the matmul of Serial alone
  Compute = 4,       ///< the compute lane alone, local part included
  Communication = 5, ///< the communication lane alone
};

/// "fused", "serial", "serial_compute", "compute" or "communication".
[[nodiscard]] std::string_view to_string(RunPart part) noexcept;

/// Times a case once and returns its samples, at least one. The stopping rule watches the first.
using Measure = std::function<std::vector<planner::Sample>()>;

/// The sample of a case whose block took `block_us` on the lane of `component`. A clock may give a tiny block 0, but a
/// sample's time is at least 1 ns.
[[nodiscard]] planner::Sample sample_of(const planner::OpSpec& op, const ProfileCase& one,
                                        const planner::Variant& variant, planner::Component component, double block_us);

/// The operator, the machine and the variants of a bench.
struct BenchFacts {
  planner::OpSpec op;
  planner::Fingerprint fingerprint;
  std::vector<planner::Variant> variants; ///< variants to measure, best known default first; at least one
  /// Whether all variants run the same matmul, so that they differ only in their collectives.
  bool variants_share_matmul = false;
};

/// Runs and times one operator: all that tuning needs of the world. An implementation may use a backend, a framework's
/// calls or invented times. A time is that of the slowest rank. Where several processes run the operator together, one
/// of them tunes and its bench makes the others follow.
/// Threads: externally synchronised. Every function may throw SystemError when the device or library below it fails.
class Bench {
 public:
  virtual ~Bench() = default;
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] const planner::OpSpec& op() const noexcept { return facts_.op; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept { return facts_.fingerprint; }
  [[nodiscard]] std::span<const planner::Variant> variants() const noexcept { return facts_.variants; }
  [[nodiscard]] bool variants_share_matmul() const noexcept { return facts_.variants_share_matmul; }
  /// Keeps only these of variants(), at least one, and releases what was prepared for the others.
  void keep_variants(std::vector<planner::Variant> variants);

  /// Makes a plan of op() ready to run and returns its number. An equal plan gets the same number again.
  /// Errors: the reason why the plan cannot run here.
  [[nodiscard]] virtual Result<std::size_t> prepare(const planner::Plan& plan) = 0;
  /// Runs the plan and compares its result with the correct one. Errors: Mismatch when they differ; as prepare.
  [[nodiscard]] virtual Result<void> verify(const planner::Plan& plan) = 0;
  /// Runs the plan with this number once and returns how long a caller waits for it, in us, above 0.
  [[nodiscard]] virtual double time_us(std::size_t prepared, RunPart part) = 0;
  /// Returns the function that times one case of a variant: the cut axis in blocks of one length. Errors: as prepare.
  [[nodiscard]] virtual Result<Measure> prepare_case(const ProfileCase& one, const planner::Variant& variant) = 0;
  /// The bench's clock. Budgets are measured with it.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point now() = 0;
  /// The date and time for people, ISO 8601 UTC; empty where none is recorded.
  [[nodiscard]] virtual std::string date() { return {}; }
  /// Plans of variants that no model knows, such as another library's fused operator. They race beside mc2's plans.
  /// Errors: any error ends the tuning.
  [[nodiscard]] virtual Result<std::vector<planner::Plan>> rivals(const planner::CostModel& model);

 protected:
  explicit Bench(BenchFacts facts) : facts_(std::move(facts)) {}
  /// Frees what was prepared for a variant that keep_variants() drops.
  virtual void release(const planner::Variant& variant);

 private:
  BenchFacts facts_;
};

} // namespace mc2::profiler

#pragma GCC visibility pop
