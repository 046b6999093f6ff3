#include "mc2/planner/op_spec.hpp"

#include <array>
#include <utility>

namespace mc2::planner {
namespace {

Error size_error(const char* field, std::int64_t value) {
  return {ErrorCode::InvalidSpec, field,
          "is " + std::to_string(value) + "; legal: 1 to " + std::to_string(kMaxSize)};
}

} // namespace

Result<void> OpSpec::validate() const {
  const std::array sizes{std::pair{"m", m}, std::pair{"n", n}, std::pair{"k", k}};
  for (const auto& [field, value] : sizes)
    if (value < 1 || value > kMaxSize) return size_error(field, value);
  if (world_size < 2 || world_size > kMaxWorldSize)
    return Error{ErrorCode::InvalidSpec, "ranks",
                 "is " + std::to_string(world_size) + "; legal: 2 to " + std::to_string(kMaxWorldSize)};
  if (traits_of(kind).has_row_shards && m % world_size != 0)
    return Error{ErrorCode::InvalidSpec, "m",
                 "is " + std::to_string(m) + "; " + std::string(to_string(kind)) +
                     " divides the rows equally among the ranks, so m must be a multiple of the " +
                     std::to_string(world_size) + " ranks, e.g. " +
                     std::to_string(ceil_div(m, world_size) * world_size)};
  // Each size is at most 1e9, so a product of two fits in 64 bits.
  const std::array operands{std::pair{"A [m, k]", m * k}, std::pair{"B [k, n]", k * n},
                            std::pair{"the product [m, n]", m * n}};
  for (const auto& [name, count] : operands)
    if (count > kMaxOperandBytes / size_bytes(dtype))
      return Error{ErrorCode::InvalidSpec, "m, n, k",
                   std::string(name) + " would take more than 64 TiB; make the sizes smaller"};
  return {};
}

double OpSpec::flop_count() const noexcept {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

std::string OpSpec::text() const {
  return std::string(to_string(kind)) + " m=" + std::to_string(m) + " n=" + std::to_string(n) +
         " k=" + std::to_string(k) + " " + std::string(to_string(dtype)) + " x" + std::to_string(world_size);
}

std::string_view to_string(Lane lane) noexcept { return lane == Lane::Compute ? "compute" : "communication"; }

} // namespace mc2::planner
