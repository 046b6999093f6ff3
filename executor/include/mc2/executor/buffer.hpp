#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  [[nodiscard]] std::int64_t element_count() const noexcept { return rows * columns; }
  bool operator==(const MatrixShape&) const = default;
};

/// What one rank brings and gets.
struct OperandShapes {
  MatrixShape a; ///< [m, k]; where A is gathered: the rank's shard [m / ranks, k]. all_to_all_matmul: rows
                 ///< [q m/ranks, (q+1) m/ranks) are for rank q. embedding_all_to_all: none, but EmbeddingBags.
                 ///< Grouped matmuls that sum: [m top_k, k], the choices of a token one below the other
  MatrixShape b; ///< [k, n], another one on every rank; of several experts one below the other. embedding_all_to_all:
                 ///< its tables, one below the other
  MatrixShape c; ///< [m, n]; where a sum is scattered: the rank's shard [m / ranks, n]. matmul_all_to_all: what ranks
                 ///< 0, 1, ... sent, one below the other, m / ranks rows each. embedding_all_to_all: [m / ranks,
                 ///< ranks n], a sample's features of rank 0's tables first, then those of rank 1's.
                 ///< all_gather_grouped_matmul: [m top_k, n], the choices of a token one below the other
  // Empty where the operator has none:
  MatrixShape bias = {};        ///< [1, n]; [experts, n]
  MatrixShape residual = {};    ///< C's
  MatrixShape norm_weight = {}; ///< [1, n]
  MatrixShape normed = {};      ///< C's
  /// i8: [1, 1], of the rank's A; [1, ranks], of all, for kinds that communicate first. f8e4m3: [1, 1], for kinds that
  /// communicate first of all ranks' A, the same on all.
  MatrixShape a_scales = {};
  MatrixShape b_scales =
      {}; ///< i8: [1, n], one per column of the rank's B, or [experts, n]; f8e4m3: [1, 1], of the rank's B
  bool operator==(const OperandShapes&) const = default;
};

/// The shapes of a legal operator's matrices.
[[nodiscard]] OperandShapes operand_shapes(const planner::OpSpec& op);
/// [m, k]: the rows of A of all ranks, one shard below the other.
[[nodiscard]] MatrixShape gathered_a_shape(const planner::OpSpec& op) noexcept;

/// Type of row numbers and offsets, as PyTorch's EmbeddingBag takes them.
enum class IndexType : std::uint8_t { I32, I64 };

/// Which rows the bags of one rank name, for embedding_all_to_all with T tables and m samples. The bag of table t and
/// sample i is number t m + i (as in a KeyedJaggedTensor of torchrec, one key per table) and names the rows
/// indices[offsets[t m + i]] up to and without indices[offsets[t m + i + 1]] of its table; a row may be named twice.
struct EmbeddingBags {
  std::span<const std::byte> offsets; ///< T m + 1 numbers, ascending from 0 to the number of indices
  std::span<const std::byte> indices; ///< row numbers, each at least 0 and less than a table's rows
  IndexType type = IndexType::I64;    ///< of both
};

/// Which experts the rows - tokens - of a grouped matmul chose: number `choice` of row i is at i top_k + choice. A row
/// may choose one twice.
struct ExpertChoices {
  std::span<const std::byte> experts; ///< m top_k numbers, each at least 0 and less than experts there are
  std::span<const std::byte> weights; ///< m top_k of f32, which the products count times, of kinds that sum; else empty
  IndexType type = IndexType::I64;    ///< of `experts`
};

inline constexpr float kUsualNormEpsilon = 1e-6F; ///< of Llama's and Qwen's models

/// The caller's matrices of one rank, row-major and densely packed, as operand_shapes() says, in memory of the rank's
/// device. A and B are of the operator's element type, C, what it is made with and what is made of it of
/// planner::product_type(), scales f32. Never owned: they must outlive every `Prepared` made from them. What is written
/// must not overlap another buffer, C not even the residual: it may hold intermediate sums.
struct RankBuffers {
  std::span<const std::byte> a;
  std::span<const std::byte> b; ///< read while preparing at the latest where a backend packs weights
  std::span<std::byte> c;       ///< written by every run
  /// of embedding_all_to_all, else empty. May be refilled between runs, as A may; prepare() checks
  /// every bag, and a run fails on one that has become illegal
  EmbeddingBags bags{};
  /// of grouped matmuls, of all m rows on every rank, which all bring the same; else empty. May be refilled between
  /// runs likewise; prepare() compares the ranks', runs only check what they read
  ExpertChoices choices{};
  /// Unequal splits of matmul_all_to_all and all_to_all_matmul: rows for each rank, and rows from each rank, no more
  /// than m / ranks between any two. Where ranks hold several experts, each number is one for every expert of the rank
  /// that multiplies: [ranks, experts]. A then has as many rows as are sent, C and the residual as many as are
  /// received. Rows of who multiplies are packed by expert, those of one expert by rank; the others by rank, those of
  /// one rank by its expert. Empty, on all ranks: m / (ranks experts) rows each. Numbers in memory of this process,
  /// read by prepare() only.
  std::span<const std::int64_t> send_counts{}, receive_counts{};
  /// Backend cuda only, on all ranks, instead of those two: what the rank sends, [ranks, experts] of 64 bits, in memory
  /// of its device, and read by every run anew. A, C and the residual then have m rows, as with equal splits; those
  /// beyond what the counts add up to are neither read nor written. Counts that are illegal make C NaN and fail the
  /// run.
  std::span<const std::byte> device_send_counts{};
  std::span<const std::byte> bias = {};        ///< read by every run, as is all that follows; empty without
  std::span<const std::byte> residual = {};    ///< empty without
  std::span<const std::byte> norm_weight = {}; ///< of each column; empty without a norm
  std::span<std::byte> normed = {};            ///< written by every run: C's rows, normalised; empty without a norm
  float norm_epsilon = kUsualNormEpsilon;      ///< added to the mean of a row's squares; more than 0
  std::span<const std::byte> a_scales = {};    ///< i8, f8e4m3: A's elements count times this; empty otherwise
  std::span<const std::byte> b_scales = {};    ///< i8: of each column of B; f8e4m3: of B; empty otherwise
  /// Kinds that gather A: where every run puts the rows of A of all ranks, [m, k], equal to them to the bit; preparing
  /// may write there, too. Empty on a rank that does not want them.
  std::span<std::byte> gathered_a = {};
  /// B is stored as its transpose [n, k], as torch.nn.Linear lays out its weight. Backend cuda only; the same on all
  /// ranks.
  bool b_is_transposed = false;
};

/// operand_shapes() of one rank: with as many rows of A, C and the residual as its counts add up to where it has any.
[[nodiscard]] OperandShapes rank_shapes(const planner::OpSpec& op, const RankBuffers& buffers) noexcept;

/// What every rank receives of what all ranks send: receive_counts, those of one rank behind those of the one before.
/// @param ranks  all of them, of which send_counts are read
/// Errors: InvalidSpec (counts) naming rank and value where preparing would refuse those.
[[nodiscard]] Result<std::vector<std::int64_t>> received_counts(const planner::OpSpec& op,
                                                                std::span<const RankBuffers> ranks);

} // namespace mc2::executor

#pragma GCC visibility pop
