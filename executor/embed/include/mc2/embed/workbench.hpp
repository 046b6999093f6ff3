#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mc2/executor/backend.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/executor/resident_problem.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/profiler/bench.hpp"
#include "mc2/store/dates.hpp"

#pragma GCC visibility push(default)

namespace mc2::embed {

/// How the matrices are filled and split.
struct Workload {
  std::uint64_t seed = 0;
  std::vector<std::int64_t> counts; ///< rows from each rank to each rank, [ranks, ranks]; empty: equal splits

  // Not explicit: most callers give a seed alone.
  Workload(std::uint64_t seed_of_matrices,
           std::vector<std::int64_t> row_counts = {}) // NOLINT(google-explicit-constructor)
      : seed(seed_of_matrices), counts(std::move(row_counts)) {}
};

/// What tells the runs of one operator apart: plans with the same key run alike, whatever they predict.
[[nodiscard]] std::string key_of(const planner::Variant& variant, const planner::Cut& cut, planner::Schedule schedule);

/// Prepared plans of one operator on a communicator. A derived class owns the buffers that they run on.
class PreparedBench : public profiler::Bench {
 public:
  ~PreparedBench() override;

  /// The prepared plan; the first call prepares it, later calls return the same. Errors: InvalidSpec for a plan of
  /// another operator than op(); as executor::prepare, which here accepts plans of other machines.
  [[nodiscard]] Result<executor::Prepared*> ready(const planner::Plan& plan);
  /// As above for a cut that no planner made, with planner::overlapping_schedule().
  [[nodiscard]] Result<executor::Prepared*> ready(const planner::Cut& cut, const planner::Variant& variant);
  [[nodiscard]] bool is_ready(const planner::Cut& cut, const planner::Variant& variant) const;
  /// Frees the prepared cut; does nothing if the cut was not prepared.
  void forget(const planner::Cut& cut, const planner::Variant& variant);

  [[nodiscard]] Result<std::size_t> prepare(const planner::Plan& plan) override;
  /// How long the caller waits for the run, wake-ups of the lanes included.
  [[nodiscard]] double time_us(std::size_t prepared, profiler::RunPart part) override;
  [[nodiscard]] Result<profiler::Measure> prepare_case(const profiler::ProfileCase& one,
                                                       const planner::Variant& variant) override;
  [[nodiscard]] std::chrono::steady_clock::time_point now() override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] std::string date() override { return store::utc_now(); }

 protected:
  /// @param communicator  must outlive the bench; nothing else may run on it meanwhile
  PreparedBench(profiler::BenchFacts facts, executor::Communicator& communicator);
  /// The buffers of this process's ranks, always at the same addresses.
  [[nodiscard]] virtual std::span<const executor::RankBuffers> buffers() const = 0;
  void release(const planner::Variant& variant) override;
  /// Frees all prepared plans. The destructor of a class that owns the buffers or the communicator calls it.
  void clear() noexcept;

 private:
  struct CaseRun;
  struct Slot {
    planner::Variant variant;
    std::unique_ptr<executor::Prepared> prepared;
  };
  executor::Communicator& communicator_;
  std::map<std::string, std::size_t> numbers_; ///< numbers of prepared plans, by variant, cut and schedule
  std::vector<Slot> slots_;                    ///< by number; `prepared` is null once released
  /// The gap between two blocks of a lane as it was last measured, by the variant's text and the lane.
  std::map<std::pair<std::string, planner::Component>, double> hand_over_us_;
};

/// The facts of a bench that runs `op` on a communicator.
/// @param options   the options that the communicator was opened with
/// @param variants  the variants to measure; empty: Backend::variants
/// Errors: InvalidSpec (op, or another number of ranks); as Backend::takes.
[[nodiscard]] Result<profiler::BenchFacts> bench_facts(const executor::Communicator& communicator,
                                                       const executor::Backend& backend,
                                                       const executor::CommunicatorOptions& options,
                                                       const planner::OpSpec& op,
                                                       std::vector<planner::Variant> variants = {});

/// Errors: Unsupported if other processes hold ranks of the communicator, whose matrices this process can neither fill
/// nor check.
[[nodiscard]] Result<void> check_holds_every_rank(const executor::Communicator& communicator);

/// Puts new numbers into A, poisons the outputs, runs a prepared plan of `cut` once and compares the result with the
/// oracle.
/// @param seed        of the numbers; another than in the last run, whose results could else pass for this run's
/// @param is_virtual  with virtual compute, which leaves out the matmul, only the collective is checked
/// Errors: Mismatch.
[[nodiscard]] Result<executor::Verification> check_run(const planner::OpSpec& op, executor::ResidentProblem& problem,
                                                       executor::Prepared& prepared, const planner::Cut& cut,
                                                       std::uint64_t seed, bool is_virtual);

/// A bench with random matrices of one operator on one communicator. profiler::tune() on it may take longer than its
/// budget: a round of every block length and six to nine pairs of every contender are always run, and making and
/// checking the operands does not count. TuneHooks::is_cancelled is the way to a deadline.
class Workbench final : public PreparedBench {
 public:
  /// Opens a communicator of its own. Errors: as on() and Backend::open. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<Workbench>> open(const executor::Backend& backend,
                                                               const executor::CommunicatorOptions& options,
                                                               const planner::OpSpec& op, const Workload& workload,
                                                               std::vector<planner::Variant> variants = {});
  /// Uses an open communicator. Errors: as Backend::supports, bench_facts and check_holds_every_rank.
  [[nodiscard]] static Result<std::unique_ptr<Workbench>> on(executor::Communicator& communicator,
                                                             const executor::Backend& backend,
                                                             const executor::CommunicatorOptions& options,
                                                             const planner::OpSpec& op, const Workload& workload,
                                                             std::vector<planner::Variant> variants = {});
  ~Workbench() override;

  /// The matrices in this process's memory, with the outputs as of the last check().
  [[nodiscard]] std::span<const executor::RankBuffers> host_buffers() const noexcept {
    return problem_.host().buffers();
  }

  /// check_run() of a plan. Errors: Mismatch, and as ready().
  [[nodiscard]] Result<executor::Verification> check(const planner::Plan& plan);
  [[nodiscard]] Result<void> verify(const planner::Plan& plan) override;

 private:
  Workbench(profiler::BenchFacts facts, executor::Communicator& communicator, bool is_virtual,
            const Workload& workload);
  [[nodiscard]] std::span<const executor::RankBuffers> buffers() const override { return problem_.buffers(); }

  std::unique_ptr<executor::Communicator> own_; ///< null if the caller owns the communicator
  bool is_virtual_;
  std::uint64_t seed_;
  executor::ResidentProblem problem_;
};

} // namespace mc2::embed

#pragma GCC visibility pop
