#include "backends/cuda/kernels/pooling.hpp"

#include <algorithm>

#include "backends/cuda/kernels/kernels.cuh"
#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

constexpr int kPoolingThreads = 256;
// as many threads as an SM holds: only many loads at a time saturate its memory
constexpr int kBlocksPerSm = 2048 / kPoolingThreads;
constexpr int kResidentBlocks = 4; ///< with 64 registers a thread, these take all registers of an SM
constexpr int kWarp = 32;

/// The rows of one table that a bag names.
template <typename Index>
struct Bag {
  const Index* indices;
  std::int64_t length;
  bool is_legal;
};

template <typename Index>
__device__ Bag<Index> bag_at(const BagTables& tables, std::int64_t table, std::int64_t sample) {
  const Index* offsets = reinterpret_cast<const Index*>(tables.offsets) + table * tables.sample_count + sample;
  const std::int64_t first = offsets[0];
  const std::int64_t end = offsets[1];
  const std::int64_t number = table * tables.sample_count + sample;
  const bool is_legal = first >= 0 && first <= end && end <= tables.index_count && (number > 0 || first == 0) &&
                        (number + 1 < tables.table_count * tables.sample_count || end == tables.index_count);
  return {reinterpret_cast<const Index*>(tables.indices) + (is_legal ? first : 0), is_legal ? end - first : 0,
          is_legal};
}

/// Reports an illegal bag to the host. Of several threads only the first one does.
template <typename Index>
__device__ void tell(std::uint32_t* fault, std::int64_t number, const Bag<Index>& bag, std::int64_t row_count) {
  const auto none = static_cast<std::uint32_t>(BagFault::None);
  if (atomicCAS_system(fault, none, static_cast<std::uint32_t>(BagFault::BeingTold)) != none) return;
  std::int64_t row = 0;
#pragma unroll 1
  for (std::int64_t i = 0; i < bag.length; ++i) {
    row = bag.indices[i];
    if (row < 0 || row >= row_count) break;
  }
  volatile std::uint32_t* words = fault;
  words[1] = static_cast<std::uint32_t>(number);
  words[2] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(row));
  words[3] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(row) >> 32);
  __threadfence_system();
  words[0] = static_cast<std::uint32_t>(bag.is_legal ? BagFault::Row : BagFault::Offsets);
}

/// Adds up pack `place` of the rows. Returns whether the table has all these rows.
template <typename T, int kCount, typename Index>
__device__ bool add_rows(const Pack<T, kCount>* table, std::int64_t row_packs, std::int64_t row_count,
                         const Bag<Index>& bag, std::int64_t place, float* sum) {
  constexpr int kUnroll = 4;
  bool is_legal = true;
  for (std::int64_t i = 0; i < bag.length; i += kUnroll) {
    Pack<T, kCount> loaded[kUnroll];
    bool is_there[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t row = i + u < bag.length ? static_cast<std::int64_t>(bag.indices[i + u]) : 0;
      const bool is_of_table = row >= 0 && row < row_count;
      is_legal = is_legal && is_of_table;
      is_there[u] = is_of_table && i + u < bag.length;
      if (is_there[u]) loaded[u] = table[row * row_packs + place];
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (is_there[u]) loaded[u].add_to(sum);
    }
  }
  return is_legal;
}

/// `group` neighbouring threads pool a bag; `group` is a power of two. The tables are handled one after the other, so
/// that rows which several samples name are still in the cache.
template <typename T, int kCount, typename Index>
__global__ void __launch_bounds__(kPoolingThreads, kResidentBlocks)
    pool_kernel(const BagTables tables, const PoolingRun run, int group) {
  using P = Pack<T, kCount>;
  const std::int64_t samples = run.row_count * run.shard_count;
  const std::int64_t row_packs = tables.columns / kCount;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x / group;
  for (std::int64_t bag_place = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / group;
       bag_place < samples * tables.table_count; bag_place += step) {
    const std::int64_t table = bag_place / samples;
    const std::int64_t product_row = bag_place % samples;
    const std::int64_t sample =
        run.first_sample + product_row / run.row_count * run.sample_stride + product_row % run.row_count;
    const Bag<Index> bag = bag_at<Index>(tables, table, sample);
    const P* rows = packs<P>(tables.rows) + table * tables.row_count * row_packs;
    P* features = packs<P>(run.product) + (product_row * tables.table_count + table) * row_packs;
    for (std::int64_t place = threadIdx.x % group; place < row_packs; place += group) {
      float sum[kCount] = {};
      const bool is_legal =
          add_rows<T, kCount, Index>(rows, row_packs, tables.row_count, bag, place, sum) && bag.is_legal;
      if (!is_legal) tell(tables.fault, table * tables.sample_count + sample, bag, tables.row_count);
      const float divisor = tables.is_mean && bag.length > 0 ? static_cast<float>(bag.length) : 1.0F;
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum[i] = is_legal ? sum[i] / divisor : __int_as_float(0x7fffffff);
      features[place] = P::rounded(sum);
    }
  }
}

using PoolKernel = void (*)(BagTables, PoolingRun, int);

template <typename T>
PoolKernel pool_kernel_for(const BagTables& tables, bool is_vector) {
  constexpr int kCount = kVectorElements<T>;
  if (tables.index_bytes == 4)
    return is_vector ? pool_kernel<T, kCount, std::int32_t> : pool_kernel<T, 1, std::int32_t>;
  return is_vector ? pool_kernel<T, kCount, std::int64_t> : pool_kernel<T, 1, std::int64_t>;
}

bool is_aligned(const std::byte* address) { return reinterpret_cast<std::uintptr_t>(address) % kVectorBytes == 0; }

} // namespace

void enqueue_pooling(const BagTables& tables, const PoolingRun& run, int sm_count, cudaStream_t stream) {
  const std::int64_t element_bytes = planner::size_bytes(tables.dtype);
  const bool is_vector =
      tables.columns * element_bytes % kVectorBytes == 0 && is_aligned(tables.rows) && is_aligned(run.product);
  const std::int64_t row_packs = is_vector ? tables.columns * element_bytes / kVectorBytes : tables.columns;
  int group = 1;
  while (group < kWarp && group < row_packs) group *= 2;
  const PoolKernel kernel =
      of_float_type(tables.dtype, [&](auto element) { return pool_kernel_for<decltype(element)>(tables, is_vector); });
  const std::int64_t threads = run.row_count * run.shard_count * tables.table_count * group;
  const std::int64_t needed = (threads + kPoolingThreads - 1) / kPoolingThreads;
  const auto block_count = static_cast<unsigned>(std::min<std::int64_t>(needed, std::int64_t{kBlocksPerSm} * sm_count));
  if (block_count == 0) return;
  kernel<<<block_count, kPoolingThreads, 0, stream>>>(tables, run, group);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
