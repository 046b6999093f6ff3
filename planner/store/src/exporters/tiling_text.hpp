#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"

/// Tilings of Ascend C as C++ sets them, read by their values.
namespace mc2::store {

/// HcclDataType of HCCL's headers; nothing for types that the tiling does not know.
[[nodiscard]] std::optional<int> hccl_type_code(planner::DType dtype) noexcept;

/// Members and what they are set to, the last time they are: `tiling.tileM = 512;`, `set_tileM(512)`, also in comments.
using TilingValues = std::map<std::string, std::int64_t, std::less<>>;

/// Errors: Malformed, naming the line, for code that sets a member to something other than a whole number.
[[nodiscard]] Result<TilingValues> tiling_values(std::string_view text);

/// The operator of a tiling that somebody wrote by hand; its kind from the names in the text.
/// Errors: Malformed naming what the text must say.
[[nodiscard]] Result<planner::OpSpec> tiling_operator(std::string_view text, const TilingValues& values);

/// The blocks that the values say. @param unit  what tileM and tailM count for one row of a block
/// Errors: Malformed for values that are missing, contradict each other or do not fit the operator.
[[nodiscard]] Result<planner::Cut> tiling_cut(const planner::OpSpec& op, const TilingValues& values, std::int64_t unit);

} // namespace mc2::store
