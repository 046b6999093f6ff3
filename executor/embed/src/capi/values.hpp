#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "capi/call.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/planner.hpp"

namespace mc2::capi {

/// Memory of the caller's; leaves the call for NULL that is said to have bytes.
template <typename Byte, typename Address>
std::span<Byte> bytes_at(Address* address, std::size_t byte_count, const char* field) {
  if (address == nullptr && byte_count > 0)
    fail(MC2_ERROR_INVALID_SPEC, field, "is NULL, but said to have " + std::to_string(byte_count) + " bytes");
  return {static_cast<Byte*>(address), byte_count};
}

/// Leaves the call for an operator that is not legal.
[[nodiscard]] planner::OpSpec read_op(const mc2_op_spec* op);
[[nodiscard]] mc2_op_spec write_op(const planner::OpSpec& op);

/// Leaves the call for a number that names no type.
[[nodiscard]] planner::DType read_dtype(std::int32_t dtype, const char* field);

/// As mc2_operands(). The header is left to the caller.
[[nodiscard]] mc2_operand_sizes operand_sizes(const planner::OpSpec& op);

/// A backend and how a communicator is opened on it.
struct Machinery {
  const executor::Backend& backend;
  executor::CommunicatorOptions options;
};

/// Leaves the call for options that are not legal, and for a backend that is not available here.
[[nodiscard]] Machinery read_machinery(const mc2_communicator_options* options);

/// What a caller says of a plan, over what fits the machine.
[[nodiscard]] planner::PlanOptions read_plan_options(const mc2_plan_options* options,
                                                     const planner::Fingerprint& machine);

/// A document that the caller hands over.
[[nodiscard]] std::string_view read_document(const char* json, std::size_t length);

/// The text, for the caller.
void hand_out_text(std::string_view text, const char** to, std::size_t* length);

} // namespace mc2::capi
