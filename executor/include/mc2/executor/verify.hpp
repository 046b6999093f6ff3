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

/// What a problem may have beyond its operator.
struct ProblemExtras {
  /// what every rank sends, RankBuffers::send_counts one below the other; empty: equal splits
  std::span<const std::int64_t> counts = {};
  bool wants_gathered_a = false; ///< of kinds that gather A
};

/// Matrices of every local rank, owned, filled with reproducible random numbers in [-1, 1) that the operator's type
/// represents exactly; i8 with integers from its whole range, i8 and f8e4m3 with scales about 1/128. Bias and residual
/// are the same on all ranks where the results are. Views into it stay valid when it is moved.
class RandomProblem {
 public:
  /// Same seed and operator, same matrices, on every machine. Throws std::bad_alloc when memory is short.
  /// `op` is legal.
  RandomProblem(const planner::OpSpec& op, std::uint64_t seed, const ProblemExtras& extras = {});
  RandomProblem(const RandomProblem&) = delete;
  RandomProblem& operator=(const RandomProblem&) = delete;
  RandomProblem(RandomProblem&&) noexcept = default;
  RandomProblem& operator=(RandomProblem&&) noexcept = default;
  ~RandomProblem() = default;

  /// One per rank, shaped as operand_shapes() says, each matrix aligned to 64 bytes; C and the gathered A are
  /// filled with a NaN poison first. Bags have 64-bit numbers and name k rows on average, 0 to 2 k each.
  [[nodiscard]] std::span<const RankBuffers> buffers() const noexcept { return views_; }
  /// Fills every C, and every gathered A, with the NaN poison again.
  void poison();
  /// New numbers in every A, or new bags, and new choices, as a host program has in every step; B stays, because it is
  /// packed once.
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
  std::span<std::byte> choice_weights_; ///< empty where nothing is weighted
  std::vector<Bags> bags_;              ///< by rank: the writable views of views_[rank].bags; none without tables
  std::vector<std::int64_t> send_counts_, receive_counts_; ///< of all ranks; empty with equal splits
  std::vector<RankBuffers> views_;
};

/// What a check found.
struct Verification {
  double worst_error_ratio = 0;     ///< largest |result - oracle| / allowed error; <= 1 passes
  std::int64_t element_count = 0;   ///< elements checked to be written and finite, all ranks
  std::int64_t exact_row_count = 0; ///< rows compared element by element with the oracle
  std::string text;                 ///< one sentence for people
};

/// Compares every rank's C with an oracle in double precision: every element written and finite; all ranks equal to
/// the bit where the kind gives all the same result; sampled rows (all of them in small problems, always those around
/// block edges, in every shard) element by element; every row through a random projection x of +-1: C x against the
/// sum of A (B x). A wrong element passes only if it is in an unsampled row and wrong by less than that row's allowed
/// projected error, about sqrt(n) times the allowed error of one element.
///   allowed(i, j) = 4 u32 (sqrt(k) + T) sum_t |a_ti| |b_tj| + 1.01 u ((T - 1) sum_t |p_tij| + |c_ij|)
/// with T the number of products in a row of C (the ranks where the collective sums, else 1), u32 = 2^-24, u the
/// type's own unit roundoff (the second term only for types shorter than f32), |a_ti| and |b_tj| the 2-norms of a row
/// of A and a column of B, p the products; i8 elements count with their scales. Bias and residual x add 4 u32 |x|,
/// and matmul_all_to_all with a residual rounds once more, 1.01 u |p + bias|. Products whose rows are no whole number
/// of 16 bytes may be rounded before each addition, 1.01 u (|p| + |p + residual|). First term: the probabilistic bound
/// of Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41 (2019), with
/// the Cauchy-Schwarz inequality; docs/cost_model.md §7. Second term: each product or partial sum, and the result,
/// are rounded to the type. embedding_all_to_all: every element against its bag, allowed (L + 1) u32 sum_l |x_lj| / d
/// + 1.01 u |c_ij| with x_l the L rows that the bag names and d = L for means, else 1. A gathered A, where there is
/// one, must be all ranks' A to the bit. Rows that are normalised are compared with those of C, all of them:
///   allowed(i, j) = (4 u32 (sqrt(n) + 4) + 1.01 u) |normed_ij|
/// In f16 each of these roundings may change half the smallest number, 2^-25, more.
/// Uses the machine's threads; the answer depends on the arguments only. Errors: Mismatch naming rank, row and column
/// of the worst element. `buffers` fit `op`, one per rank, in memory of this process.
[[nodiscard]] Result<Verification> verify_result(const planner::OpSpec& op, std::span<const RankBuffers> buffers,
                                                 const planner::Cut& cut, std::uint64_t seed);

/// What can be checked when virtual compute leaves the matmul out: that the collective did its work on
/// `intermediates` (Prepared::intermediates()). Kinds that sum: every element of every rank's C against the
/// sum of the partial products in double precision, all ranks equal to the bit where they get the same result.
///   allowed(i, j) = (R u32 + u) sum_r |p_rij|, u as above
/// matmul_all_to_all, embedding_all_to_all: every row of C equal to the bit to its senders' rows of the product.
/// Kinds that communicate first: every row that arrived equal to the bit to its sender's A. Errors: Mismatch naming
/// rank, row and column. `cut` is the one that ran.
[[nodiscard]] Result<Verification> verify_exchange(const planner::OpSpec& op,
                                                   std::span<const std::span<const std::byte>> intermediates,
                                                   std::span<const RankBuffers> buffers, const planner::Cut& cut);

} // namespace mc2::executor

#pragma GCC visibility pop
