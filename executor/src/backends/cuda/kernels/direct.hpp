#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cuda/kernels/epilogue.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {

inline constexpr int kMaxCudaRanks = 8;
/// Most thread blocks of one direct collective; each needs flags of its own.
inline constexpr int kMaxDirectCtas = 128;

/// Words of signal memory that every rank provides, zero at first: flags that peers write, counters of its own.
inline constexpr std::size_t kSignalWords =
    std::size_t{3} * kMaxDirectCtas * kMaxCudaRanks + 3 * kMaxDirectCtas + kMaxCudaRanks + 1;

/// Largest piece of a low-latency all-reduce, and the mail that every rank provides for it, zero at first: from every
/// peer two pieces in turn, in packets of 16 bytes that hold 8 of data.
inline constexpr std::int64_t kMaxLowLatencyBytes = std::int64_t{256} << 10U;
inline constexpr std::size_t kMailBytes = std::size_t{2} * kMaxCudaRanks * 2 * kMaxLowLatencyBytes;

/// How the ranks' kernels find one another. Flags hold the number of the kernel that raised them, so nothing is reset.
struct SignalMemory {
  std::array<std::uint32_t*, kMaxCudaRanks> words{}; ///< by rank: its kSignalWords, which peers may write
  std::array<uint4*, kMaxCudaRanks> mail{};          ///< by rank: its kMailBytes, which peers may write
  const std::uint32_t* abort = nullptr;              ///< kernels stop waiting when this is not 0
  int rank = 0;
  int world_size = 0;
};

/// Rows that lie one below the other both where they come from and where they go.
struct RowRun {
  std::int64_t from_row = 0, to_row = 0, row_count = 0;
};

/// Rows that a rank reads from a peer.
struct RowCopy {
  std::int64_t peer = 0;
  RowRun rows{};
};

/// In memory of the rank's device.
struct RowCopies {
  const RowCopy* first = nullptr;
  int count = 0;
};

class RowRuns;

/// What one block's collective reads and writes. Piece: element_count elements; rank p's piece for rank q lies at
/// send[p] + q send_stride and, where pieces are not summed, ends at receive[q] + p receive_stride.
struct BlockExchange {
  std::array<const std::byte*, kMaxCudaRanks> send{}; ///< by rank
  std::array<std::byte*, kMaxCudaRanks> receive{};    ///< by rank
  /// by rank: room for a piece of every peer, where stages_pieces()
  std::array<std::byte*, kMaxCudaRanks> staging{};
  std::int64_t element_count = 0;
  std::int64_t send_stride = 0;    ///< elements; 0: the same piece for all
  std::int64_t receive_stride = 0; ///< elements
  std::int64_t row_elements = 0;   ///< of a piece that is put down row by row; 0: it stays dense
  std::int64_t receive_pitch = 0;  ///< elements from one such row to the next
  /// Where ranks have unequal pieces, or several experts: which rows go where. send and receive are whole matrices
  /// then, and element_count is that of a row.
  const RowRuns* row_runs = nullptr;
  std::int64_t first_row = 0, row_count = 0;         ///< the block, then
  std::array<RowCopies, kMaxCudaRanks> row_copies{}; ///< by rank, then: for its kernel
  bool meets_before = false; ///< peers' pieces are made in this run and may not be ready although the rank's own are
  bool meets_after = false;  ///< peers may still be reading or writing when the rank's own work is done
  bool is_last = false;      ///< of the run, and nothing is multiplied beside it
  bool leaves_sum = false;   ///< the rank neither waits for pieces in staging memory nor sums them
  bool copies_own = false;   ///< what is not summed: the rank's own piece goes to its place too
};

enum class DirectCollective : std::uint8_t {
  AllReduce, ///< each rank sums its share of the piece from all peers and writes it to all: two crossings
  /// each rank mails the whole piece to all peers, data and flag in one word, so that nobody waits
  /// for a flag of its own (NCCL's LL protocol). Pieces up to kMaxLowLatencyBytes
  AllReduceLowLatency,
  ReduceScatter, ///< each rank sums its piece from all peers
  Gather,        ///< each rank reads its peers' pieces: all-gather and all-to-all
};

struct DirectSettings {
  DirectCollective collective = DirectCollective::AllReduce;
  planner::DType dtype = planner::DType::Bf16;
  int cta_count = 8; ///< 1..kMaxDirectCtas, the same on all ranks
};

/// Enqueues one rank's part of a block's collective. All ranks enqueue the same blocks in the same order. Sums are
/// taken in f32; every rank of an all-reduce gets the same bits. 16-byte accesses where addresses and counts
/// allow it, single elements otherwise. Throws SystemError.
void enqueue_direct(const DirectSettings& settings, const BlockExchange& block, const SignalMemory& signals,
                    cudaStream_t stream);

/// Most blocks of one kernel. A second kernel, enqueued before the matmuls that the first waits for, could stand before
/// them where streams share a queue (CUDA_DEVICE_MAX_CONNECTIONS=1).
inline constexpr int kMaxSpanBlocks = 64;

/// Consecutive blocks that one kernel exchanges one after the other.
struct BlockSpan {
  /// Where a block lies, in elements from the first one on.
  struct Place {
    std::int64_t send_first = 0;
    std::int64_t receive_first = 0;
    std::int64_t element_count = 0;
  };
  BlockExchange base{}; ///< the first block; meets_after is the last one's
  int block_count = 0;
  bool waits = false; ///< for all ranks' announcements of each block
  std::array<Place, kMaxSpanBlocks> places{};
};

/// Whether one kernel can carry the blocks: it moves 16 bytes at a time only, and dense pieces.
[[nodiscard]] bool can_span(const std::vector<BlockExchange>& blocks, planner::DType dtype, int world_size);

/// Enqueues one rank's part of an all-reduce or reduce-scatter of all blocks as one kernel, which is there from the
/// start: a block costs no launch and no meeting, and the SMs stay taken in between, so that the matmuls find the same
/// ones free. `waits`: each block starts when all ranks have announced it. At most kMaxSpanBlocks. Throws SystemError.
void enqueue_span(const DirectSettings& settings, const std::vector<BlockExchange>& blocks, bool waits,
                  const SignalMemory& signals, cudaStream_t stream);

/// Enqueues the announcement, to all ranks, that the rank's next block since the last meeting is ready.
void enqueue_announcement(const SignalMemory& signals, cudaStream_t stream);

/// DirectCollective::AllReduceLowLatency. Throws SystemError.
void enqueue_mail(planner::DType dtype, const BlockExchange& block, const SignalMemory& signals, cudaStream_t stream);

/// Whether one kernel can mail the block and do what follows the sum: whole rows of C of at most 32 KiB.
[[nodiscard]] bool can_finish_mail(const BlockExchange& block, const RowEpilogue& epilogue, int rank);

/// enqueue_mail() and enqueue_epilogue() of the same rows by one kernel, where can_finish_mail(). C has the same bits;
/// squares are added in another order. Throws SystemError.
void enqueue_mail_and_finish(const BlockExchange& block, const RowEpilogue& epilogue, const SignalMemory& signals,
                             cudaStream_t stream);

/// Whether one kernel can carry an all-reduce and do what follows it: the last block of a run, of whole rows and at
/// most 32 MiB. The same on all ranks.
[[nodiscard]] bool can_finish_direct(const BlockExchange& block, const RowEpilogue& epilogue, int world_size);

/// DirectCollective::AllReduce and enqueue_epilogue() of the same rows, where can_finish_direct(): by one kernel, but
/// for a rank whose bias, residual, weight or normed rows do not begin at a multiple of 16 bytes. Ranks sum other
/// elements than by enqueue_direct(), so the last bit of a sum may differ from that one's, though not between ranks.
/// Throws SystemError.
/// @param sm_count the same on all ranks
void enqueue_direct_and_finish(const BlockExchange& block, const RowEpilogue& epilogue, int sm_count,
                               const SignalMemory& signals, cudaStream_t stream);

/// A rank's share of so many bytes, at most, in whole vectors of 16 bytes.
[[nodiscard]] constexpr std::int64_t rank_share_bytes(std::int64_t bytes, int world_size) noexcept {
  constexpr std::int64_t kVector = 16;
  return planner::ceil_div(planner::ceil_div(bytes, world_size), kVector) * kVector;
}

/// Pieces of one rank's own memory and their sum.
struct LocalSum {
  std::array<const std::byte*, kMaxCudaRanks> pieces{};
  int piece_count = 0;
  std::byte* sum = nullptr;
  std::int64_t element_count = 0;
  planner::DType dtype = planner::DType::Bf16;
};

/// Enqueues the sum, taken in f32 in the order of the pieces, by `cta_count` thread blocks. Throws SystemError.
void enqueue_sum(const LocalSum& local, int cta_count, cudaStream_t stream);

/// Enqueues a meeting of all ranks: what a rank enqueues after it starts when all ranks have come here. Announcements
/// are counted anew from here on.
void enqueue_meeting(const SignalMemory& signals, cudaStream_t stream);

} // namespace mc2::executor::cuda
