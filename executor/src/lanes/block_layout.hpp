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

/// Where one rank's data lies. The intermediate is what passes between the lanes: the partial product [m, n] of kinds
/// that compute first - where blocks are columns, block after block, each [m, b], so that a block is one message -,
/// the rows of A [m, k] that kinds that communicate first bring together: in the caller's gathered A where there is one
/// and they do not lie block after block.
struct RankMatrices {
  RankBuffers buffers;
  std::span<std::byte> intermediate;
  std::span<std::byte> spare_intermediate; ///< what the communication lane works on in RunMode::Independent
  /// The intermediate lies block after block, and in a block rank after rank, so that the pieces of all ranks are one
  /// message. Equal splits only.
  bool is_staged = false;
};

/// Whether the collective brings rows of A together, instead of exchanging products.
[[nodiscard]] bool communicates_first(const planner::OpSpec& op) noexcept;

[[nodiscard]] std::int64_t intermediate_bytes(const planner::OpSpec& op) noexcept;

/// Bytes that each rank sends each other rank for `length` rows or columns of the cut axis.
[[nodiscard]] std::int64_t piece_bytes(const planner::OpSpec& op, std::int64_t length) noexcept;

/// How the rows of a piece lie where it lands.
struct RowPitch {
  std::int64_t row_bytes = 0;
  std::int64_t pitch_bytes = 0; ///< from one row to the next
  [[nodiscard]] bool is_dense() const noexcept { return row_bytes == pitch_bytes; }
};

/// Pieces land densely, but where they lie side by side as columns of C.
[[nodiscard]] RowPitch landing_pitch(const planner::OpSpec& op) noexcept;

/// What passes between the lanes at once: a stage, or what one peer sends of it.
struct StagePart {
  Stage stage;
  std::optional<int> only_from; ///< for kinds that communicate first
};

/// What a rank computes for a part of a stage; neighbouring rows are one run.
[[nodiscard]] MatmulWork part_work(const planner::OpSpec& op, const RowSplits& splits, int rank, const StagePart& part,
                                   const RankMatrices& own);

/// What goes with a rank's B, or an expert's of several: with kinds that sum, bias and residual are added to the sum,
/// not to the products.
[[nodiscard]] GemmWeights gemm_weights(const planner::OpSpec& op, const RankBuffers& own, int expert = 0);

/// What a rank multiplies before its first stage: the rows of A that are its own already, for a kind with a local
/// part; no runs otherwise, or if there are none.
[[nodiscard]] MatmulWork local_work(const planner::OpSpec& op, const RowSplits& splits, int rank,
                                    const RankMatrices& own);

/// The addresses and sizes of one part's exchange, by rank. An address of no bytes means nothing.
struct PieceAddresses {
  std::vector<const std::byte*> sources;    ///< what this rank gets: its piece in each rank's memory, its own included
  std::vector<const std::byte*> outgoing;   ///< what this rank sends each other rank
  std::vector<std::byte*> landings;         ///< where the pieces go; null where they are summed, and for an own piece
                                            ///< that the local part reads where it is
  std::vector<std::byte*> remote_landings;  ///< where what this rank sends lands at each other rank; null where summed
  std::vector<const std::byte*> residuals;  ///< what is added to the pieces that landed, by rank; null for nothing
  std::vector<std::int64_t> incoming_bytes; ///< of each source
  std::vector<std::int64_t> outgoing_bytes;

  explicit PieceAddresses(std::size_t rank_count = 0)
      : sources(rank_count),
        outgoing(rank_count),
        landings(rank_count),
        remote_landings(rank_count),
        residuals(rank_count),
        incoming_bytes(rank_count),
        outgoing_bytes(rank_count) {}
};

/// Where one part's exchange takes place.
struct ExchangeSite {
  int rank = 0;
  StagePart part;
  bool uses_spare = false; ///< the intermediates for RunMode::Independent
};

/// Where the sum of pieces goes. The elements of a piece are rows of `columns`; so are those of C, `row_stride`
/// apart. The block's bias starts with its first column and its residual with its first element; null without.
struct SumTarget {
  std::byte* first = nullptr;  ///< of the block in C; null where pieces are not summed
  std::int64_t columns = 0;    ///< of the block
  std::int64_t row_stride = 0; ///< in elements, of the residual too
  const std::byte* bias = nullptr;
  const std::byte* residual = nullptr;
  NormTarget norm = {}; ///< where the block's rows are whole rows of C

  /// Whether the sum goes to C as it is, one row behind the other.
  [[nodiscard]] bool is_plain() const noexcept {
    return columns == row_stride && bias == nullptr && residual == nullptr && norm.rows == nullptr;
  }
};

/// Whether rows of C are whole, and can be normalised, after the last block only.
[[nodiscard]] bool norms_after_blocks(const StageList& list) noexcept;
/// Normalises all rows of C.
void norm_result(const planner::OpSpec& op, const RankMatrices& own) noexcept;

/// Completes the gathered A that the caller wants once all blocks have come: adds the rank's own rows, and copies those
/// of the others where they lie block after block.
void complete_gathered_a(const StageList& list, int rank, const RankMatrices& own) noexcept;

[[nodiscard]] SumTarget sum_target(const planner::OpSpec& op, const Stage& stage, const RankMatrices& own) noexcept;

/// Fills `pieces`, which has one element per rank; allocates nothing. What lies in memory of a rank that `ranks` does
/// not know is null.
void locate_pieces(const planner::OpSpec& op, const RowSplits& splits, const ExchangeSite& site,
                   std::span<const RankMatrices> ranks, PieceAddresses& pieces) noexcept;

} // namespace mc2::executor::lanes
