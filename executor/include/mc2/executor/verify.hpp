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

#pragma GCC visibility push(default)

namespace mc2::executor {

/// What a random problem has beyond its operator.
struct ProblemExtras {
  /// RankBuffers::send_counts of all ranks, one rank after the other; empty: equal splits
  std::span<const std::int64_t> counts = {};
  bool wants_gathered_a = false; ///< kinds that gather A: every rank has the output gathered_a
};

/// Owned matrices of every rank, filled with reproducible random numbers in [-1, 1) that the operator's type represents
/// exactly. i8 matrices hold integers from the whole range of the type; the scales of i8 and f8e4m3 are about 1/128.
/// Where all ranks get the same result, they have the same bias and residual. Views into it stay valid when it is
/// moved.
class RandomProblem {
 public:
  /// The same seed and operator give the same matrices on every machine. `op` must be legal. Throws std::bad_alloc when
  /// memory is short.
  RandomProblem(const planner::OpSpec& op, std::uint64_t seed, const ProblemExtras& extras = {});
  RandomProblem(const RandomProblem&) = delete;
  RandomProblem& operator=(const RandomProblem&) = delete;
  RandomProblem(RandomProblem&&) noexcept = default;
  RandomProblem& operator=(RandomProblem&&) noexcept = default;
  ~RandomProblem() = default;

  /// One per rank, shaped as operand_shapes() says, each matrix aligned to 64 bytes. The outputs are filled with a NaN
  /// poison. Bags have 64-bit numbers and name 0 to 2 k rows each, k on average.
  [[nodiscard]] std::span<const RankBuffers> buffers() const noexcept { return views_; }
  /// Fills all outputs with the NaN poison again.
  void poison();
  /// Puts new random numbers into every A and makes new bags and new expert choices, as a host program has them in
  /// every step. B does not change, because a backend may have packed it.
  void refill_a(std::uint64_t seed);

 private:
  std::span<std::byte> add_bytes(std::int64_t byte_count);
  [[nodiscard]] EmbeddingBags add_bags();
  [[nodiscard]] ExpertChoices add_choices(std::size_t rank);
  void add_counts(std::span<const std::int64_t> counts);
  std::span<std::byte> add_matrix(const MatrixShape& shape, planner::DType dtype);
  void add_epilogue(const OperandShapes& shapes, std::uint64_t seed, std::size_t rank);
  void add_scales(const OperandShapes& shapes, std::uint64_t seed, std::size_t rank);

  planner::OpSpec op_;
  std::vector<std::vector<std::byte>> storage_; ///< each with room to align the matrix to a cache line
  std::vector<std::span<std::byte>> a_;         ///< by rank: the writable view of views_[rank].a
  struct Bags {
    std::span<std::int64_t> offsets, indices;
  };
  std::span<std::int64_t> chosen_;      ///< the writable views of every rank's choices; empty without experts
  std::span<std::byte> choice_weights_; ///< empty for kinds without weights
  std::vector<Bags> bags_;              ///< by rank: the writable views of views_[rank].bags; empty without tables
  std::vector<std::int64_t> send_counts_, receive_counts_; ///< of all ranks; empty with equal splits
  std::vector<RankBuffers> views_;
};

/// The findings of a check.
struct Verification {
  double worst_error_ratio = 0;     ///< largest |result - oracle| / allowed error; <= 1 passes
  std::int64_t element_count = 0;   ///< elements checked to be written and finite, all ranks
  std::int64_t exact_row_count = 0; ///< rows compared element by element with the oracle
  std::string text;                 ///< one sentence for people
};

/// Compares every rank's outputs with an oracle in double precision:
/// - every element of C is written and finite;
/// - where the kind gives all ranks the same result, the ranks' C are equal to the bit;
/// - sampled rows are compared element by element: all rows of a small problem, else those at the edges of blocks in
///   every shard and a few random ones;
/// - every row is compared through a random projection x of +-1: C x with the sum of A (B x).
/// A wrong element passes only if its row is not sampled and its error is below the row's allowed projected error,
/// about sqrt(n) times the allowed error of one element. The allowed error of an element is
///   allowed(i, j) = 4 u32 (sqrt(k) + T) sum_t |a_ti| |b_tj| + 1.01 u ((T - 1) sum_t |p_tij| + |c_ij|)
/// T is the number of ranks where the collective sums, else 1 (in grouped matmuls that sum, ranks times top_k replaces
/// T in the first term, and ranks replaces T - 1), u32 = 2^-24, u the unit roundoff of the type (second term only for
/// types shorter than f32), |a_ti| and |b_tj| the 2-norms of a row of A and a column of B, p the products; i8 elements
/// are multiplied by their scales. A bias or residual x adds 4 u32 |x|. matmul_all_to_all with a residual rounds once
/// more: 1.01 u |p + bias|. If the bytes of a row of A or of C are not a multiple of 16, the product may be rounded
/// before each addition: 1.01 u (|p| + |p + residual|). The first term is the probabilistic bound of Higham and Mary,
/// "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41 (2019), with the Cauchy-Schwarz
/// inequality; docs/cost_model.md §7. The second term allows for the rounding of each product or partial sum, and of
/// the result, to the type.
///
/// embedding_all_to_all: every element is compared with its bag. The allowed error is (L + 1) u32 sum_l |x_lj| / d +
/// 1.01 u |c_ij|, with x_l the L rows that the bag names, and d = L for means, else 1.
///
/// A gathered A must equal all ranks' A to the bit. All normalised rows are compared with the norm of the rows of C:
///   allowed(i, j) = (4 u32 (sqrt(n) + 4) + 1.01 u) |normed_ij|
/// In f16 each of these roundings may add half the smallest number, 2^-25.
/// Uses several threads; the answer depends on the arguments only. `buffers` must fit `op`, one per rank, in memory of
/// this process. Errors: Mismatch naming rank, row and column of the worst element.
[[nodiscard]] Result<Verification> verify_result(const planner::OpSpec& op, std::span<const RankBuffers> buffers,
                                                 const planner::Cut& cut, std::uint64_t seed);

/// Checks the collective alone, for virtual compute, which leaves out the matmul. `intermediates` is
/// Prepared::intermediates(), and `cut` the cut that ran.
/// - Kinds that sum: every element of every rank's C is compared with the double-precision sum of the R ranks' partial
///   products, and all ranks are equal to the bit where they get the same result.
///     allowed(i, j) = ((R + 2) u32 + u) sum_r |p_rij|, u as above
/// - matmul_all_to_all, embedding_all_to_all: every row of C equals its sender's row of the product to the bit.
/// - Kinds that communicate first: every row that arrived equals the row of its sender's A to the bit.
/// Errors: Mismatch naming rank, row and column.
[[nodiscard]] Result<Verification> verify_exchange(const planner::OpSpec& op,
                                                   std::span<const std::span<const std::byte>> intermediates,
                                                   std::span<const RankBuffers> buffers, const planner::Cut& cut);

} // namespace mc2::executor

#pragma GCC visibility pop
