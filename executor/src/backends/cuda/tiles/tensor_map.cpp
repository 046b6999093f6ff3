#include "backends/cuda/tiles/tensor_map.hpp"

#include <array>

#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/runtime/driver.hpp"
#include "backends/cuda/tiles/tile_shape.hpp"

namespace mc2::executor::cuda {

CUtensorMap tensor_map(const BoxedMatrix& matrix, bool is_half, std::optional<std::int64_t> matrix_count) {
  static const auto kEncode =
      reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(driver_function("cuTensorMapEncodeTiled"));
  const auto columns = static_cast<cuuint64_t>(matrix.columns), rows = static_cast<cuuint64_t>(matrix.rows);
  const std::array<cuuint64_t, 3> sizes{columns, rows, static_cast<cuuint64_t>(matrix_count.value_or(1))};
  const std::array<cuuint64_t, 2> pitch_bytes{columns * 2, rows * columns * 2};
  const std::array<cuuint32_t, 3> box{kBoxColumns, static_cast<cuuint32_t>(matrix.box_rows), 1};
  const std::array<cuuint32_t, 3> steps{1, 1, 1};
  CUtensorMap map;
  check(kEncode(&map, is_half ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                matrix_count ? 3 : 2, const_cast<std::byte*>(matrix.address), sizes.data(), pitch_bytes.data(),
                box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  return map;
}

} // namespace mc2::executor::cuda
