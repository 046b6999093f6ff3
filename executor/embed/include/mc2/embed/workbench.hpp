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

/// What fills the matrices.
struct Workload {
  std::uint64_t seed = 0;
  std::vector<std::int64_t> counts; ///< rows from each rank to each, [ranks, ranks]; empty: equal splits

  // A seed alone is the usual workload.
  Workload(std::uint64_t seed_of_matrices,
           std::vector<std::int64_t> row_counts = {}) // NOLINT(google-explicit-constructor)
      : seed(seed_of_matrices), counts(std::move(row_counts)) {}
};

/// Plans of one operator on a communicator, ready to run on buffers that a derived class has.
class PreparedBench : public profiler::Bench {
 public:
  ~PreparedBench() override;

  /// Prepared once, kept. The plan is of op(). Errors: as executor::prepare, but for other fingerprints.
  [[nodiscard]] Result<executor::Prepared*> ready(const planner::Plan& plan);
  /// Blocks that nobody planned, on their overlapping schedule.
  [[nodiscard]] Result<executor::Prepared*> ready(const planner::Cut& cut, const planner::Variant& variant);
  [[nodiscard]] bool is_ready(const planner::Cut& cut, const planner::Variant& variant) const;
  /// Frees what was prepared; nothing to do when nothing was.
  void forget(const planner::Cut& cut, const planner::Variant& variant);

  [[nodiscard]] Result<std::size_t> prepare(const planner::Plan& plan) override;
  /// The caller's wait, wake-ups included.
  [[nodiscard]] double time_us(std::size_t prepared, profiler::RunPart part) override;
  [[nodiscard]] Result<profiler::Measure> prepare_case(const profiler::ProfileCase& one,
                                                       const planner::Variant& variant) override;
  [[nodiscard]] std::chrono::steady_clock::time_point now() override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] std::string date() override { return store::utc_now(); }

 protected:
  /// @param communicator  outlives the bench, and runs nothing else meanwhile
  PreparedBench(profiler::BenchFacts facts, executor::Communicator& communicator);
  /// Of this process's ranks; they stay where they are.
  [[nodiscard]] virtual std::span<const executor::RankBuffers> buffers() const = 0;
  void release(const planner::Variant& variant) override;
  /// Frees all that was prepared. For the destructor of a class that owns what plans run on.
  void clear() noexcept;

 private:
  struct CaseRun;
  struct Slot {
    planner::Variant variant;
    std::unique_ptr<executor::Prepared> prepared;
  };
  executor::Communicator& communicator_;
  std::map<std::string, std::size_t> numbers_; ///< by variant, cut and schedule
  std::vector<Slot> slots_;                    ///< by number; empty once released
  /// Between the blocks of a lane, by the variant's text: as it was last seen.
  std::map<std::pair<std::string, planner::Component>, double> hand_over_us_;
};

/// The facts of a bench of `op` on a communicator.
/// @param options   that the communicator was opened with
/// @param variants  what is measured; none: Backend::variants
/// Errors: InvalidSpec (op, or another number of ranks); as Backend::supports.
[[nodiscard]] Result<profiler::BenchFacts> bench_facts(const executor::Communicator& communicator,
                                                       const executor::Backend& backend,
                                                       const executor::CommunicatorOptions& options,
                                                       const planner::OpSpec& op,
                                                       std::vector<planner::Variant> variants = {});

/// Errors: Unsupported where other processes hold ranks of it, so that nobody here can fill and check their matrices.
[[nodiscard]] Result<void> check_holds_every_rank(const executor::Communicator& communicator);

/// One operator's random matrices on one communicator, with every plan that was asked for ready to run.
class Workbench final : public PreparedBench {
 public:
  /// On a communicator of its own. Errors: as bench_facts and Backend::open. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<Workbench>> open(const executor::Backend& backend,
                                                               const executor::CommunicatorOptions& options,
                                                               const planner::OpSpec& op, const Workload& workload,
                                                               std::vector<planner::Variant> variants = {});
  /// The same on an open communicator, which holds every rank.
  [[nodiscard]] static Result<std::unique_ptr<Workbench>> on(executor::Communicator& communicator,
                                                             const executor::Backend& backend,
                                                             const executor::CommunicatorOptions& options,
                                                             const planner::OpSpec& op, const Workload& workload,
                                                             std::vector<planner::Variant> variants = {});
  ~Workbench() override;

  /// The matrices as the ranks see them; C as the last check() found it.
  [[nodiscard]] std::span<const executor::RankBuffers> host_buffers() const noexcept {
    return problem_.host().buffers();
  }

  /// Renews A, poisons the outputs, runs the plan once and compares with the oracle; of virtual compute, what the
  /// collective did. Errors: Mismatch, and as ready.
  [[nodiscard]] Result<executor::Verification> check(const planner::Plan& plan);
  [[nodiscard]] Result<executor::Verification> check(const planner::Cut& cut, const planner::Variant& variant);
  [[nodiscard]] Result<void> verify(const planner::Plan& plan) override;

 private:
  Workbench(profiler::BenchFacts facts, executor::Communicator& communicator, bool is_virtual,
            const Workload& workload);
  [[nodiscard]] std::span<const executor::RankBuffers> buffers() const override { return problem_.buffers(); }

  std::unique_ptr<executor::Communicator> own_; ///< null on somebody else's
  bool is_virtual_; ///< virtual compute leaves the matmul out, so only the collective can be checked
  std::uint64_t seed_;
  executor::ResidentProblem problem_;
};

} // namespace mc2::embed

#pragma GCC visibility pop
