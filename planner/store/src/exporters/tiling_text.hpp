#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"

/// Reads tilings of Ascend C from C++ code that sets them.
namespace mc2::store {

/// The value of HcclDataType in HCCL's headers; none for types that the tiling does not know.
[[nodiscard]] std::optional<int> hccl_type_code(planner::DType dtype) noexcept;

/// Members of a tiling, with the last value each is set to: `tiling.tileM = 512;`, `set_tileM(512)`. Comments give the
/// values that code does not set; strings give none.
using TilingValues = std::map<std::string, std::int64_t, std::less<>>;

/// Errors: Malformed, naming the line, for code that sets a member other than dataType to anything but a whole number.
[[nodiscard]] Result<TilingValues> tiling_values(std::string_view text);

/// The operator of a tiling that was written by hand. The kind is the one that the text names.
/// Errors: Malformed, naming what the text lacks.
[[nodiscard]] Result<planner::OpSpec> tiling_operator(std::string_view text, const TilingValues& values);

/// The blocks that the values describe. @param unit  by how much tileM and tailM grow for each row of a block
/// Errors: Malformed for values that are missing, contradict each other or do not fit the operator.
[[nodiscard]] Result<planner::Cut> tiling_cut(const planner::OpSpec& op, const TilingValues& values, std::int64_t unit);

} // namespace mc2::store
