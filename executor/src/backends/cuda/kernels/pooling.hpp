#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {

/// One rank's embedding tables and bags in memory of its device. RankBuffers::b and EmbeddingBags describe the layout.
struct BagTables {
  const std::byte* rows = nullptr;
  const std::byte* offsets = nullptr;
  const std::byte* indices = nullptr;
  int index_bytes = 8; ///< bytes of an offset or a row number: 4 or 8
  planner::DType dtype = planner::DType::F32;
  bool is_mean = false;
  std::int64_t table_count = 0;
  std::int64_t row_count = 0; ///< rows of a table
  std::int64_t columns = 0;   ///< columns of a table
  std::int64_t sample_count = 0;
  std::int64_t index_count = 0;
  /// kBagFaultWords that the host sees, too: a BagFault, the bag's number, and the low and the high half of the row
  /// that it names. They describe the first illegal bag that was found. The features of all illegal bags become NaN.
  std::uint32_t* fault = nullptr;
};

inline constexpr std::size_t kBagFaultWords = 4;
/// What is wrong with a bag. BeingTold is written first and replaced once the other words are there.
enum class BagFault : std::uint32_t { None, Row, Offsets, BeingTold };

/// Pools samples [first_sample + s sample_stride, ... + row_count) of every shard s < shard_count into the rows of a
/// dense product [shard_count row_count, table_count columns].
struct PoolingRun {
  std::int64_t first_sample = 0;
  std::int64_t row_count = 0;
  int shard_count = 1;
  std::int64_t sample_stride = 0;
  std::byte* product = nullptr;
};

/// Enqueues the pooling by as many thread blocks as `sm_count` SMs hold; can be captured. Sums are taken in f32 in the
/// order of the bag, divided by its length for means, and rounded once. An empty bag gives zeros. Throws SystemError.
void enqueue_pooling(const BagTables& tables, const PoolingRun& run, int sm_count, cudaStream_t stream);

} // namespace mc2::executor::cuda
