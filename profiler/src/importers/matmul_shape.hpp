#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mc2::profiler {

struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t shards = 1; ///< that the whole product's rows are of those of A, or of the product's
};

/// What the shapes of a matmul row say: tensors between ';', sizes between ','. Leading dimensions of a product of
/// more than two are rows; either input may be transposed or, the second, in a tiled format that keeps its size.
/// Nothing when the shapes do not multiply.
[[nodiscard]] std::optional<MatmulShape> find_matmul_shape(std::string_view inputs, std::string_view outputs);

/// The same of a fused matmul and collective, whose A or product may be one rank's shard: rows of the whole product.
/// A is not transposed.
[[nodiscard]] std::optional<MatmulShape> find_fused_shape(std::string_view inputs, std::string_view outputs);

} // namespace mc2::profiler
