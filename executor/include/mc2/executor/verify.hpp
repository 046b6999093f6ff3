#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"

namespace mc2::executor {

/// Matrices of every local rank, owned, filled with reproducible random numbers in [-1, 1) that the operator's type
/// represents exactly. Views into it stay valid when it is moved.
class RandomProblem {
 public:
  /// Same seed and operator, same matrices, on every machine. Throws std::bad_alloc when memory is short.
  /// `op` is legal and of a type that a backend supports (F32, Bf16): ask Backend::supports first.
  RandomProblem(const planner::OpSpec& op, std::uint64_t seed);
  RandomProblem(const RandomProblem&) = delete;
  RandomProblem& operator=(const RandomProblem&) = delete;
  RandomProblem(RandomProblem&&) noexcept = default;
  RandomProblem& operator=(RandomProblem&&) noexcept = default;
  ~RandomProblem() = default;

  /// One per rank; C is filled with a NaN poison first.
  [[nodiscard]] std::span<const RankBuffers> buffers() const noexcept { return views_; }
  /// Fills every C with the NaN poison again.
  void poison() noexcept;
  /// New numbers in every A, as a host program has in every step; B stays, because it is packed once.
  void refill_a(std::uint64_t seed) noexcept;

 private:
  std::span<std::byte> add_matrix(std::int64_t element_count);

  planner::OpSpec op_;
  std::vector<std::vector<std::byte>> storage_; ///< each with room to align the matrix to a cache line
  std::vector<std::span<std::byte>> a_;         ///< by rank: the writable view of views_[rank].a
  std::vector<RankBuffers> views_;
};

/// What a check found.
struct Verification {
  double worst_error_ratio = 0;     ///< largest |result - oracle| / allowed error; <= 1 passes
  std::int64_t element_count = 0;   ///< elements of C checked to be written and finite, all ranks
  std::int64_t exact_row_count = 0; ///< rows compared element by element with the oracle
  std::string text;                 ///< one sentence for people
};

/// Compares every rank's C with an oracle in double precision: every element written and finite; all ranks equal to
/// the bit; sampled rows (all of them in small problems, always those around block edges) element by element; every
/// row through a random projection x of +-1: C x against the sum over ranks of A (B x). A wrong element passes only
/// if it is in an unsampled row and wrong by less than that row's allowed projected error, about sqrt(n) times the
/// allowed error of one element.
///   allowed(i, j) = 4 u32 (sqrt(k) + R) sum_r |a_ri| |b_rj| + 1.01 u (sum_r |p_rij| + |c_ij|)
/// with u32 = 2^-24, u the type's own unit roundoff (the second term only for types shorter than f32), |a_ri| and
/// |b_rj| the 2-norms of a row of A and a column of B, p the partial products. First term: the probabilistic bound of
/// Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41 (2019), with
/// the Cauchy-Schwarz inequality; docs/cost_model.md §7.
/// Errors: Mismatch naming rank, row and column of the worst element; Unsupported for f16. `buffers` fit `op`.
[[nodiscard]] planner::Result<Verification> verify_matmul_all_reduce(const planner::OpSpec& op,
                                                                     std::span<const RankBuffers> buffers,
                                                                     const planner::Cut& cut, std::uint64_t seed);

/// Compares every element of every rank's C with the sum of the partial products in double precision, and all ranks
/// with each other to the bit: what can be checked when virtual compute leaves the matmul out.
///   allowed(i, j) = (R u32 + u) sum_r |p_rij|, u as above
/// Errors: Mismatch naming rank, row and column; Unsupported for f16. @param partials from Prepared::partials()
[[nodiscard]] planner::Result<Verification> verify_sum_of_partials(
    const planner::OpSpec& op, std::span<const std::span<const std::byte>> partials,
    std::span<const RankBuffers> buffers);

} // namespace mc2::executor
