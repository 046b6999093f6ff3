#pragma once

#include <cstdint>
#include <span>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// An expert that a row chose.
struct Choice {
  std::int64_t expert = 0;
  float weight = 1; ///< factor of its product; 1 in kinds without weights
};

/// The error for an illegal choice: InvalidSpec naming row, choice and value.
/// @param place  its index among the choices of all rows: row * top_k + choice
[[nodiscard]] Error choice_fault(const planner::ChosenExperts& experts, std::int64_t place, const Choice& choice);

/// Reads the choices of a grouped matmul in memory of this process. A view: owns nothing.
class ChoiceReader {
 public:
  /// The arrays have the sizes that check_buffers() demands.
  ChoiceReader(const planner::OpSpec& op, const ExpertChoices& choices) noexcept;

  [[nodiscard]] std::int64_t top_k() const noexcept { return experts_.top_k; }
  /// @param place  index among the choices of all rows: row * top_k() + choice
  [[nodiscard]] Choice at(std::int64_t place) const noexcept;

  /// Whether the expert exists and the weight is finite.
  [[nodiscard]] bool is_legal(const Choice& choice) const noexcept;

 private:
  planner::ChosenExperts experts_;
  ExpertChoices choices_;
};

/// Checks all choices; succeeds for kinds without. `op` must be legal, check_buffers() must have passed, and the
/// buffers must be in memory of this process. Errors: InvalidSpec naming rank, row, choice and value.
[[nodiscard]] Result<void> check_choices(const planner::OpSpec& op, std::span<const int> ranks,
                                         std::span<const RankBuffers> buffers);

/// A digest of a rank's choices and weights, which does not depend on the integer type; 0 for kinds without choices.
[[nodiscard]] std::int64_t choice_digest(const planner::OpSpec& op, const RankBuffers& own);

/// Errors: InvalidSpec naming the first rank whose choices are not rank 0's.
[[nodiscard]] Result<void> check_choices_agree(std::span<const std::int64_t> digests);

} // namespace mc2::executor
