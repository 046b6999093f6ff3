#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mc2::profiler {

struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t shards = 1; ///< m / the rows of one rank's A or product, whichever has fewer
};

/// The shape of a matmul row. Its texts separate tensors by ';' and sizes by ','. All dimensions of the product but the
/// last count as rows. Either input may be transposed; the second may be in a tiled format, whose lengths are rounded
/// up to whole tiles. Nothing when the shapes do not multiply.
[[nodiscard]] std::optional<MatmulShape> find_matmul_shape(std::string_view inputs, std::string_view outputs);

enum class SizeFault : std::uint8_t { None, Zero, TooLarge };
/// Whether one of the sizes is 0, or above planner::kMaxSize.
[[nodiscard]] SizeFault size_fault_of(std::string_view shapes);

/// The shape of a fused matmul and collective, in the same form. Its A or product may be one rank's shard; m counts the
/// rows of the whole product. A is not transposed.
[[nodiscard]] std::optional<MatmulShape> find_fused_shape(std::string_view inputs, std::string_view outputs);

} // namespace mc2::profiler
