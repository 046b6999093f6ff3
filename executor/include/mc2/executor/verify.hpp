#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// Matrices of every local rank, owned, filled with reproducible random numbers in [-1, 1).
class RandomProblem {
 public:
  /// Same seed and operator, same matrices, on every machine. Throws std::bad_alloc when memory is short.
  RandomProblem(const planner::OpSpec& op, std::uint64_t seed);

  /// One per rank; C is filled with a NaN poison first.
  [[nodiscard]] std::span<const RankBuffers> buffers() const noexcept { return views_; }
  /// Fills every C with the NaN poison again.
  void poison();

 private:
  planner::OpSpec op_;
  std::vector<std::vector<std::byte>> storage_;
  std::vector<RankBuffers> views_;
};

/// What a check found.
struct Verification {
  double worst_error_ratio = 0; ///< largest |result - oracle| / allowed error; <= 1 passes
  std::int64_t element_count = 0; ///< elements of C checked to be written and finite, all ranks
  std::int64_t exact_row_count = 0; ///< rows compared element by element with the oracle
  std::string text;             ///< one sentence for people
};

/// Compares every rank's C with an oracle in double precision: every element written and finite; all ranks equal to
/// the bit; sampled rows (all of them in small problems, always those around block edges) element by element; every
/// row through a random projection, C x against sum over ranks of A (B x), which no wrong element survives.
/// The allowed error is the rounding bound of the sums in the operator's type, docs/cost_model.md §7.
/// Errors: Mismatch naming rank, row and column of the worst element.
[[nodiscard]] planner::Result<Verification> verify_matmul_all_reduce(const planner::OpSpec& op,
                                                                     std::span<const RankBuffers> buffers,
                                                                     const planner::Cut& cut, std::uint64_t seed);

} // namespace mc2::executor
