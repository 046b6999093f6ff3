#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cuda/kernels/epilogue.hpp"
#include "backends/cuda/runtime/limits.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {

/// Most thread blocks of one direct collective; each has flags of its own.
inline constexpr int kMaxDirectCtas = 128;

/// Words of signal memory that every rank provides, zero at first: flags that peers write, and counters of the rank's
/// own.
inline constexpr std::size_t kSignalWords =
    std::size_t{3} * kMaxDirectCtas * kMaxCudaRanks + 3 * kMaxDirectCtas + kMaxCudaRanks + 1;

/// Largest piece of a low-latency all-reduce, in bytes, and the mail that every rank provides for it, zero at first.
/// The mail holds two pieces of every peer, used alternately, in packets of 16 bytes with 8 bytes of data each.
inline constexpr std::int64_t kMaxLowLatencyBytes = std::int64_t{256} << 10U;
inline constexpr std::size_t kMailBytes = std::size_t{2} * kMaxCudaRanks * 2 * kMaxLowLatencyBytes;

/// The memory by which the ranks' kernels meet. A flag holds the number of the kernel that raised it, so flags are
/// never reset.
struct SignalMemory {
  std::array<std::uint32_t*, kMaxCudaRanks> words{}; ///< by rank: its kSignalWords, which peers may write
  std::array<uint4*, kMaxCudaRanks> mail{};          ///< by rank: its kMailBytes, which peers may write
  const std::uint32_t* abort = nullptr;              ///< kernels stop waiting when this is not 0
  int rank = 0;
  int world_size = 0;
};

/// Rows that are contiguous both at their source and at their destination.
struct RowRun {
  std::int64_t from_row = 0, to_row = 0, row_count = 0;
};

/// Rows that a rank reads from a peer.
struct RowCopy {
  std::int64_t peer = 0;
  RowRun rows{};
};

/// A list in memory of the rank's device.
struct RowCopies {
  const RowCopy* first = nullptr;
  int count = 0;
};

class RowRuns;

/// What one block's collective reads and writes. A piece has element_count elements. Rank p's piece for rank q starts
/// at send[p] + q send_stride and, unless pieces are summed, is copied to receive[q] + p receive_stride.
struct BlockExchange {
  std::array<const std::byte*, kMaxCudaRanks> send{}; ///< by rank
  std::array<std::byte*, kMaxCudaRanks> receive{};    ///< by rank
  /// by rank: room for a piece of every peer, if stages_pieces()
  std::array<std::byte*, kMaxCudaRanks> staging{};
  std::int64_t element_count = 0;
  std::int64_t send_stride = 0;    ///< elements; 0: all ranks get the same piece
  std::int64_t receive_stride = 0; ///< elements
  std::int64_t row_elements = 0;   ///< elements per row of a piece that is put down row by row; 0: it stays dense
  std::int64_t receive_pitch = 0;  ///< elements between the starts of two such rows
  /// Set if ranks have unequal pieces, or several experts: which rows go where. Then send and receive are whole
  /// matrices, and element_count is that of a row.
  const RowRuns* row_runs = nullptr;
  std::int64_t first_row = 0, row_count = 0;         ///< with row_runs: the block
  std::array<RowCopies, kMaxCudaRanks> row_copies{}; ///< with row_runs, by rank: the copies of its kernel
  bool meets_before = false; ///< ranks meet first: peers make their pieces in this run and may be later than this rank
  bool meets_after = false;  ///< ranks meet at the end: peers may still read or write when this rank's own work is done
  bool is_last = false;      ///< last block of the run; nothing is multiplied beside it
  bool leaves_sum = false;   ///< the rank neither waits for pieces in staging memory nor sums them
  bool copies_own = false;   ///< if pieces are not summed: the rank's own piece is copied to its place, too
};

enum class DirectCollective : std::uint8_t {
  AllReduce, ///< each rank sums its share of the piece over all ranks and writes it to all: two crossings
  /// each rank mails the whole piece to all peers, with data and flag in one packet, so that nobody waits for a
  /// separate flag (NCCL's LL protocol). Pieces of up to kMaxLowLatencyBytes
  AllReduceLowLatency,
  ReduceScatter, ///< each rank sums its piece over all ranks
  Gather,        ///< each rank reads its peers' pieces: all-gather and all-to-all
};

struct DirectSettings {
  DirectCollective collective = DirectCollective::AllReduce;
  planner::DType dtype = planner::DType::Bf16;
  int cta_count = 8; ///< 1..kMaxDirectCtas, the same on all ranks
};

/// Enqueues one rank's part of a block's collective. All ranks enqueue the same blocks in the same order. Sums are
/// taken in f32, and every rank of an all-reduce gets the same bits. Uses 16-byte accesses if addresses and counts
/// allow them, else single elements. Throws SystemError.
void enqueue_direct(const DirectSettings& settings, const BlockExchange& block, const SignalMemory& signals,
                    cudaStream_t stream);

/// Most blocks of one kernel. There is no second kernel: enqueued before the matmuls that the first one waits for, it
/// might block these where streams share a queue (CUDA_DEVICE_MAX_CONNECTIONS=1).
inline constexpr int kMaxSpanBlocks = 64;

/// Consecutive blocks that one kernel exchanges one after the other.
struct BlockSpan {
  /// The place of a block, in elements relative to the first block.
  struct Place {
    std::int64_t send_first = 0;
    std::int64_t receive_first = 0;
    std::int64_t element_count = 0;
  };
  BlockExchange base{}; ///< the first block, but with meets_after of the last
  int block_count = 0;
  bool waits = false; ///< waits for all ranks' announcements of each block
  std::array<Place, kMaxSpanBlocks> places{};
};

/// Whether one kernel can carry the blocks: their pieces must be dense and allow accesses of 16 bytes.
[[nodiscard]] bool can_span(const std::vector<BlockExchange>& blocks, planner::DType dtype, int world_size);

/// Enqueues one rank's part of an all-reduce or reduce-scatter of all blocks as one kernel, which runs from the start.
/// So a block costs no launch and no meeting, and the kernel keeps its SMs between blocks, so that all matmuls find the
/// same SMs free. At most kMaxSpanBlocks blocks. Throws SystemError.
/// @param waits  each block starts when all ranks have announced it
void enqueue_span(const DirectSettings& settings, const std::vector<BlockExchange>& blocks, bool waits,
                  const SignalMemory& signals, cudaStream_t stream);

/// Enqueues an announcement to all ranks: this rank's next block since the last meeting is ready.
void enqueue_announcement(const SignalMemory& signals, cudaStream_t stream);

/// Enqueues DirectCollective::AllReduceLowLatency. Throws SystemError.
void enqueue_mail(planner::DType dtype, const BlockExchange& block, const SignalMemory& signals, cudaStream_t stream);

/// Whether one kernel can mail the block and then carry out the epilogue: at most 64 whole rows of C, of at most 32 KiB
/// each.
[[nodiscard]] bool can_finish_mail(const BlockExchange& block, const RowEpilogue& epilogue, int rank);

/// Does the work of enqueue_mail() and of enqueue_epilogue() on the same rows by one kernel. Requires
/// can_finish_mail(). C has the same bits; the squares of a norm are added in another order. Throws SystemError.
void enqueue_mail_and_finish(const BlockExchange& block, const RowEpilogue& epilogue, const SignalMemory& signals,
                             cudaStream_t stream);

/// Whether one kernel can carry an all-reduce and the epilogue after it: the last block of a run, with whole rows and
/// at most 32 MiB. The same on all ranks.
[[nodiscard]] bool can_finish_direct(const BlockExchange& block, const RowEpilogue& epilogue, int world_size);

/// Does the work of DirectCollective::AllReduce and of enqueue_epilogue() on the same rows. Requires
/// can_finish_direct(). It is one kernel, but two on a rank whose bias, residual, weight or normed rows do not start at
/// a multiple of 16 bytes. The last bit of a sum may differ from enqueue_direct()'s, because ranks sum other elements;
/// it does not differ between ranks. Throws SystemError.
/// @param sm_count the same on all ranks
void enqueue_direct_and_finish(const BlockExchange& block, const RowEpilogue& epilogue, int sm_count,
                               const SignalMemory& signals, cudaStream_t stream);

/// The largest share of a rank when `bytes` are divided in whole vectors of 16 bytes.
[[nodiscard]] constexpr std::int64_t rank_share_bytes(std::int64_t bytes, int world_size) noexcept {
  constexpr std::int64_t kVector = 16;
  return planner::align_up(planner::ceil_div(bytes, world_size), kVector);
}

/// Pieces in one rank's own memory, and where their sum goes.
struct LocalSum {
  std::array<const std::byte*, kMaxCudaRanks> pieces{};
  int piece_count = 0;
  std::byte* sum = nullptr;
  std::int64_t element_count = 0;
  planner::DType dtype = planner::DType::Bf16;
};

/// Enqueues the sum by `cta_count` thread blocks. It is taken in f32 in the order of the pieces. Throws SystemError.
void enqueue_sum(const LocalSum& local, int cta_count, cudaStream_t stream);

/// Enqueues a meeting of all ranks: what a rank enqueues after it starts when all ranks have reached the meeting.
/// Announcements are counted from 0 again. Throws SystemError.
void enqueue_meeting(const SignalMemory& signals, cudaStream_t stream);

} // namespace mc2::executor::cuda
