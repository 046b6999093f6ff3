#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "context.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/executor/resident_problem.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/plan.hpp"
#include "variant_option.hpp"

namespace mc2::cli {

/// What fills the matrices.
struct Workload {
  std::uint64_t seed = 0;
  std::vector<std::int64_t> counts; ///< rows from each rank to each, [ranks, ranks]; empty: equal splits

  // A seed alone is the usual workload.
  Workload(std::uint64_t seed_of_matrices,
           std::vector<std::int64_t> row_counts = {}) // NOLINT(google-explicit-constructor)
      : seed(seed_of_matrices), counts(std::move(row_counts)) {}
};

/// One operator's random matrices on one communicator, with every cut that was asked for ready to run.
class Workbench {
 public:
  /// @param only  what is measured: any variant without --variant
  /// Errors: Unsupported, InvalidSpec; as VariantOption::choose. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<Workbench>> open(const executor::Backend& backend,
                                                               const executor::CommunicatorOptions& options,
                                                               const planner::OpSpec& op, const Workload& workload,
                                                               const VariantOption& only = {});

  [[nodiscard]] const planner::OpSpec& op() const noexcept { return op_; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept { return communicator_->fingerprint(); }
  /// What is measured, at least one, best known default first.
  [[nodiscard]] std::span<const planner::Variant> variants() const noexcept { return variants_; }
  /// Goes on with some of variants() only, at least one, and frees what was prepared for the others.
  void keep_variants(std::vector<planner::Variant> variants);
  /// As Backend::variants_share_matmul.
  [[nodiscard]] bool variants_share_matmul() const noexcept { return variants_share_matmul_; }
  [[nodiscard]] const planner::Variant& default_variant() const noexcept { return variants_.front(); }

  /// The matrices as the ranks see them; C as the last verify() found it.
  [[nodiscard]] std::span<const executor::RankBuffers> host_buffers() const noexcept {
    return problem_.host().buffers();
  }

  /// Prepared once, kept. The plan is of op(). Errors: as executor::prepare, but for other fingerprints.
  [[nodiscard]] Result<executor::Prepared*> prepare(const planner::Plan& plan);
  /// Blocks that nobody planned, on their overlapping schedule.
  [[nodiscard]] Result<executor::Prepared*> prepare(const planner::Cut& cut, const planner::Variant& variant);
  [[nodiscard]] bool is_prepared(const planner::Cut& cut, const planner::Variant& variant) const;
  /// Frees what was prepared; nothing to do when nothing was.
  void release(const planner::Cut& cut, const planner::Variant& variant);

  /// Runs once and returns what the caller waits for, wake-ups included: the same for every contender of a race.
  /// As Prepared::run.
  [[nodiscard]] double timed_us(executor::Prepared& prepared, executor::RunMode mode);
  /// All that timed_us() returned.
  [[nodiscard]] double total_timed_us() const noexcept { return total_timed_us_; }

  /// Renews A, poisons the outputs, runs the plan once and compares with the oracle. Errors: Mismatch, and as prepare.
  [[nodiscard]] Result<executor::Verification> verify(const planner::Plan& plan);
  [[nodiscard]] Result<executor::Verification> verify(const planner::Cut& cut, const planner::Variant& variant);

 private:
  Workbench(const planner::OpSpec& op, std::unique_ptr<executor::Communicator> communicator,
            std::vector<planner::Variant> variants, const Workload& workload);

  planner::OpSpec op_;
  std::unique_ptr<executor::Communicator> communicator_;
  std::vector<planner::Variant> variants_;
  bool is_virtual_ = false; ///< virtual compute leaves the matmul out, so only the collective can be checked
  bool variants_share_matmul_ = false;
  std::uint64_t seed_;
  executor::ResidentProblem problem_;
  double total_timed_us_ = 0;
  std::map<std::string, std::unique_ptr<executor::Prepared>> prepared_; ///< by variant, cut and schedule
};

} // namespace mc2::cli
