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

/// What a run of a prepared plan does.
enum class RunPart : std::uint8_t {
  Fused = 1,         ///< the plan
  Serial = 2,        ///< one lane after the other; asked of uncut plans only: what one has without mc2
  SerialCompute = 3, ///< what Serial multiplies, alone
  Compute = 4,       ///< the compute lane alone, local part included
  Communication = 5, ///< the communication lane alone
};

/// "fused", "serial", "serial_compute", "compute" or "communication".
[[nodiscard]] std::string_view to_string(RunPart part) noexcept;

/// Times a case once and returns its samples, the watched one first; never none.
using Measure = std::function<std::vector<planner::Sample>()>;

/// What a bench is of.
struct BenchFacts {
  planner::OpSpec op;
  planner::Fingerprint fingerprint;
  std::vector<planner::Variant> variants; ///< what is measured, best known default first; at least one
  /// Whether the variants multiply alike, so that their collectives tell them apart.
  bool variants_share_matmul = false;
};

/// One operator where it can be run and timed: all that tuning needs of the world. A backend, a framework's calls or
/// invented times may stand behind it; times are of the slowest rank. Where several processes run the operator
/// together, one of them tunes and its bench makes the others follow.
/// Threads: externally synchronised. Every function may throw SystemError where what it runs on fails.
class Bench {
 public:
  virtual ~Bench() = default;
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] const planner::OpSpec& op() const noexcept { return facts_.op; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept { return facts_.fingerprint; }
  [[nodiscard]] std::span<const planner::Variant> variants() const noexcept { return facts_.variants; }
  [[nodiscard]] bool variants_share_matmul() const noexcept { return facts_.variants_share_matmul; }
  /// Goes on with some of variants() only, at least one, and releases what was prepared for the others.
  void keep_variants(std::vector<planner::Variant> variants);

  /// Makes a plan of op() ready to run and returns its number; the same plan has the same number.
  /// Errors: what refuses the plan.
  [[nodiscard]] virtual Result<std::size_t> prepare(const planner::Plan& plan) = 0;
  /// Runs the plan and compares its result with what is right. Errors: Mismatch; as prepare.
  [[nodiscard]] virtual Result<void> verify(const planner::Plan& plan) = 0;
  /// Runs what has this number once and returns what a caller waits for, in us, above 0.
  [[nodiscard]] virtual double time_us(std::size_t prepared, RunPart part) = 0;
  /// What times one case of a variant: the cut axis in blocks of one length. Errors: as prepare.
  [[nodiscard]] virtual Result<Measure> prepare_case(const ProfileCase& one, const planner::Variant& variant) = 0;
  /// The bench's clock, which budgets are counted by.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point now() = 0;
  /// The day and time for people, ISO 8601 UTC; empty where nobody wants to know.
  [[nodiscard]] virtual std::string date() { return {}; }
  /// Plans of variants that no model knows, such as another library's fused operator; they race beside mc2's.
  /// Errors: end the tuning.
  [[nodiscard]] virtual Result<std::vector<planner::Plan>> rivals(const planner::CostModel& model);

 protected:
  explicit Bench(BenchFacts facts) : facts_(std::move(facts)) {}
  /// Frees what was prepared for a variant that is no longer measured.
  virtual void release(const planner::Variant& variant);

 private:
  BenchFacts facts_;
};

} // namespace mc2::profiler

#pragma GCC visibility pop
