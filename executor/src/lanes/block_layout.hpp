#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lanes/compute_device.hpp"
#include "lanes/rms_norm.hpp"
#include "mc2/executor/buffer.hpp"
#include "row_splits.hpp"
#include "stage.hpp"

namespace mc2::executor::lanes {

/// Where one rank's data lie. The intermediate is the data that pass between the lanes. In kinds that compute first it
/// is the rank's product [m, n]; where blocks are columns, it lies block after block, each [m, b], so that a block is
/// one message. In kinds that communicate first it is the rows of A that arrive, [m, k]; it is the caller's gathered A
/// if there is one, unless is_staged.
struct RankMatrices {
  RankBuffers buffers;
  std::span<std::byte> intermediate;
  std::span<std::byte> spare_intermediate; ///< used by the communication lane in RunMode::Independent
  /// The intermediate lies block after block, and within a block rank after rank, so that the pieces of all ranks are
  /// one message. Equal splits only.
  bool is_staged = false;
};

/// Whether the collective moves rows of A; else it exchanges products.
[[nodiscard]] bool communicates_first(const planner::OpSpec& op) noexcept;

[[nodiscard]] std::int64_t intermediate_bytes(const planner::OpSpec& op) noexcept;

/// Bytes that each rank sends each other rank for `length` rows or columns of the cut axis.
[[nodiscard]] std::int64_t piece_bytes(const planner::OpSpec& op, std::int64_t length) noexcept;

/// The distance between the rows of a piece where it lands.
struct RowPitch {
  std::int64_t row_bytes = 0;
  std::int64_t pitch_bytes = 0; ///< from one row to the next
  [[nodiscard]] bool is_dense() const noexcept { return row_bytes == pitch_bytes; }
};

/// The distance in landed pieces. They are dense, except in kinds whose pieces lie side by side as columns of C.
[[nodiscard]] RowPitch landing_pitch(const planner::OpSpec& op) noexcept;

/// The unit that passes between the lanes: a stage, or the slice of it that one peer sends.
struct StagePart {
  Stage stage;
  std::optional<int> only_from; ///< the peer whose slice this is, in kinds that communicate first; unset: whole stage
};

/// The matmuls of a rank for a part of a stage. Contiguous rows are one run.
[[nodiscard]] MatmulWork part_work(const planner::OpSpec& op, const RowSplits& splits, int rank, const StagePart& part,
                                   const RankMatrices& own);

/// The weights of a rank's B, or of one expert's B. Kinds that sum have neither bias nor residual here, because they
/// are added to the sum and not to the products.
[[nodiscard]] GemmWeights gemm_weights(const planner::OpSpec& op, const RankBuffers& own, int expert = 0);

/// The matmuls of a rank's local part, which takes the rank's own rows of A. No runs for a kind without a local part,
/// or if the rank has no such rows.
[[nodiscard]] MatmulWork local_work(const planner::OpSpec& op, const RowSplits& splits, int rank,
                                    const RankMatrices& own);

/// The addresses and sizes of one part's exchange, by rank. Where the size is 0 the address has no meaning.
struct PieceAddresses {
  std::vector<const std::byte*> sources;   ///< the pieces for this rank, in each rank's memory, its own included
  std::vector<const std::byte*> outgoing;  ///< the pieces that this rank sends to each other rank
  std::vector<std::byte*> landings;        ///< where the pieces for this rank go; null where pieces are summed, and for
                                           ///< the rank's own piece if the local part reads it in A
  std::vector<std::byte*> remote_landings; ///< where pieces from this rank go on each other rank; null where summed
  std::vector<const std::byte*> residuals; ///< the residual to add to each piece that has landed; null: none
  std::vector<std::int64_t> incoming_bytes; ///< size of each piece for this rank
  std::vector<std::int64_t> outgoing_bytes; ///< size of each piece that this rank sends

  explicit PieceAddresses(std::size_t rank_count = 0)
      : sources(rank_count),
        outgoing(rank_count),
        landings(rank_count),
        remote_landings(rank_count),
        residuals(rank_count),
        incoming_bytes(rank_count),
        outgoing_bytes(rank_count) {}
};

/// The rank and the part of an exchange.
struct ExchangeSite {
  int rank = 0;
  StagePart part;
  bool uses_spare = false; ///< works on spare_intermediate, for RunMode::Independent
};

/// Where the sum of pieces goes. A piece has dense rows of `columns` elements; in C these rows are `row_stride` apart.
struct SumTarget {
  std::byte* first = nullptr;          ///< the block's first element in C; null where pieces are not summed
  std::int64_t columns = 0;            ///< columns of the block
  std::int64_t row_stride = 0;         ///< elements from one row of C to the next, and of the residual
  const std::byte* bias = nullptr;     ///< bias of the block's first column; null: none
  const std::byte* residual = nullptr; ///< residual of the block's first element; null: none
  NormTarget norm = {};                ///< set if the block's rows are whole rows of C, which can be normalised

  /// Whether the sum is written to C densely and without additions.
  [[nodiscard]] bool is_plain() const noexcept {
    return columns == row_stride && bias == nullptr && residual == nullptr && norm.rows == nullptr;
  }
};

/// Whether rows can be normalised only after the last block, because blocks are columns and no block has whole rows.
[[nodiscard]] bool norms_after_blocks(const StageList& list) noexcept;
/// Normalises all rows of C.
void norm_result(const planner::OpSpec& op, const RankMatrices& own) noexcept;

/// Completes the gathered A that the caller wants, after the last block: copies the rank's own rows, and with is_staged
/// also the other ranks' rows.
void complete_gathered_a(const StageList& list, int rank, const RankMatrices& own) noexcept;

[[nodiscard]] SumTarget sum_target(const planner::OpSpec& op, const Stage& stage, const RankMatrices& own) noexcept;

/// Fills `pieces`, which has one element per rank. Allocates nothing. Addresses in the memory of ranks whose entry in
/// `ranks` is empty become null.
void locate_pieces(const planner::OpSpec& op, const RowSplits& splits, const ExchangeSite& site,
                   std::span<const RankMatrices> ranks, PieceAddresses& pieces) noexcept;

} // namespace mc2::executor::lanes
