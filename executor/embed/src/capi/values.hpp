#pragma once

#include <algorithm>
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

/// A view of the caller's memory. Leaves the call for NULL with a byte_count above 0.
template <typename Byte, typename Address>
std::span<Byte> bytes_at(Address* address, std::size_t byte_count, const char* field) {
  if (address == nullptr && byte_count > 0)
    fail(MC2_ERROR_INVALID_SPEC, field, "is NULL, but said to have " + std::to_string(byte_count) + " bytes");
  return {static_cast<Byte*>(address), byte_count};
}

/// Reads an operator. Leaves the call if it is not legal.
[[nodiscard]] planner::OpSpec read_op(const mc2_op_spec* op);
[[nodiscard]] mc2_op_spec write_op(const planner::OpSpec& op);

/// Reads an element type. Leaves the call for a number that names none.
[[nodiscard]] planner::DType read_dtype(std::int32_t dtype, const char* field);
/// As above for types that are summed. Also gives F8E4m3, which the collectives refuse with the reason.
[[nodiscard]] planner::DType read_summed_dtype(std::int32_t dtype, const char* field);

/// The sizes that mc2_operands() tells. `size` and `version` of the result are not set.
[[nodiscard]] mc2_operand_sizes operand_sizes(const planner::OpSpec& op);

/// A backend, and the options to open a communicator on it.
struct Machinery {
  const executor::Backend& backend;
  executor::CommunicatorOptions options;
};

/// Reads the options of a communicator. Leaves the call if they are not legal or the backend is not available here.
[[nodiscard]] Machinery read_machinery(const mc2_communicator_options* options);

/// Reads plan options: the machine's defaults, replaced by what the caller gives. Leaves the call for illegal ones.
/// @param name  the caller's argument, which errors name
[[nodiscard]] planner::PlanOptions read_plan_options(const mc2_plan_options* options,
                                                     const planner::Fingerprint& machine, const char* name = "options");

/// A view of the caller's document. Leaves the call for NULL.
[[nodiscard]] std::string_view read_document(const char* json, std::size_t length);

/// Writes the text's address and length to the caller's outputs. `length` may be NULL.
void hand_out_text(std::string_view text, const char** to, std::size_t* length);

/// Writes the first `capacity` values to `to`, and the number of all to `count`; nothing if an output is missing. `to`
/// may be NULL without a capacity. @param name  of the argument `to`, for errors
template <typename Values, typename T>
void hand_out_list(const Values& values, T* to, std::size_t capacity, std::size_t* count, const char* name) {
  std::size_t& all = given(count, "count");
  if (capacity > 0) std::copy_n(values.begin(), std::min(capacity, values.size()), &given(to, name));
  all = values.size();
}

} // namespace mc2::capi
