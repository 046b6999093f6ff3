// Host side of an Ascend C operator matmul + collective: a sketch of the code that fills its tiling. For the shape that
// mc2 planned, the numbers come from a header that `mc2 export PLAN --format ascendc --out tiling.h` wrote. Other
// shapes get one block.
//
// With CANN, the operator's tiling function calls fill_tiling() and hands the structure on to the kernel:
//
//   static ge::graphStatus TilingFunc(gert::TilingContext* context) {
//     Mc2TilingData tiling;  // by BEGIN_TILING_DATA_DEF, with the fields of Mc2Tiling below
//     const auto a = context->GetInputShape(0)->GetStorageShape();
//     const auto b = context->GetInputShape(1)->GetStorageShape();
//     const Shape shape{a.GetDim(0), b.GetDim(1), a.GetDim(1), rank_dim};
//     if (!fill_tiling(shape, tiling)) return ge::GRAPH_FAILED;
//     ...  // matmul_tiling::MultiCoreMatmulTiling for blocks of tileM and of tailM rows
//     return ge::GRAPH_SUCCESS;
//   }
//
// The kernel then loops: for each of tileNum blocks of tileM rows, then of tailNum blocks of tailM rows, it
// multiplies the block and starts its collective (Hccl::AllReduce and the like), so that a block is on its way while
// the next is multiplied.
#pragma once

#include <cstdint>

#include "tiling.h"

/// Fields that the exported header sets.
struct Mc2Tiling {
  std::uint32_t rankDim = 0, tileM = 0, tileNum = 0, tailM = 0, tailNum = 0;
  std::uint32_t rankM = 0, rankN = 0, rankK = 0, isTransposeA = 0, isTransposeB = 0, dataType = 0;
};

struct Shape {
  std::int64_t m, n, k; ///< A [m, k] of one rank, B [k, n]
  std::int64_t rank_count;
};

/// Whether the exported plan is for this shape. Its blocks were chosen for no other shape.
template <typename Tiling>
bool is_planned_for(const Shape& shape, const Tiling& planned) {
  return shape.m == planned.rankM && shape.n == planned.rankN && shape.k == planned.rankK &&
         shape.rank_count == planned.rankDim;
}

/// Returns false if a size is below 1 or does not fit the tiling's 32 bits.
template <typename Tiling>
bool fill_tiling(const Shape& shape, Tiling& tiling) {
  for (const std::int64_t size : {shape.m, shape.n, shape.k, shape.rank_count})
    if (size < 1 || size > UINT32_MAX) return false;
  set_mc2_tiling(tiling);
  if (is_planned_for(shape, tiling)) return true;
  tiling.rankDim = static_cast<std::uint32_t>(shape.rank_count);
  tiling.rankM = tiling.tileM = static_cast<std::uint32_t>(shape.m);
  tiling.rankN = static_cast<std::uint32_t>(shape.n);
  tiling.rankK = static_cast<std::uint32_t>(shape.k);
  tiling.tileNum = 1;
  tiling.tailM = tiling.tailNum = 0;
  return true;
}
