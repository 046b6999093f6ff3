#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/tiles/routing.hpp"
#include "backends/cuda/tiles/tile_lists.cuh"

namespace mc2::executor::cuda {
namespace {

constexpr int kRoutingThreads = 1024;
constexpr int kListThreads = 512;

__global__ void tell_kernel(const ToldCounts told) {
  const int count = told.world_size * told.expert_count;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const std::int64_t value = told.own[i];
    for (int peer = 0; peer < told.world_size; ++peer) told.tables[peer][told.rank * count + i] = value;
  }
}

/// The number of rows that an expert of `holder` multiplies for a peer.
__device__ std::int64_t count_of(const RoutedCounts& counts, int holder, int peer, int expert) {
  const int from = counts.gathers_first ? peer : holder, to = counts.gathers_first ? holder : peer;
  return counts.table[(from * counts.world_size + to) * counts.expert_count + expert];
}

/// The number of rows between a pair of ranks. If a count is illegal, returns -1 and sets `fault` to 1 + its place.
__device__ std::int64_t pair_rows_of(const RoutedCounts& counts, int pair, std::uint32_t& fault) {
  std::int64_t sum = 0;
  for (int expert = 0; expert < counts.expert_count; ++expert) {
    const int place = pair * counts.expert_count + expert;
    const std::int64_t count = counts.table[place];
    if (count < 0 || count > counts.most_rows - sum) {
      fault = static_cast<std::uint32_t>(place) + 1;
      return -1;
    }
    sum += count;
  }
  return sum;
}

__device__ void tell_host(const RoutedCounts& counts, std::uint32_t fault) {
  if (*counts.host_fault[0] != 0) return;
  const auto value = static_cast<std::uint64_t>(counts.table[fault - 1]);
  *counts.host_fault[1] = static_cast<std::uint32_t>(value);
  *counts.host_fault[2] = static_cast<std::uint32_t>(value >> 32U);
  __threadfence_system();
  *counts.host_fault[0] = fault;
}

/// Counts the rows between each pair of ranks, with one thread per pair. @return whether all counts are legal
__device__ bool count_pairs(const RoutedCounts& counts) {
  __shared__ std::uint32_t first_fault;
  constexpr std::uint32_t kNone = ~0U;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) first_fault = kNone;
  __syncthreads();
  if (thread < counts.world_size * counts.world_size) {
    std::uint32_t found = 0;
    const std::int64_t sum = pair_rows_of(counts, thread, found);
    counts.pair_rows[thread] = sum;
    if (sum < 0) atomicMin(&first_fault, found);
  }
  __syncthreads();
  const std::uint32_t fault = first_fault == kNone ? 0 : first_fault;
  if (thread == 0) *counts.fault = fault;
  if (thread == 0 && fault != 0) tell_host(counts, fault);
  return fault == 0;
}

/// Sets first and count of each expert's rows, for one pair of a rank that multiplies and its peer. One thread per
/// pair.
__device__ void set_firsts(const RoutedCounts& counts, int pair) {
  std::int64_t first = 0;
  for (int expert = 0; expert < counts.expert_count; ++expert) {
    RoutedRows& rows = counts.rows[pair * counts.expert_count + expert];
    rows.first = first;
    rows.count = count_of(counts, pair / counts.world_size, pair % counts.world_size, expert);
    first += rows.count;
  }
}

/// One thread block computes the rows of all ranks that multiply, with a thread for each expert of all ranks.
__global__ void __launch_bounds__(kRoutingThreads) routed_rows_kernel(const RoutedCounts counts) {
  __shared__ std::int64_t rows_of_expert[kMaxAllRoutedExperts]; // [rank that multiplies, expert]
  const int ranks = counts.world_size, experts = counts.expert_count, thread = static_cast<int>(threadIdx.x);
  const int holder = thread / experts, expert = thread % experts;
  if (!count_pairs(counts)) return;
  if (thread < ranks * ranks) set_firsts(counts, thread);
  if (thread < ranks * experts) {
    std::int64_t sum = 0;
    for (int peer = 0; peer < ranks; ++peer) sum += count_of(counts, holder, peer, expert);
    rows_of_expert[thread] = sum;
  }
  __syncthreads();
  if (thread >= ranks * experts) return;
  std::int64_t row = 0;
  for (int before = 0; before < expert; ++before) row += rows_of_expert[holder * experts + before];
  for (int peer = 0; peer < ranks; ++peer) {
    counts.rows[(holder * ranks + peer) * experts + expert].row = row;
    row += count_of(counts, holder, peer, expert);
  }
}

/// The part of a pair's rows of one expert that lies in a block: the row where it starts on the side that multiplies,
/// its first row among the pair's rows, and its length. An empty part has the place where rows would continue.
struct Part {
  std::int64_t row, first, count;
};

__device__ Part part_of(const RoutedRows& rows, const RoutedList& list) {
  const std::int64_t last = rows.first + rows.count, block_last = list.first_row + list.row_count;
  const std::int64_t first = min(max(rows.first, list.first_row), last);
  return {rows.row + first - rows.first, first, max(std::int64_t{0}, min(last, block_last) - first)};
}

__device__ const RoutedRows& rows_of(const RoutedCounts& counts, int holder, int peer, int expert) {
  return counts.rows[(holder * counts.world_size + peer) * counts.expert_count + expert];
}

/// The pair's first row on the side that does not multiply.
__device__ std::int64_t pair_row_of(const RoutedCounts& counts, int from, int to) {
  std::int64_t row = 0;
  if (counts.gathers_first)
    for (int before = 0; before < to; ++before) row += counts.pair_rows[from * counts.world_size + before];
  else
    for (int before = 0; before < from; ++before) row += counts.pair_rows[before * counts.world_size + to];
  return row;
}

__device__ RowCopy copy_of(const RoutedCounts& counts, const RoutedList& list, int place) {
  const int distance = place / counts.expert_count + 1, expert = place % counts.expert_count;
  const int from = (counts.rank + distance) % counts.world_size, to = counts.rank;
  const RoutedRows& rows = counts.gathers_first ? rows_of(counts, to, from, expert) : rows_of(counts, from, to, expert);
  const Part part = part_of(rows, list);
  const std::int64_t pair_row = pair_row_of(counts, from, to) + part.first;
  if (counts.gathers_first) return {from, {pair_row, part.row, part.count}};
  return {from, {part.row, pair_row, part.count}};
}

/// Finds an expert's runs of rows in a list. `runs` has room for one run per rank.
__device__ void find_runs(const RoutedCounts& counts, const RoutedList& list, int expert, TiledRun* runs) {
  int used = 0;
  for (int peer = 0; peer < counts.world_size; ++peer) {
    runs[peer] = {};
    const bool is_own = peer == counts.rank;
    if (is_own ? list.of == RoutedList::Of::PeersTiles : list.of == RoutedList::Of::LocalTiles) continue;
    const Part part = part_of(rows_of(counts, counts.rank, peer, expert), list);
    if (part.count == 0) continue;
    const bool continues = used > 0 && runs[used - 1].to_row + runs[used - 1].row_count == part.row;
    if (continues) {
      runs[used - 1].row_count += part.count;
      continue;
    }
    const std::int64_t from_row =
        list.of == RoutedList::Of::LocalTiles ? pair_row_of(counts, counts.rank, counts.rank) + part.first : part.row;
    runs[used++] = {from_row, part.row, part.count};
  }
}

/// The runs of a list, in shared memory.
struct ListedRuns {
  TiledRun runs[kMaxAllRoutedExperts];       ///< [expert, number of the run]
  std::int32_t firsts[kMaxAllRoutedExperts]; ///< number of a run's first tile
  std::int32_t expert_tiles[kMaxRoutedExperts];
};

/// Finds the runs of all experts, with a thread for each expert. @return the number of tiles
__device__ int find_all_runs(const RoutedCounts& counts, const RoutedList& list, int column_tiles, ListedRuns& all) {
  const int ranks = counts.world_size, expert = static_cast<int>(threadIdx.x);
  TiledRun* const own = all.runs + expert * ranks;
  const auto tiles_of = [&](const TiledRun& run) {
    return static_cast<std::int32_t>(row_tiles_of(run.row_count)) * column_tiles;
  };
  if (expert < counts.expert_count) {
    find_runs(counts, list, expert, own);
    all.expert_tiles[expert] = 0;
    for (int i = 0; i < ranks; ++i) all.expert_tiles[expert] += tiles_of(own[i]);
  }
  __syncthreads();
  std::int32_t first = 0, count = 0;
  for (int other = 0; other < counts.expert_count; ++other) {
    if (other < expert) first += all.expert_tiles[other];
    count += all.expert_tiles[other];
  }
  for (int i = 0; i < ranks && expert < counts.expert_count; first += tiles_of(own[i++]))
    all.firsts[expert * ranks + i] = first;
  __syncthreads();
  return count;
}

__device__ void list_tiles(const RoutedCounts& counts, const RoutedLists& lists, const RoutedList& list) {
  __shared__ ListedRuns all;
  const auto column_tiles = static_cast<int>((lists.columns + list.tile_columns - 1) / list.tile_columns);
  const int count = find_all_runs(counts, list, column_tiles, all);
  if (threadIdx.x == 0) *list.tile_count = count;
  for (int number = static_cast<int>(threadIdx.x); number < count; number += static_cast<int>(blockDim.x)) {
    const int place = place_of(all.firsts, counts.expert_count * counts.world_size, number);
    list.tiles[number] =
        tile_of(all.runs[place], place / counts.world_size, number - all.firsts[place], list.tile_columns);
  }
}

/// Empties the list and fills C with NaN. Called by all thread blocks.
__device__ void list_nothing(const RoutedCounts& counts, const RoutedLists& lists, const RoutedList& list) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0 && list.tile_count != nullptr) *list.tile_count = 0;
  if (list.of == RoutedList::Of::Copies)
    for (int i = thread; i < counts.world_size * counts.expert_count; i += static_cast<int>(blockDim.x))
      list.copies[i] = {};
  constexpr std::uint16_t kNotANumber = 0xFFFF;
  auto* const halves = reinterpret_cast<std::uint16_t*>(lists.c);
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + thread; i < lists.c_bytes / 2; i += step)
    halves[i] = kNotANumber;
}

/// One thread block for each list.
__global__ void __launch_bounds__(kListThreads)
    routed_lists_kernel(const RoutedCounts counts, const RoutedLists lists) {
  const RoutedList list = lists.lists[blockIdx.x];
  if (*counts.fault != 0) return list_nothing(counts, lists, list);
  if (list.of != RoutedList::Of::Copies) return list_tiles(counts, lists, list);
  for (int i = static_cast<int>(threadIdx.x); i < counts.world_size * counts.expert_count;
       i += static_cast<int>(blockDim.x))
    list.copies[i] = copy_of(counts, list, i);
}

} // namespace

void enqueue_telling(const ToldCounts& told, cudaStream_t stream) {
  constexpr int kTellingThreads = 256;
  tell_kernel<<<1, kTellingThreads, 0, stream>>>(told);
  MC2_CUDA(cudaGetLastError());
}

void enqueue_routing(const RoutedCounts& counts, const RoutedLists& lists, cudaStream_t stream) {
  routed_rows_kernel<<<1, kRoutingThreads, 0, stream>>>(counts);
  MC2_CUDA(cudaGetLastError());
  routed_lists_kernel<<<static_cast<unsigned>(lists.list_count), kListThreads, 0, stream>>>(counts, lists);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
