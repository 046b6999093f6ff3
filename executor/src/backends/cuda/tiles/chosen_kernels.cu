#include "backends/cuda/tiles/chosen_kernels.hpp"

#include <cooperative_groups.h>

#include <algorithm>

#include "backends/cuda/kernels/kernels.cuh"
#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/tiles/tile_lists.cuh"

// A grouped matmul for tokens that choose experts, in four kernels. One sorts the choices by expert, one gathers rows
// of A in that order, and one multiplies them (grouped_kernel.cu). Where products are not added up, that kernel puts
// them back in the order of the tokens. Where they are, the fourth kernel finds each token's products and adds them up.
namespace mc2::executor::cuda {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr int kSortThreads = 1024;
constexpr int kSortBlocks = 8; ///< thread blocks of a list, which form a cluster

/// The counts of a list, in shared memory of each of its thread blocks. Illegal choices count as those of one more
/// expert behind the last.
struct ExpertCounts {
  std::int32_t own[kMaxSortedExperts + 1];        ///< rows that this thread block has counted
  std::int32_t next[kMaxSortedExperts + 1];       ///< rows of the blocks before; then the place of the block's next row
  std::int32_t first_rows[kMaxSortedExperts + 1]; ///< where an expert's rows begin
  std::int32_t first_tiles[kMaxSortedExperts + 1]; ///< where an expert's tiles begin
};

__device__ std::int64_t expert_at(const DeviceChoices& choices, std::int64_t place) {
  return choices.index_bytes == 4 ? std::int64_t{reinterpret_cast<const std::int32_t*>(choices.experts)[place]}
                                  : reinterpret_cast<const std::int64_t*>(choices.experts)[place];
}

/// Reports an illegal choice to the host. Of several threads only the first one does.
__device__ void tell(const DeviceChoices& choices, std::int64_t place, std::int64_t expert, float weight) {
  const auto none = static_cast<std::uint32_t>(ChoiceFault::None);
  if (atomicCAS_system(choices.fault, none, static_cast<std::uint32_t>(ChoiceFault::BeingTold)) != none) return;
  volatile std::uint32_t* words = choices.fault;
  words[1] = static_cast<std::uint32_t>(place);
  words[2] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(place) >> 32U);
  words[3] = static_cast<std::uint32_t>(expert);
  words[4] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(expert) >> 32U);
  words[5] = __float_as_uint(weight);
  __threadfence_system();
  words[0] = static_cast<std::uint32_t>(ChoiceFault::Illegal);
}

/// The expert, or the one behind the last for an illegal choice, which is reported.
__device__ int checked(const DeviceChoices& choices, std::int64_t place, std::int64_t expert) {
  const float weight = choices.weights == nullptr ? 1.0F : choices.weights[place];
  if (expert >= 0 && expert < choices.expert_count && isfinite(weight)) return static_cast<int>(expert);
  tell(choices, place, expert, weight);
  return choices.expert_count;
}

/// Calls `work(expert, run, choice of the run)` for every choice of the list that this thread block handles.
template <typename Work>
__device__ void for_each_choice(const DeviceChoices& choices, const ChosenTokens& tokens, const Work& work) {
  constexpr int kUnroll = 8; // loads in flight
  for (int r = 0; r < tokens.run_count; ++r) {
    const TokenRun& run = tokens.runs[r];
    const std::int64_t first = std::int64_t{run.first_token} * tokens.top_k;
    const std::int32_t count = run.token_count * tokens.top_k;
    constexpr std::int32_t kAtOnce = kSortThreads * kUnroll;
    const auto block = static_cast<std::int32_t>(blockIdx.x % kSortBlocks);
    for (std::int32_t base = block * kAtOnce; base < count; base += kSortBlocks * kAtOnce) {
      std::int64_t experts[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const std::int32_t choice = base + u * kSortThreads + static_cast<std::int32_t>(threadIdx.x);
        if (choice < count) experts[u] = expert_at(choices, first + choice);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const std::int32_t choice = base + u * kSortThreads + static_cast<std::int32_t>(threadIdx.x);
        if (choice < count) work(checked(choices, first + choice, experts[u]), run, choice);
      }
    }
  }
}

/// The sum of `own` over this thread and the threads before it in the warp.
__device__ std::int32_t sum_until(std::int32_t own) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const std::int32_t before = __shfl_up_sync(kAllLanes, own, distance);
    if (static_cast<int>(threadIdx.x % kWarp) >= distance) own += before;
  }
  return own;
}

/// Adds up the counts of all thread blocks of the list, and those of the blocks before this one. One thread per expert.
__device__ void add_up_counts(ExpertCounts& counts, int expert_count) {
  const auto cluster = cooperative_groups::this_cluster();
  for (int expert = static_cast<int>(threadIdx.x); expert <= expert_count; expert += kSortThreads) {
    std::int32_t before = 0, all = 0;
#pragma unroll
    for (unsigned block = 0; block < kSortBlocks; ++block) {
      const std::int32_t count = *cluster.map_shared_rank(counts.own + expert, block);
      if (block < cluster.block_rank()) before += count;
      all += count;
    }
    counts.next[expert] = before;
    counts.first_rows[expert] = all;
  }
}

/// Turns the number of rows of each expert into the places where its rows and tiles begin. Called by one warp.
__device__ void find_firsts(ExpertCounts& counts, const SortedChoices& list, int expert_count) {
  std::int32_t rows_before = 0, tiles_before = 0;
  for (int first = 0; first <= expert_count; first += kWarp) {
    const int expert = first + static_cast<int>(threadIdx.x);
    const std::int32_t rows = expert <= expert_count ? counts.first_rows[expert] : 0;
    const std::int32_t tiles =
        expert < expert_count ? static_cast<std::int32_t>(row_tiles_of(rows)) * list.column_tiles : 0;
    const std::int32_t rows_until = rows_before + sum_until(rows), tiles_until = tiles_before + sum_until(tiles);
    if (expert <= expert_count) {
      counts.first_rows[expert] = rows_until - rows;
      counts.next[expert] += rows_until - rows;
      counts.first_tiles[expert] = tiles_until - tiles;
    }
    rows_before = __shfl_sync(kAllLanes, rows_until, kWarp - 1);
    tiles_before = __shfl_sync(kAllLanes, tiles_until, kWarp - 1);
  }
}

/// Lists the tiles. Called by all thread blocks of the list.
__device__ void list_tiles(const ExpertCounts& counts, const SortedChoices& list, int expert_count) {
  const std::int32_t tile_count = counts.first_tiles[expert_count]; // illegal choices come last and have none
  const auto place = static_cast<int>(blockIdx.x % kSortBlocks * kSortThreads + threadIdx.x);
  if (place == 0) {
    *list.row_count = counts.first_rows[expert_count];
    *list.tile_count = tile_count;
  }
  for (int number = place; number < tile_count; number += kSortBlocks * kSortThreads) {
    const int expert = place_of(counts.first_tiles, expert_count, number);
    const std::int64_t row = counts.first_rows[expert];
    list.tiles[number] = tile_of({row, row, counts.first_rows[expert + 1] - row}, expert,
                                 number - counts.first_tiles[expert], list.tile_columns);
  }
}

__device__ void list_row(const SortedChoices& list, const TokenRun& run, std::int32_t choice, std::int32_t row) {
  const std::int32_t top_k = list.tokens.top_k, c_row = run.c_token * top_k + choice;
  // Choices that change meanwhile give wrong results, but no write beyond the list.
  if (row >= list.tokens.token_count * top_k) return;
  list.rows[row] = {list.tokens.is_wide ? run.a_token * top_k + choice : run.a_token + choice / top_k, c_row};
  if (list.places != nullptr) list.places[c_row] = row;
}

/// Sorts the choices; one cluster for each list.
__global__ void __cluster_dims__(kSortBlocks) __launch_bounds__(kSortThreads)
    sort_choices_kernel(const DeviceChoices choices, const ChoiceLists lists) {
  __shared__ ExpertCounts counts;
  const auto cluster = cooperative_groups::this_cluster();
  const SortedChoices& list = lists.first[blockIdx.x / kSortBlocks];
  const int expert_count = choices.expert_count, thread = static_cast<int>(threadIdx.x);
  for (int expert = thread; expert <= expert_count; expert += kSortThreads) counts.own[expert] = 0;
  __syncthreads();
  for_each_choice(choices, list.tokens, [&](int expert, const TokenRun& /*run*/, std::int32_t /*choice*/) {
    (void)atomicAdd(counts.own + expert, 1);
  });
  cluster.sync();
  add_up_counts(counts, expert_count);
  __syncthreads();
  if (thread < kWarp) find_firsts(counts, list, expert_count);
  __syncthreads();
  list_tiles(counts, list, expert_count);
  for_each_choice(choices, list.tokens, [&](int expert, const TokenRun& run, std::int32_t choice) {
    list_row(list, run, choice, atomicAdd(counts.next + expert, 1));
  });
  cluster.sync(); // other blocks may still be reading this block's counts
}

__global__ void __launch_bounds__(kThreads) gather_rows_kernel(const GatheredRows run) {
  constexpr int kUnroll = 4;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / kWarp;
  const std::int64_t vectors = run.a_row_bytes / kVectorBytes, product_vectors = run.product_row_bytes / kVectorBytes;
  const std::int32_t row_count = *run.row_count;
  for (std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp; row < run.most_rows;
       row += warps) {
    const ChosenRow chosen = run.rows[row];
    if (row >= row_count) {
      auto* const product =
          packs<uint4>(run.products) + (run.keeps_order ? row : std::int64_t{chosen.c_row}) * product_vectors;
      for (std::int64_t i = lane; i < product_vectors; i += kWarp)
        product[i] = {kAllLanes, kAllLanes, kAllLanes, kAllLanes}; // NaN in f16 and in bf16
      continue;
    }
    const uint4* const from = packs<uint4>(run.a) + chosen.a_row * vectors;
    uint4* const to = packs<uint4>(run.gathered) + row * vectors;
    for (std::int64_t first = lane; first < vectors; first += kWarp * kUnroll) {
      uint4 loaded[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        if (first + u * kWarp < vectors) loaded[u] = from[first + u * kWarp];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        if (first + u * kWarp < vectors) to[first + u * kWarp] = loaded[u];
    }
  }
}

/// The weights of the token at row `row` of the sums.
__device__ const float* weights_of(const WeightedSums& run, std::int64_t row) {
  int r = 0;
  for (; r + 1 < run.tokens.run_count && row >= run.tokens.runs[r].token_count; ++r)
    row -= run.tokens.runs[r].token_count;
  return run.weights + (run.tokens.runs[r].first_token + row) * run.tokens.top_k;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) weighted_sums_kernel(const WeightedSums run) {
  constexpr int kCount = kVectorBytes / static_cast<int>(sizeof(T));
  constexpr int kUnroll = 4;
  using P = Pack<T, kCount>;
  const std::int64_t row_packs = run.columns / kCount, step = std::int64_t{gridDim.x} * blockDim.x;
  const int top_k = run.tokens.top_k;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < run.tokens.token_count * row_packs;
       i += step) {
    const std::int64_t row = i / row_packs, place = i % row_packs;
    const float* const weights = weights_of(run, row);
    const P* const products = packs<P>(run.products) + place;
    const std::int32_t* const places = run.places + row * top_k;
    float sum[kCount] = {};
    for (int first = 0; first < top_k; first += kUnroll) {
      P loaded[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        if (first + u < top_k) loaded[u] = products[places[first + u] * row_packs];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (first + u >= top_k) break;
        float product[kCount] = {};
        loaded[u].add_to(product);
#pragma unroll
        for (int j = 0; j < kCount; ++j) sum[j] += weights[first + u] * product[j];
      }
    }
    packs<P>(run.sums)[i] = P::rounded(sum);
  }
}

/// As many thread blocks as have work, but no more than the SMs hold.
unsigned block_count(std::int64_t threads, int sm_count) {
  constexpr std::int64_t kBlocksPerSm = 2048 / kThreads;
  return static_cast<unsigned>(std::min((threads + kThreads - 1) / kThreads, kBlocksPerSm * sm_count));
}

} // namespace

void enqueue_sorting(const DeviceChoices& choices, const ChoiceLists& lists, cudaStream_t stream) {
  sort_choices_kernel<<<static_cast<unsigned>(lists.count * kSortBlocks), kSortThreads, 0, stream>>>(choices, lists);
  MC2_CUDA(cudaGetLastError());
}

void enqueue_gathering(const GatheredRows& rows, int sm_count, cudaStream_t stream) {
  gather_rows_kernel<<<block_count(std::int64_t{rows.most_rows} * kWarp, sm_count), kThreads, 0, stream>>>(rows);
  MC2_CUDA(cudaGetLastError());
}

void enqueue_weighted_sums(const WeightedSums& sums, int sm_count, cudaStream_t stream) {
  const std::int64_t threads = sums.tokens.token_count * sums.columns * 2 / kVectorBytes;
  const unsigned blocks = block_count(threads, sm_count);
  if (sums.is_half)
    weighted_sums_kernel<__half><<<blocks, kThreads, 0, stream>>>(sums);
  else
    weighted_sums_kernel<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(sums);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
