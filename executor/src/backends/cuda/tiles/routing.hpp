#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/tiles/grouped_kernel.hpp"

namespace mc2::executor::cuda {

/// Most experts of one rank, and of all ranks together, if counts are read on the device.
inline constexpr int kMaxRoutedExperts = 256;
inline constexpr int kMaxAllRoutedExperts = 1024;

/// A rank's counts of rows, and every rank's table of all counts, [from, to, expert].
struct ToldCounts {
  const std::int64_t* own = nullptr; ///< [to, expert]
  std::array<std::int64_t*, kMaxCudaRanks> tables{};
  int rank = 0;
  int world_size = 0;
  int expert_count = 0; ///< experts of one rank
};

/// ExpertRows as they are on the device.
struct RoutedRows {
  std::int64_t first = 0, count = 0, row = 0;
};

/// The memory for what a rank derives from the counts of all ranks.
struct RoutedCounts {
  const std::int64_t* table = nullptr; ///< this rank's table of ToldCounts::tables
  RoutedRows* rows = nullptr;          ///< [rank that multiplies, peer, expert]
  std::int64_t* pair_rows = nullptr;   ///< [from, to]
  /// 0, or 1 + the first place in `table` of an illegal count: below 0, above most_rows, or such that the rows between
  /// two ranks exceed most_rows. Then nothing is exchanged or multiplied.
  std::uint32_t* fault = nullptr;
  /// in host memory, 0 at first: `fault` of the first illegal count, and the lower and upper half of that count
  std::array<std::uint32_t*, 3> host_fault{};
  std::int64_t most_rows = 0; ///< most legal rows between two ranks
  int rank = 0;
  int world_size = 0;
  int expert_count = 0;
  bool gathers_first = false;
};

/// A list of work that kernels of a block go through.
struct RoutedList {
  enum class Of : std::uint8_t {
    Copies,     ///< rows that the rank reads: an entry for each expert of all ranks, its own last
    Tiles,      ///< tiles that the rank multiplies for all ranks
    PeersTiles, ///< tiles that it multiplies for other ranks
    LocalTiles, ///< tiles of its own A
  };
  Of of = Of::Copies;
  std::int64_t first_row = 0, row_count = 0; ///< the block
  RowCopy* copies = nullptr;
  GroupedTile* tiles = nullptr;
  std::int32_t* tile_count = nullptr;
  int tile_columns = 0;
};

/// The lists to be made, and the C that becomes NaN if counts are illegal.
struct RoutedLists {
  const RoutedList* lists = nullptr; ///< on the device
  int list_count = 0;
  std::int64_t columns = 0; ///< n
  std::byte* c = nullptr;
  std::int64_t c_bytes = 0; ///< a multiple of 2
};

/// Enqueues the telling of one rank's counts to all ranks, before they meet. Throws SystemError.
void enqueue_telling(const ToldCounts& told, cudaStream_t stream);

/// Enqueues the making of all lists of a run, after the ranks have met. The lists are those of RowRuns, except that
/// adjacent copies are not joined. Throws SystemError.
void enqueue_routing(const RoutedCounts& counts, const RoutedLists& lists, cudaStream_t stream);

} // namespace mc2::executor::cuda
