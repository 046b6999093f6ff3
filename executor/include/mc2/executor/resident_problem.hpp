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

/// A RandomProblem where a communicator's ranks can work on it: the host's matrices themselves where the communicator
/// uses host memory, otherwise a mirror of them in the ranks' own memory.
class ResidentProblem {
 public:
  /// The operator has as many ranks as the communicator, and all are local; the communicator outlives *this.
  /// Throws std::bad_alloc and SystemError when memory is short.
  ResidentProblem(const planner::OpSpec& op, std::uint64_t seed, Communicator& communicator,
                  const ProblemExtras& extras = {});

  /// To hand to prepare(). Valid as long as *this, also after a move.
  [[nodiscard]] std::span<const RankBuffers> buffers() const noexcept;
  /// A and B as the ranks see them; what runs write as fetch_results() left them.
  [[nodiscard]] const RandomProblem& host() const noexcept { return host_; }

  /// Fills all that runs write with the NaN poison, so that what a run leaves out is found.
  void poison();
  /// New numbers in every A, or new bags, and new choices.
  void refill_a(std::uint64_t seed);
  /// Brings all that runs write to host(). Nothing to do with host memory.
  void fetch_results();

 private:
  template <typename Visit>
  void visit_mirrors(OperandUse use, const Visit& visit);

  RandomProblem host_;
  /// By rank, then as visit_operands(); null where the operator has no such operand. None with host memory.
  std::vector<std::vector<std::unique_ptr<RankMemory>>> mirrors_;
  std::vector<RankBuffers> resident_; ///< views of mirrors_
};

} // namespace mc2::executor

#pragma GCC visibility pop
