// CPU functions for mc2's kernels; one thread runs each. Ranks signal one another through the same words of signal
// memory as the kernels do, but with flag values of this file's own.
#include "simulated_gpu/kernels.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/kernels/epilogue.hpp"
#include "backends/cuda/kernels/pooling.hpp"
#include "backends/cuda/tiles/chosen_kernels.hpp"
#include "backends/cuda/tiles/grouped_kernel.hpp"
#include "backends/cuda/tiles/routing.hpp"
#include "backends/cuda/tiles/tile_kernel.hpp"
#include "simulated_gpu/device.hpp"
#include "simulated_gpu/matmul.hpp"
#include "simulated_gpu/numbers.hpp"

namespace mc2::simulated {
namespace {

using executor::cuda::BagFault;
using executor::cuda::BagTables;
using executor::cuda::BlockExchange;
using executor::cuda::BlockSpan;
using executor::cuda::ChoiceFault;
using executor::cuda::ChoiceLists;
using executor::cuda::ChosenRow;
using executor::cuda::DeviceChoices;
using executor::cuda::DirectCollective;
using executor::cuda::GatheredRows;
using executor::cuda::GroupedRun;
using executor::cuda::GroupedTile;
using executor::cuda::kMaxCudaRanks;
using executor::cuda::kMaxLowLatencyBytes;
using executor::cuda::PoolingRun;
using executor::cuda::RoutedCounts;
using executor::cuda::RoutedList;
using executor::cuda::RoutedLists;
using executor::cuda::RoutedRows;
using executor::cuda::RowCopies;
using executor::cuda::RowCopy;
using executor::cuda::RowEpilogue;
using executor::cuda::SignalMemory;
using executor::cuda::SortedChoices;
using executor::cuda::Tile;
using executor::cuda::TileRun;
using executor::cuda::TokenRun;
using executor::cuda::ToldCounts;
using executor::cuda::WeightedSums;

struct Names {
  std::mutex mutex;
  std::map<const void*, std::string> by_function;
};

Names& names() {
  static auto* const found = new Names;
  return *found;
}

// Regions of a rank's signal memory; each has kMaxCudaRanks words.
enum Place { kStart, kEnd, kMeeting, kAnnounced, kCounters };
enum Counter { kKernels, kMeetings, kMails, kAnnouncements };

std::uint32_t* place(const SignalMemory& signals, int rank, Place region) {
  return signals.words[static_cast<std::size_t>(rank)] + region * kMaxCudaRanks;
}

std::uint32_t& counter(const SignalMemory& signals, Counter which) {
  return place(signals, signals.rank, kCounters)[which];
}

std::uint32_t look(const std::uint32_t* flag) {
  return std::atomic_ref(*const_cast<std::uint32_t*>(flag)).load(std::memory_order_acquire);
}
void raise(std::uint32_t* flag, std::uint32_t value) { std::atomic_ref(*flag).store(value, std::memory_order_release); }

void wait_until(const std::uint32_t* flag, std::uint32_t value, const std::uint32_t* abort) {
  spin_until([&] { return static_cast<std::int32_t>(look(flag) - value) >= 0 || look(abort) != 0; });
}

void meet(const SignalMemory& signals, Place region, std::uint32_t value) {
  for (int peer = 0; peer < signals.world_size; ++peer) raise(place(signals, peer, region) + signals.rank, value);
  for (int peer = 0; peer < signals.world_size; ++peer)
    wait_until(place(signals, signals.rank, region) + peer, value, signals.abort);
}

void meeting(const SignalMemory& signals) {
  for (int peer = 0; peer < signals.world_size; ++peer) raise(place(signals, signals.rank, kAnnounced) + peer, 0);
  counter(signals, kAnnouncements) = 0;
  meet(signals, kMeeting, ++counter(signals, kMeetings));
}

void announcement(const SignalMemory& signals) {
  const std::uint32_t count = ++counter(signals, kAnnouncements);
  for (int peer = 0; peer < signals.world_size; ++peer) raise(place(signals, peer, kAnnounced) + signals.rank, count);
}

/// Where the receiver puts element i of a piece.
std::int64_t landing(const BlockExchange& block, std::int64_t i) {
  return block.row_elements == 0 ? i : i / block.row_elements * block.receive_pitch + i % block.row_elements;
}

template <typename T>
T summed(const BlockExchange& block, int rank_count, int first_rank, std::int64_t i) {
  float sum = 0;
  for (int r = 0; r < rank_count; ++r)
    sum += to_f32(reinterpret_cast<const T*>(block.send[static_cast<std::size_t>((first_rank + r) % rank_count)])[i]);
  return from_f32<T>(sum);
}

template <typename T>
T* elements(std::byte* bytes) {
  return reinterpret_cast<T*>(bytes);
}
template <typename T>
const T* elements(const std::byte* bytes) {
  return reinterpret_cast<const T*>(bytes);
}

template <typename T>
void gather(const BlockExchange& block, const SignalMemory& signals) {
  for (int distance = 1; distance < signals.world_size; ++distance) {
    const auto peer = static_cast<std::size_t>((signals.rank + distance) % signals.world_size);
    const T* from = elements<T>(block.send[peer]) + signals.rank * block.send_stride;
    T* to = elements<T>(block.receive[static_cast<std::size_t>(signals.rank)]) +
            static_cast<std::int64_t>(peer) * block.receive_stride;
    for (std::int64_t i = 0; i < block.element_count; ++i) to[landing(block, i)] = from[i];
  }
}

void copy_rows(const BlockExchange& block, const SignalMemory& signals, std::int64_t row_bytes) {
  if (block.meets_before) meet(signals, kStart, ++counter(signals, kKernels));
  const RowCopies copies = block.row_copies[static_cast<std::size_t>(signals.rank)];
  for (int i = 0; i < copies.count; ++i) {
    const RowCopy& copy = copies.first[i];
    std::memcpy(block.receive[static_cast<std::size_t>(signals.rank)] + copy.rows.to_row * row_bytes,
                block.send[static_cast<std::size_t>(copy.peer)] + copy.rows.from_row * row_bytes,
                static_cast<std::size_t>(copy.rows.row_count * row_bytes));
  }
  if (block.meets_after) meet(signals, kEnd, ++counter(signals, kKernels));
}

void tell(const ToldCounts& told) {
  const std::int64_t count = std::int64_t{told.world_size} * told.expert_count;
  for (int peer = 0; peer < told.world_size; ++peer)
    std::copy_n(told.own, count, told.tables[static_cast<std::size_t>(peer)] + told.rank * count);
}

/// Computes what the kernels of routing.cu compute, one row after the other.
class Router {
 public:
  explicit Router(const RoutedCounts& counts) : counts_(counts) {}

  void find_rows() const {
    *counts_.fault = illegal_place();
    if (*counts_.fault != 0 && *counts_.host_fault[0] == 0) {
      const auto value = static_cast<std::uint64_t>(counts_.table[*counts_.fault - 1]);
      *counts_.host_fault[1] = static_cast<std::uint32_t>(value);
      *counts_.host_fault[2] = static_cast<std::uint32_t>(value >> 32U);
      *counts_.host_fault[0] = *counts_.fault;
    }
    for (int holder = 0; holder < counts_.world_size && *counts_.fault == 0; ++holder) {
      std::int64_t row = 0;
      for (int expert = 0; expert < counts_.expert_count; ++expert) {
        for (int peer = 0; peer < counts_.world_size; ++peer) {
          RoutedRows& rows = rows_of(holder, peer, expert);
          const int from = counts_.gathers_first ? peer : holder, to = counts_.gathers_first ? holder : peer;
          rows.first = expert == 0 ? 0 : (&rows)[-1].first + (&rows)[-1].count;
          rows.count = counts_.table[(from * counts_.world_size + to) * counts_.expert_count + expert];
          rows.row = row;
          row += rows.count;
        }
      }
    }
  }

  void make(const RoutedLists& lists) const {
    const auto* list = lists.lists;
    for (int i = 0; i < lists.list_count; ++i, ++list) {
      if (*counts_.fault != 0) {
        if (list->tile_count != nullptr) *list->tile_count = 0;
        if (list->copies != nullptr) std::fill_n(list->copies, counts_.world_size * counts_.expert_count, RowCopy{});
        std::fill_n(lists.c, lists.c_bytes, std::byte{0xFF});
      } else if (list->of == RoutedList::Of::Copies) {
        list_copies(*list);
      } else {
        list_tiles(*list, lists.columns);
      }
    }
  }

 private:
  [[nodiscard]] RoutedRows& rows_of(int holder, int peer, int expert) const {
    return counts_.rows[(holder * counts_.world_size + peer) * counts_.expert_count + expert];
  }

  [[nodiscard]] std::uint32_t illegal_place() const {
    std::uint32_t place = 0;
    for (int pair = 0; pair < counts_.world_size * counts_.world_size; ++pair) {
      std::int64_t sum = 0;
      for (int expert = 0; expert < counts_.expert_count; ++expert, ++place) {
        const std::int64_t count = counts_.table[place];
        if (count < 0 || count > counts_.most_rows - sum) return place + 1;
        sum += count;
      }
      counts_.pair_rows[pair] = sum;
    }
    return 0;
  }

  [[nodiscard]] std::int64_t pair_row(int from, int to) const {
    std::int64_t row = 0;
    for (int before = 0; before < (counts_.gathers_first ? to : from); ++before)
      row += counts_.gathers_first ? counts_.pair_rows[from * counts_.world_size + before]
                                   : counts_.pair_rows[before * counts_.world_size + to];
    return row;
  }

  void list_copies(const RoutedList& list) const {
    RowCopy* copy = list.copies;
    for (int distance = 1; distance <= counts_.world_size; ++distance) {
      const int from = (counts_.rank + distance) % counts_.world_size, to = counts_.rank;
      for (int expert = 0; expert < counts_.expert_count; ++expert, ++copy) {
        const RoutedRows& rows = counts_.gathers_first ? rows_of(to, from, expert) : rows_of(from, to, expert);
        const std::int64_t first = std::max(rows.first, list.first_row);
        const std::int64_t last = std::min(rows.first + rows.count, list.first_row + list.row_count);
        const std::int64_t outside = pair_row(from, to) + first, inside = rows.row + first - rows.first;
        *copy = {from, {outside, inside, std::max<std::int64_t>(0, last - first)}};
        if (!counts_.gathers_first) std::swap(copy->rows.from_row, copy->rows.to_row);
      }
    }
  }

  void list_tiles(const RoutedList& list, std::int64_t columns) const {
    *list.tile_count = 0;
    for (int expert = 0; expert < counts_.expert_count; ++expert) {
      for (int peer = 0; peer < counts_.world_size; ++peer) {
        if (peer == counts_.rank ? list.of == RoutedList::Of::PeersTiles : list.of == RoutedList::Of::LocalTiles)
          continue;
        const RoutedRows& rows = rows_of(counts_.rank, peer, expert);
        const std::int64_t first = std::max(rows.first, list.first_row);
        const std::int64_t last = std::min(rows.first + rows.count, list.first_row + list.row_count);
        for (std::int64_t at = first; at < last; at += kTileRows) {
          const std::int64_t c_row = rows.row + at - rows.first;
          const std::int64_t a_row =
              list.of == RoutedList::Of::LocalTiles ? pair_row(counts_.rank, counts_.rank) + at : c_row;
          const auto row_count = static_cast<std::int32_t>(std::min<std::int64_t>(kTileRows, last - at));
          for (int column = 0; column < columns; column += list.tile_columns)
            list.tiles[(*list.tile_count)++] = {expert, static_cast<std::int32_t>(a_row),
                                                static_cast<std::int32_t>(c_row), row_count, column};
        }
      }
    }
  }

  static constexpr std::int64_t kTileRows = executor::cuda::kTileRows;
  RoutedCounts counts_;
};

template <typename T>
void all_reduce(const BlockExchange& block, const SignalMemory& signals, const BlockSpan::Place& at) {
  const std::int64_t share = planner::ceil_div(at.element_count, signals.world_size);
  const std::int64_t last = std::min(share * (signals.rank + 1), at.element_count);
  for (std::int64_t i = share * signals.rank; i < last; ++i) {
    const T sum = summed<T>(block, signals.world_size, signals.rank, at.send_first + i);
    for (int r = 0; r < signals.world_size; ++r)
      elements<T>(block.receive[static_cast<std::size_t>(r)])[at.receive_first + landing(block, i)] = sum;
  }
}

template <typename T>
void reduce_scatter(const BlockExchange& block, const SignalMemory& signals, const BlockSpan::Place& at) {
  T* own = elements<T>(block.receive[static_cast<std::size_t>(signals.rank)]) + at.receive_first;
  for (std::int64_t i = 0; i < at.element_count; ++i)
    own[i] = summed<T>(block, signals.world_size, signals.rank, at.send_first + signals.rank * at.element_count + i);
}

template <typename T>
void direct(DirectCollective collective, const BlockExchange& block, const SignalMemory& signals) {
  const std::uint32_t turn = ++counter(signals, kKernels);
  if (block.meets_before) meet(signals, kStart, turn);
  const BlockSpan::Place whole{0, 0, block.element_count};
  if (collective == DirectCollective::AllReduce) all_reduce<T>(block, signals, whole);
  if (collective == DirectCollective::ReduceScatter) reduce_scatter<T>(block, signals, whole);
  if (collective == DirectCollective::Gather) gather<T>(block, signals);
  if (block.meets_after) meet(signals, kEnd, turn);
}

template <typename T>
void span(DirectCollective collective, const BlockSpan& blocks, const SignalMemory& signals) {
  const std::uint32_t turn = ++counter(signals, kKernels);
  for (int i = 0; i < blocks.block_count; ++i) {
    for (int peer = 0; blocks.waits && peer < signals.world_size; ++peer)
      wait_until(place(signals, signals.rank, kAnnounced) + peer, static_cast<std::uint32_t>(i + 1), signals.abort);
    const BlockSpan::Place& at = blocks.places[static_cast<std::size_t>(i)];
    if (collective == DirectCollective::AllReduce)
      all_reduce<T>(blocks.base, signals, at);
    else
      reduce_scatter<T>(blocks.base, signals, at);
  }
  if (blocks.base.meets_after) meet(signals, kEnd, turn);
}

/// On a GPU the 16 bytes of a packet, data and flags, arrive together. Here the flags are written last instead.
template <typename T>
void mail(const BlockExchange& block, const SignalMemory& signals) {
  constexpr std::int64_t kElements = sizeof(uint2) / sizeof(T);
  constexpr std::int64_t kMaxPackets = kMaxLowLatencyBytes / sizeof(uint2);
  using Packet = std::array<T, kElements>;
  const std::uint32_t turn = ++counter(signals, kMails);
  const std::int64_t half = static_cast<std::int64_t>(turn % 2) * kMaxCudaRanks * kMaxPackets;
  const T* mine = elements<T>(block.send[static_cast<std::size_t>(signals.rank)]);
  T* sums = elements<T>(block.receive[static_cast<std::size_t>(signals.rank)]);
  const auto count_in = [&](std::int64_t packet) {
    return std::min(kElements, block.element_count - packet * kElements);
  };
  const std::int64_t packet_count = planner::ceil_div(block.element_count, kElements);
  for (std::int64_t packet = 0; packet < packet_count; ++packet) {
    Packet values{};
    std::copy_n(mine + packet * kElements, count_in(packet), values.begin());
    const auto words = std::bit_cast<std::array<std::uint32_t, 2>>(values);
    for (int peer = 0; peer < signals.world_size; ++peer) {
      uint4& slot = signals.mail[static_cast<std::size_t>(peer)][half + signals.rank * kMaxPackets + packet];
      slot.x = words[0];
      slot.z = words[1];
      raise(&slot.y, turn);
      raise(&slot.w, turn);
    }
  }
  for (std::int64_t packet = 0; packet < packet_count; ++packet) {
    std::array<float, kElements> sum{};
    for (int rank = 0; rank < signals.world_size; ++rank) {
      const uint4& slot = signals.mail[static_cast<std::size_t>(signals.rank)][half + rank * kMaxPackets + packet];
      spin_until([&] { return (look(&slot.y) == turn && look(&slot.w) == turn) || look(signals.abort) != 0; });
      const auto values = std::bit_cast<Packet>(std::array<std::uint32_t, 2>{slot.x, slot.z});
      for (std::size_t i = 0; i < values.size(); ++i) sum[i] += to_f32(values[i]);
    }
    for (std::int64_t i = 0; i < count_in(packet); ++i)
      sums[landing(block, packet * kElements + i)] = from_f32<T>(sum[static_cast<std::size_t>(i)]);
  }
}

template <typename T>
void sum_pieces(const BlockExchange& block, int piece_count) {
  for (std::int64_t i = 0; i < block.element_count; ++i)
    elements<T>(block.receive[0])[i] = summed<T>(block, piece_count, 0, i);
}

template <typename Index>
std::int64_t index_at(const std::byte* bytes, std::int64_t i) {
  return static_cast<std::int64_t>(reinterpret_cast<const Index*>(bytes)[i]);
}

std::int64_t index_of(const BagTables& tables, const std::byte* bytes, std::int64_t i) {
  return tables.index_bytes == 4 ? index_at<std::int32_t>(bytes, i) : index_at<std::int64_t>(bytes, i);
}

template <typename T>
void pool(const BagTables& tables, const PoolingRun& run) {
  const std::int64_t samples = run.row_count * run.shard_count;
  std::vector<float> sum(static_cast<std::size_t>(tables.columns));
  for (std::int64_t bag = 0; bag < samples * tables.table_count; ++bag) {
    const std::int64_t table = bag / samples, row = bag % samples;
    const std::int64_t sample = run.first_sample + row / run.row_count * run.sample_stride + row % run.row_count;
    const std::int64_t first = index_of(tables, tables.offsets, table * tables.sample_count + sample);
    const std::int64_t end = index_of(tables, tables.offsets, table * tables.sample_count + sample + 1);
    const std::int64_t number = table * tables.sample_count + sample;
    const bool ascends = first >= 0 && first <= end && end <= tables.index_count && (number > 0 || first == 0) &&
                         (number + 1 < tables.table_count * tables.sample_count || end == tables.index_count);
    bool is_legal = ascends;
    std::int64_t named = 0;
    std::ranges::fill(sum, 0.0F);
    for (std::int64_t i = first; is_legal && i < end; ++i) {
      named = index_of(tables, tables.indices, i);
      is_legal = named >= 0 && named < tables.row_count;
      if (!is_legal) break;
      const T* values = elements<T>(tables.rows) + (table * tables.row_count + named) * tables.columns;
      for (std::int64_t c = 0; c < tables.columns; ++c) sum[static_cast<std::size_t>(c)] += to_f32(values[c]);
    }
    if (!is_legal && look(tables.fault) == static_cast<std::uint32_t>(BagFault::None)) {
      tables.fault[1] = static_cast<std::uint32_t>(number);
      tables.fault[2] = static_cast<std::uint32_t>(named);
      tables.fault[3] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(named) >> 32U);
      raise(tables.fault, static_cast<std::uint32_t>(ascends ? BagFault::Row : BagFault::Offsets));
    }
    const float divisor = tables.is_mean && end > first ? static_cast<float>(end - first) : 1.0F;
    T* features = elements<T>(run.product) + (row * tables.table_count + table) * tables.columns;
    for (std::int64_t c = 0; c < tables.columns; ++c)
      features[c] =
          from_f32<T>(is_legal ? sum[static_cast<std::size_t>(c)] / divisor : std::numeric_limits<float>::quiet_NaN());
  }
}

void transpose(const std::uint8_t* from, std::uint8_t* to, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) to[column * rows + row] = from[row * columns + column];
}

Tensor tensor_of(const CUtensorMap& map) {
  Tensor tensor;
  std::memcpy(static_cast<void*>(&tensor), &map, sizeof tensor);
  return tensor;
}

/// Computes what the tile kernel computes. Tiles are sent as row-major matrices; the real kernel sends them in the
/// layout of shared memory.
template <typename T>
class TileRunner {
 public:
  TileRunner(const TileRun& run, std::int64_t tile_columns, bool b_is_transposed)
      : run_(run),
        a_(tensor_of(run.a)),
        b_(tensor_of(run.b)),
        tile_columns_(tile_columns),
        b_is_transposed_(b_is_transposed) {}

  void run() {
    for (int i = 0; i < run_.tile_count; ++i) {
      const Tile& tile = run_.tiles[i];
      MatrixF32 sums = product_of(tile);
      if (tile.distance > 0) {
        send(tile, sums);
      } else {
        add_pieces(tile, sums);
        store(tile, sums);
      }
    }
    if (run_.c_count == 1) return;
    for (int peer = 0; peer < run_.peer_count; ++peer) raise(run_.sent_end_flags[static_cast<std::size_t>(peer)], 1);
    for (int peer = 0; peer < run_.peer_count; ++peer) take(run_.end_flags + peer);
  }

 private:
  static constexpr std::int64_t kRows = executor::cuda::kTileRows;

  void take(std::uint32_t* flag) const {
    wait_until(flag, 1, run_.abort);
    raise(flag, 0);
  }

  /// The product of the part of the tile that lies inside the matrices.
  [[nodiscard]] MatrixF32 product_of(const Tile& tile) const {
    const std::int64_t rows = std::min(kRows, a_.rows - tile.a_row);
    const std::int64_t columns = std::min<std::int64_t>(tile_columns_, run_.column_count - tile.column);
    const MatrixF32 a = matrix_of(elements<T>(a_.address) + tile.a_row * a_.columns, rows, a_.columns, a_.columns);
    if (b_is_transposed_)
      return product(a, matrix_of(elements<T>(b_.address) + tile.column * b_.columns, columns, b_.columns, b_.columns),
                     true);
    return product(a, matrix_of(elements<T>(b_.address) + tile.column, b_.rows, columns, b_.columns), false);
  }

  void send(const Tile& tile, const MatrixF32& sums) const {
    const auto peer = static_cast<std::size_t>(tile.distance - 1);
    T* to = elements<T>(run_.sent[peer]) + tile.index * kRows * tile_columns_;
    std::ranges::transform(sums.values, to, from_f32<T>);
    raise(run_.sent_flags[peer] + tile.index, 1);
  }

  void add_pieces(const Tile& tile, MatrixF32& sums) const {
    for (int peer = 0; peer < run_.peer_count; ++peer) {
      const std::int64_t at = std::int64_t{peer} * run_.shard_tile_count + tile.index;
      take(run_.arrived_flags + at);
      const T* from = elements<T>(run_.arrived) + at * kRows * tile_columns_;
      for (float& sum : sums.values) sum += to_f32(*from++);
    }
  }

  void store(const Tile& tile, const MatrixF32& sums) const {
    for (int i = 0; i < run_.c_count; ++i) {
      const Tensor c = tensor_of(run_.c[static_cast<std::size_t>(i)].boxes);
      T* first = elements<T>(c.address) + (tile.c_matrix * c.rows + tile.c_row) * c.columns + tile.column;
      for (std::int64_t row = 0; row < std::min(sums.rows, c.rows - tile.c_row); ++row)
        std::transform(sums.row(row), sums.row(row) + sums.columns, first + row * c.columns, from_f32<T>);
    }
  }

  TileRun run_;
  Tensor a_, b_;
  std::int64_t tile_columns_;
  bool b_is_transposed_;
};

template <typename T>
class GroupedRunner {
 public:
  GroupedRunner(const GroupedRun& run, std::int64_t tile_columns, bool b_is_transposed)
      : run_(run),
        a_(tensor_of(run.a)),
        b_(tensor_of(run.b)),
        tile_columns_(tile_columns),
        b_is_transposed_(b_is_transposed) {}

  void run() const {
    for (int i = 0; i < *run_.tile_count; ++i) multiply(run_.tiles[i]);
  }

 private:
  void multiply(const GroupedTile& tile) const {
    const T* b = elements<T>(b_.address) + tile.expert * b_.rows * b_.columns;
    const MatrixF32 a =
        matrix_of(elements<T>(a_.address) + tile.a_row * a_.columns, tile.row_count, a_.columns, a_.columns);
    const std::int64_t columns = std::min(tile_columns_, run_.column_count - std::int64_t{tile.column});
    const MatrixF32 sums =
        b_is_transposed_ ? product(a, matrix_of(b + tile.column * b_.columns, columns, b_.columns, b_.columns), true)
                         : product(a, matrix_of(b + tile.column, b_.rows, columns, b_.columns), false);
    for (std::int64_t row = 0; row < sums.rows; ++row) {
      for (std::int64_t column = 0; column < sums.columns; ++column) {
        const std::int64_t c_row = run_.chosen == nullptr ? tile.c_row + row : run_.chosen[tile.c_row + row].c_row;
        const std::int64_t at = c_row * run_.column_count + tile.column + column;
        float sum = sums.row(row)[column];
        if (run_.bias != nullptr)
          sum += to_f32(elements<T>(run_.bias)[std::int64_t{tile.expert} * run_.column_count + tile.column + column]);
        if (run_.residual != nullptr) sum += to_f32(elements<T>(run_.residual)[at]);
        elements<T>(run_.c_first)[at] = from_f32<T>(sum);
      }
    }
  }

  GroupedRun run_;
  Tensor a_, b_;
  std::int64_t tile_columns_;
  bool b_is_transposed_;
};

/// Computes what sort_choices_kernel computes for a list, one choice after the other.
class ChoiceSorting {
 public:
  ChoiceSorting(const DeviceChoices& choices, const SortedChoices& list) : choices_(choices), list_(list) {}

  void sort() const {
    std::vector<std::vector<ChosenRow>> rows(static_cast<std::size_t>(choices_.expert_count) +
                                             1); // the last is for illegal choices
    for (int r = 0; r < list_.tokens.run_count; ++r) {
      const TokenRun& run = list_.tokens.runs[static_cast<std::size_t>(r)];
      const std::int32_t top_k = list_.tokens.top_k;
      for (std::int32_t choice = 0; choice < run.token_count * top_k; ++choice) {
        const std::int32_t a_row = list_.tokens.is_wide ? run.a_token * top_k + choice : run.a_token + choice / top_k;
        rows[expert_at(std::int64_t{run.first_token} * top_k + choice)].push_back(
            {a_row, run.c_token * top_k + choice});
      }
    }
    ChosenRow* next = list_.rows;
    *list_.tile_count = 0;
    for (std::size_t expert = 0; expert < rows.size(); ++expert) {
      const bool is_legal = expert + 1 < rows.size();
      if (!is_legal) *list_.row_count = static_cast<std::int32_t>(next - list_.rows);
      if (is_legal) list_tiles(expert, next - list_.rows, std::ssize(rows[expert]));
      for (const ChosenRow& row : rows[expert]) {
        if (list_.places != nullptr) list_.places[row.c_row] = static_cast<std::int32_t>(next - list_.rows);
        *next++ = row;
      }
    }
  }

 private:
  [[nodiscard]] std::size_t expert_at(std::int64_t place) const {
    const std::int64_t expert = choices_.index_bytes == 4
                                    ? std::int64_t{reinterpret_cast<const std::int32_t*>(choices_.experts)[place]}
                                    : reinterpret_cast<const std::int64_t*>(choices_.experts)[place];
    const float weight = choices_.weights == nullptr ? 1.0F : choices_.weights[place];
    if (expert >= 0 && expert < choices_.expert_count && std::isfinite(weight)) return static_cast<std::size_t>(expert);
    if (look(choices_.fault) == static_cast<std::uint32_t>(ChoiceFault::None)) {
      const auto set = [&](std::size_t word, std::int64_t value) {
        choices_.fault[word] = static_cast<std::uint32_t>(value);
        choices_.fault[word + 1] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32U);
      };
      set(1, place);
      set(3, expert);
      choices_.fault[5] = std::bit_cast<std::uint32_t>(weight);
      raise(choices_.fault, static_cast<std::uint32_t>(ChoiceFault::Illegal));
    }
    return static_cast<std::size_t>(choices_.expert_count);
  }

  void list_tiles(std::size_t expert, std::int64_t first, std::int64_t count) const {
    constexpr std::int64_t kRows = executor::cuda::kTileRows;
    for (int column = 0; column < list_.column_tiles; ++column) {
      for (std::int64_t row = 0; row < count; row += kRows) {
        const auto at = static_cast<std::int32_t>(first + row);
        list_.tiles[(*list_.tile_count)++] = {static_cast<std::int32_t>(expert), at, at,
                                              static_cast<std::int32_t>(std::min(kRows, count - row)),
                                              column * list_.tile_columns};
      }
    }
  }

  DeviceChoices choices_;
  SortedChoices list_;
};

void gather_rows(const GatheredRows& run) {
  const auto a_bytes = static_cast<std::size_t>(run.a_row_bytes);
  for (std::int32_t row = 0; row < run.most_rows; ++row) {
    const ChosenRow& chosen = run.rows[row];
    if (row < *run.row_count)
      std::memcpy(run.gathered + row * run.a_row_bytes, run.a + chosen.a_row * run.a_row_bytes, a_bytes);
    else
      std::memset(run.products + (run.keeps_order ? row : chosen.c_row) * run.product_row_bytes, 0xFF,
                  static_cast<std::size_t>(run.product_row_bytes));
  }
}

template <typename T>
void add_weighted(const WeightedSums& run) {
  const std::int32_t top_k = run.tokens.top_k;
  const T* products = elements<T>(run.products);
  const std::int32_t* places = run.places;
  T* sum_of_row = elements<T>(run.sums);
  for (int r = 0; r < run.tokens.run_count; ++r) {
    const TokenRun& tokens = run.tokens.runs[static_cast<std::size_t>(r)];
    for (std::int64_t token = tokens.first_token; token < tokens.first_token + tokens.token_count; ++token) {
      for (std::int64_t column = 0; column < run.columns; ++column) {
        float sum = 0;
        for (std::int32_t choice = 0; choice < top_k; ++choice)
          sum += run.weights[token * top_k + choice] * to_f32(products[places[choice] * run.columns + column]);
        sum_of_row[column] = from_f32<T>(sum);
      }
      places += top_k;
      sum_of_row += run.columns;
    }
  }
}

template <typename T>
void finish_row(const RowEpilogue& epilogue, std::int64_t row) {
  const std::int64_t first = row * epilogue.columns;
  double squares = 0;
  for (std::int64_t i = 0; i < epilogue.columns; ++i) {
    T& c = elements<T>(epilogue.c)[first + i];
    const float bias = epilogue.bias == nullptr ? 0 : to_f32(elements<T>(epilogue.bias)[i]);
    const float residual = epilogue.residual == nullptr ? 0 : to_f32(elements<T>(epilogue.residual)[first + i]);
    c = from_f32<T>(to_f32(c) + bias + residual);
    squares += static_cast<double>(to_f32(c)) * to_f32(c);
  }
  if (epilogue.normed == nullptr) return;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(epilogue.columns) + epilogue.norm_epsilon);
  for (std::int64_t i = 0; i < epilogue.columns; ++i)
    elements<T>(epilogue.normed)[first + i] = from_f32<T>(static_cast<float>(
        to_f32(elements<T>(epilogue.c)[first + i]) * factor * to_f32(elements<T>(epilogue.norm_weight)[i])));
}

void hold(const volatile unsigned* release) {
  const auto end = Clock::now() + std::chrono::seconds(10);
  spin_until([&] { return *release != 0 || Clock::now() > end; });
}

template <typename T>
const T& argument(void** arguments, int index) {
  return *static_cast<const T*>(arguments[index]);
}

template <typename Function>
Work typed(std::string_view name, const Function& work) {
  if (name.find("<__half") != std::string_view::npos) return work(executor::F16{});
  if (name.find("<__nv_bfloat16") != std::string_view::npos) return work(Bf16{});
  return work(float{});
}

DirectCollective collective_in(std::string_view name) {
  constexpr std::string_view kType = "DirectCollective)";
  return static_cast<DirectCollective>(name[name.find(kType) + kType.size()] - '0');
}

/// Finds the function for a kernel by its demangled name with template arguments.
std::optional<Work> work_of(std::string_view name, void** arguments) {
  const auto is = [&](std::string_view kernel) { return name.find(kernel) != std::string_view::npos; };
  if (is("::meeting_kernel")) return [signals = argument<SignalMemory>(arguments, 0)] { meeting(signals); };
  if (is("::announcement_kernel")) return [signals = argument<SignalMemory>(arguments, 0)] { announcement(signals); };
  if (is("::direct_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [collective = collective_in(name), block = argument<BlockExchange>(arguments, 0),
              signals = argument<SignalMemory>(arguments, 1)] { direct<decltype(type)>(collective, block, signals); };
    });
  }
  if (is("::row_kernel")) {
    const std::int64_t word_bytes = is("<uint4>") ? 16 : is("<unsigned int>") ? 4 : 2;
    return [block = argument<BlockExchange>(arguments, 0), signals = argument<SignalMemory>(arguments, 1),
            row_bytes = argument<std::int64_t>(arguments, 2) * word_bytes] { copy_rows(block, signals, row_bytes); };
  }
  if (is("::tell_kernel")) return [told = argument<ToldCounts>(arguments, 0)] { tell(told); };
  if (is("::routed_rows_kernel"))
    return [counts = argument<RoutedCounts>(arguments, 0)] { Router(counts).find_rows(); };
  if (is("::routed_lists_kernel"))
    return [counts = argument<RoutedCounts>(arguments, 0), lists = argument<RoutedLists>(arguments, 1)] {
      Router(counts).make(lists);
    };
  if (is("::span_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [collective = collective_in(name), blocks = argument<BlockSpan>(arguments, 0),
              signals = argument<SignalMemory>(arguments, 1)] { span<decltype(type)>(collective, blocks, signals); };
    });
  }
  if (is("::mail_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [block = argument<BlockExchange>(arguments, 0), signals = argument<SignalMemory>(arguments, 1)] {
        mail<decltype(type)>(block, signals);
      };
    });
  }
  if (is("::mail_rows_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [block = argument<BlockExchange>(arguments, 0), signals = argument<SignalMemory>(arguments, 1),
              epilogue = argument<RowEpilogue>(arguments, 2)] {
        mail<decltype(type)>(block, signals);
        for (std::int64_t row = 0; row < epilogue.row_count; ++row) finish_row<decltype(type)>(epilogue, row);
      };
    });
  }
  if (is("::direct_rows_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [block = argument<BlockExchange>(arguments, 0), signals = argument<SignalMemory>(arguments, 1),
              epilogue = argument<RowEpilogue>(arguments, 2)] {
        direct<decltype(type)>(DirectCollective::AllReduce, block, signals);
        for (std::int64_t row = 0; row < epilogue.row_count; ++row) finish_row<decltype(type)>(epilogue, row);
      };
    });
  }
  if (is("::sum_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [block = argument<BlockExchange>(arguments, 0), count = argument<int>(arguments, 1)] {
        sum_pieces<decltype(type)>(block, count);
      };
    });
  }
  if (is("::epilogue_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [epilogue = argument<RowEpilogue>(arguments, 0)] {
        for (std::int64_t row = 0; row < epilogue.row_count; ++row) finish_row<decltype(type)>(epilogue, row);
      };
    });
  }
  if (is("::pool_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [tables = argument<BagTables>(arguments, 0), run = argument<PoolingRun>(arguments, 1)] {
        pool<decltype(type)>(tables, run);
      };
    });
  }
  if (is("::tile_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [run = argument<TileRun>(arguments, 0), columns = is("TileShape<256>") ? 256 : 128,
              b_is_transposed = is(", true>")] { TileRunner<decltype(type)>(run, columns, b_is_transposed).run(); };
    });
  }
  if (is("::grouped_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [run = argument<GroupedRun>(arguments, 0), columns = is("TileShape<256>") ? 256 : 128,
              b_is_transposed = is(", true>")] { GroupedRunner<decltype(type)>(run, columns, b_is_transposed).run(); };
    });
  }
  if (is("::sort_choices_kernel")) {
    return [choices = argument<DeviceChoices>(arguments, 0), lists = argument<ChoiceLists>(arguments, 1)] {
      for (int i = 0; i < lists.count; ++i) ChoiceSorting(choices, lists.first[i]).sort();
    };
  }
  if (is("::gather_rows_kernel")) return [rows = argument<GatheredRows>(arguments, 0)] { gather_rows(rows); };
  if (is("::weighted_sums_kernel")) {
    return typed(name, [&](auto type) -> Work {
      return [sums = argument<WeightedSums>(arguments, 0)] { add_weighted<decltype(type)>(sums); };
    });
  }
  if (is("::transpose_kernel")) {
    return [from = argument<const std::uint8_t*>(arguments, 0), to = argument<std::uint8_t*>(arguments, 1),
            rows = argument<std::int64_t>(arguments, 2),
            columns = argument<std::int64_t>(arguments, 3)] { transpose(from, to, rows, columns); };
  }
  if (is("::hold(")) return [release = argument<const volatile unsigned*>(arguments, 0)] { hold(release); };
  return std::nullopt;
}

} // namespace

void register_kernel(const void* function, const char* name) {
  int status = 0;
  char* readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  Names& all = names();
  const std::lock_guard lock(all.mutex);
  all.by_function[function] = status == 0 ? readable : name;
  std::free(readable);
}

std::optional<Work> kernel_work(const void* function, void** arguments) {
  Names& all = names();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_function.find(function);
  if (found == all.by_function.end()) return std::nullopt;
  return work_of(found->second, arguments);
}

} // namespace mc2::simulated
