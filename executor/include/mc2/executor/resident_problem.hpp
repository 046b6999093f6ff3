#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

enum class OperandUse : std::uint8_t;

/// A RandomProblem in memory that a communicator's ranks can use: the RandomProblem's own matrices if the communicator
/// uses host memory, otherwise copies in the memory of the ranks' devices.
class ResidentProblem {
 public:
  /// The operator must have as many ranks as the communicator, all of them local. The communicator must outlive *this.
  /// Throws std::bad_alloc and SystemError when memory is short.
  ResidentProblem(const planner::OpSpec& op, std::uint64_t seed, Communicator& communicator,
                  const ProblemExtras& extras = {});

  /// The matrices for prepare(). Valid as long as *this, also after a move.
  [[nodiscard]] std::span<const RankBuffers> buffers() const noexcept;
  /// The matrices in this process's memory: the ranks' inputs, and the outputs as of the last fetch_results().
  [[nodiscard]] const RandomProblem& host() const noexcept { return host_; }

  /// Fills all outputs with the NaN poison, so that elements which a run does not write are found.
  void poison();
  /// Puts new random numbers into every A, and makes new bags and new expert choices.
  void refill_a(std::uint64_t seed);
  /// Copies all outputs to host(). Does nothing if the communicator uses host memory.
  void fetch_results();

 private:
  template <typename Visit>
  void visit_mirrors(OperandUse use, const Visit& visit);

  RandomProblem host_;
  /// By rank, then in the order of visit_operands(); null where the rank has no such operand. Empty with host memory.
  std::vector<std::vector<std::unique_ptr<RankMemory>>> mirrors_;
  std::vector<RankBuffers> resident_; ///< views of mirrors_
};

} // namespace mc2::executor

#pragma GCC visibility pop
