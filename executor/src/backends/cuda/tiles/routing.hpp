#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/tiles/grouped_kernel.hpp"

namespace mc2::executor::cuda {

/// Most experts of a rank, and of all ranks together, whose counts are read on the device.
inline constexpr int kMaxRoutedExperts = 256;
inline constexpr int kMaxAllRoutedExperts = 1024;

/// A rank's counts of rows, and where every rank keeps those of all: [from, to, expert].
struct ToldCounts {
  const std::int64_t* own = nullptr; ///< [to, expert]
  std::array<std::int64_t*, kMaxCudaRanks> tables{};
  int rank = 0;
  int world_size = 0;
  int expert_count = 0; ///< of a rank
};

/// ExpertRows, on the device.
struct RoutedRows {
  std::int64_t first = 0, count = 0, row = 0;
};

/// What a rank derives from all counts.
struct RoutedCounts {
  const std::int64_t* table = nullptr; ///< ToldCounts::tables, the rank's
  RoutedRows* rows = nullptr;          ///< [who multiplies, peer, expert]
  std::int64_t* pair_rows = nullptr;   ///< [from, to]
  /// 0, or 1 + the first place in `table` of a count that is below 0 or above most_rows, or with which the rows between
  /// two ranks are more than that. Then nothing is exchanged or multiplied.
  std::uint32_t* fault = nullptr;
  /// in the host's memory, 0 at first: of the first fault that, and the count's lower and upper half
  std::array<std::uint32_t*, 3> host_fault{};
  std::int64_t most_rows = 0; ///< between two ranks
  int rank = 0;
  int world_size = 0;
  int expert_count = 0;
  bool gathers_first = false;
};

/// A list that kernels of a block go through.
struct RoutedList {
  enum class Of : std::uint8_t {
    Copies,     ///< what the rank reads, as many as there are experts in all; those of its own rows last
    Tiles,      ///< what it multiplies of all ranks
    PeersTiles, ///< of all others
    LocalTiles, ///< of its own A
  };
  Of of = Of::Copies;
  std::int64_t first_row = 0, row_count = 0; ///< the block
  RowCopy* copies = nullptr;
  GroupedTile* tiles = nullptr;
  std::int32_t* tile_count = nullptr;
  int tile_columns = 0;
};

/// Lists to be made, and what becomes NaN where counts are illegal.
struct RoutedLists {
  const RoutedList* lists = nullptr; ///< on the device
  int list_count = 0;
  std::int64_t columns = 0; ///< n
  std::byte* c = nullptr;
  std::int64_t c_bytes = 0; ///< a multiple of 2
};

/// Enqueues the telling of one rank's counts to all, before they meet. Throws SystemError.
void enqueue_telling(const ToldCounts& told, cudaStream_t stream);

/// Enqueues, after the meeting, what makes all lists of a run: as RowRuns has them, but that copies are not joined.
/// Throws SystemError.
void enqueue_routing(const RoutedCounts& counts, const RoutedLists& lists, cudaStream_t stream);

} // namespace mc2::executor::cuda
