#pragma once

#include <cstdint>
#include <span>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// One choice of a row.
struct Choice {
  std::int64_t expert = 0;
  float weight = 1; ///< what its product counts times; 1 where the kind weights nothing
};

/// What is wrong with one that is illegal: InvalidSpec naming row, choice and value.
/// @param place  among those of all rows: row * top_k + choice
[[nodiscard]] Error choice_fault(const planner::ChosenExperts& experts, std::int64_t place, const Choice& choice);

/// What the rows of a grouped matmul chose, in memory of this process. A view, never owned.
class ChoiceReader {
 public:
  /// The arrays have the sizes that check_buffers() demands.
  ChoiceReader(const planner::OpSpec& op, const ExpertChoices& choices) noexcept;

  [[nodiscard]] std::int64_t top_k() const noexcept { return experts_.top_k; }
  /// @param place  among those of all rows: row * top_k() + choice
  [[nodiscard]] Choice at(std::int64_t place) const noexcept;

  /// Whether there is such an expert, and the weight is a finite number.
  [[nodiscard]] bool is_legal(const Choice& choice) const noexcept;

 private:
  planner::ChosenExperts experts_;
  ExpertChoices choices_;
};

/// Errors: InvalidSpec naming rank, row, choice and value. `op` is legal, check_buffers() has passed, the memory is
/// this process's. Nothing to check for kinds whose rows choose nothing.
[[nodiscard]] Result<void> check_choices(const planner::OpSpec& op, std::span<const int> ranks,
                                         std::span<const RankBuffers> buffers);

/// Equal for equal choices and weights, whatever the numbers' type; 0 for kinds whose rows choose nothing.
[[nodiscard]] std::int64_t choice_digest(const planner::OpSpec& op, const RankBuffers& own);

/// Errors: InvalidSpec naming the first rank whose choices are not rank 0's.
[[nodiscard]] Result<void> check_choices_agree(std::span<const std::int64_t> digests);

} // namespace mc2::executor
