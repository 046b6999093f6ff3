#pragma once

#include <cstdint>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor {

/// How an operand changes from run to run.
enum class OperandUse : std::uint8_t {
  Kept,    ///< does not change
  Renewed, ///< the caller may put in other numbers
  Written, ///< every run writes it
};

/// Calls `visit(span, name, use)` for all operands of a rank, also for empty ones, always in this order.
/// `Buffers` is RankBuffers or const RankBuffers.
template <typename Buffers, typename Visit>
void visit_operands(Buffers& own, const Visit& visit) {
  visit(own.a, "A", OperandUse::Renewed);
  visit(own.b, "B", OperandUse::Kept);
  visit(own.c, "C", OperandUse::Written);
  visit(own.bias, "bias", OperandUse::Kept);
  visit(own.residual, "residual", OperandUse::Kept);
  visit(own.a_scales, "scales of A", OperandUse::Kept);
  visit(own.b_scales, "scales of B", OperandUse::Kept);
  visit(own.bags.offsets, "bags' offsets", OperandUse::Renewed);
  visit(own.bags.indices, "bags' indices", OperandUse::Renewed);
  visit(own.choices.experts, "chosen experts", OperandUse::Renewed);
  visit(own.choices.weights, "weights of the choices", OperandUse::Renewed);
  visit(own.gathered_a, "gathered A", OperandUse::Written);
  visit(own.norm_weight, "weight of the norm", OperandUse::Kept);
  visit(own.normed, "normed", OperandUse::Written);
}

/// Calls `visit(span, name)` as above until a call fails. Errors: as that call's.
template <typename Buffers, typename Visit>
Result<void> try_operands(Buffers& own, const Visit& visit) {
  Result<void> result;
  visit_operands(own, [&](auto& operand, const char* name, OperandUse) {
    if (result) result = visit(operand, name);
  });
  return result;
}

} // namespace mc2::executor
