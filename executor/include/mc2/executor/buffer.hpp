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

/// The shapes of one rank's matrices. Kinds differ where a comment says so.
struct OperandShapes {
  MatrixShape a; ///< [m, k]. Kinds that gather A: the rank's shard [m / ranks, k]. all_to_all_matmul: rows
                 ///< [q m/ranks, (q+1) m/ranks) go to rank q. embedding_all_to_all: empty; EmbeddingBags take its
                 ///< place. Grouped matmuls that sum: [m top_k, k], the top_k rows of a token one below the other
  MatrixShape b; ///< [k, n], different on every rank; the matrices of several experts are one below the other.
                 ///< embedding_all_to_all: the rank's tables, one below the other
  MatrixShape c; ///< [m, n]. Kinds that scatter a sum: the rank's shard [m / ranks, n]. matmul_all_to_all: the rows
                 ///< from rank 0, then from rank 1, ..., m / ranks rows each. embedding_all_to_all: [m / ranks,
                 ///< ranks n]; a row has a sample's features from rank 0's tables, then from rank 1's, ...
                 ///< all_gather_grouped_matmul: [m top_k, n], the top_k rows of a token one below the other
  // The following shapes are empty if the operator has no such operand:
  MatrixShape bias = {};        ///< [1, n]; with several experts [experts, n]
  MatrixShape residual = {};    ///< as C
  MatrixShape norm_weight = {}; ///< [1, n]
  MatrixShape normed = {};      ///< as C
  /// i8: [1, 1], the scale of the rank's A; kinds that communicate first: [1, ranks], the scales of all ranks' A.
  /// f8e4m3: [1, 1], the scale of the rank's A; kinds that communicate first: one scale for all ranks' A.
  MatrixShape a_scales = {};
  MatrixShape b_scales = {}; ///< i8: [1, n] or [experts, n], one per column of the rank's B; f8e4m3: [1, 1]
  bool operator==(const OperandShapes&) const = default;
};

/// The shapes of a legal operator's matrices.
[[nodiscard]] OperandShapes operand_shapes(const planner::OpSpec& op);
/// Bytes of one rank's operands, with equal splits, 64-bit numbers in bags and choices, and without a gathered A.
[[nodiscard]] std::int64_t operand_bytes(const planner::OpSpec& op);
/// [m, k]: A of all ranks, one shard below the other.
[[nodiscard]] MatrixShape gathered_a_shape(const planner::OpSpec& op) noexcept;

/// Integer type of row numbers, offsets and expert numbers, as in PyTorch's EmbeddingBag.
enum class IndexType : std::uint8_t { I32, I64 };

/// Which table rows the bags of one rank name, for embedding_all_to_all with T tables and m samples. Bags are numbered
/// as in a KeyedJaggedTensor of torchrec with one key per table: the bag of table t and sample i is number t m + i. It
/// names the rows indices[offsets[t m + i]], ..., indices[offsets[t m + i + 1] - 1] of table t. A bag may name a row
/// more than once.
struct EmbeddingBags {
  std::span<const std::byte> offsets; ///< T m + 1 numbers, ascending from 0 to the number of indices
  std::span<const std::byte> indices; ///< row numbers, each from 0 to below the number of rows of a table
  IndexType type = IndexType::I64;    ///< of both
};

/// Which experts the rows (tokens) of a grouped matmul chose: entry i top_k + c is choice c of row i. A row may choose
/// an expert more than once.
struct ExpertChoices {
  std::span<const std::byte> experts; ///< m top_k expert numbers, each from 0 to below the number of experts
  std::span<const std::byte> weights; ///< m top_k of f32: factors of the products. Empty for kinds that do not sum
  IndexType type = IndexType::I64;    ///< of `experts`
};

inline constexpr float kUsualNormEpsilon = 1e-6F; ///< value of Llama's and Qwen's models

/// The caller's matrices of one rank in memory of the rank's device, row-major and densely packed, shaped as
/// operand_shapes() says. A and B have the operator's element type; scales are f32; all other matrices have
/// planner::product_type(). The buffers are not owned: they must outlive every `Prepared` made from them. An output
/// must not overlap another buffer. This includes C and the residual, because C may hold intermediate sums.
struct RankBuffers {
  std::span<const std::byte> a;
  std::span<const std::byte> b; ///< a backend that packs weights reads B only while preparing
  std::span<std::byte> c;       ///< written by every run
  /// embedding_all_to_all only, else empty. May be refilled between runs, as A may. prepare() checks every bag; a run
  /// that meets an illegal bag fails.
  EmbeddingBags bags{};
  /// Grouped matmuls only, else empty: the choices of all m rows, the same on every rank. May be refilled between runs.
  /// prepare() checks that the ranks agree; a run checks only the numbers that it reads.
  ExpertChoices choices{};
  /// Unequal splits of matmul_all_to_all and all_to_all_matmul: the number of rows to each rank, and from each rank, at
  /// most m / ranks for each pair. Where ranks hold several experts, the arrays are [ranks, experts], with one number
  /// for each expert of the rank that multiplies the rows. A then has as many rows as the rank sends, C and the
  /// residual as many as it receives. On the side that multiplies, rows are sorted by expert, and within an expert by
  /// rank; on the other side by rank, and within a rank by its expert. Empty, which is so on all ranks or none: equal
  /// splits of m / (ranks experts) rows. In memory of this process; read by prepare() only.
  std::span<const std::int64_t> send_counts{}, receive_counts{};
  /// Backend cuda only, on all ranks or none, in place of send_counts and receive_counts: the rows that the rank sends,
  /// [ranks, experts] numbers of 64 bits in memory of its device. Every run reads them anew. A, C and the residual then
  /// have m rows, as with equal splits; rows beyond the sum of the counts are neither read nor written. Illegal counts
  /// fill C with NaN and fail the run.
  std::span<const std::byte> device_send_counts{};
  // Every run reads or writes what follows. Operands that the operator does not have are empty.
  std::span<const std::byte> bias = {};
  std::span<const std::byte> residual = {};
  std::span<const std::byte> norm_weight = {}; ///< one number per column
  std::span<std::byte> normed = {};            ///< output: the normalised rows of C
  float norm_epsilon = kUsualNormEpsilon;      ///< added to the mean of a row's squares; more than 0
  std::span<const std::byte> a_scales = {};    ///< i8, f8e4m3: factors of A's elements
  std::span<const std::byte> b_scales = {};    ///< i8: a factor for each column of B; f8e4m3: one factor for B
  /// Kinds that gather A: every run writes exact copies of all ranks' A here, [m, k]; preparing may write here, too.
  /// Empty on a rank that does not want them.
  std::span<std::byte> gathered_a = {};
  /// B is stored as its transpose [n, k], as torch.nn.Linear lays out its weight. Backend cuda only; the same on all
  /// ranks.
  bool b_is_transposed = false;
};

/// operand_shapes() of one rank. With unequal splits, the numbers of rows of A, C and the residual are the sums of the
/// rank's counts.
[[nodiscard]] OperandShapes rank_shapes(const planner::OpSpec& op, const RankBuffers& buffers) noexcept;

/// Computes the receive_counts of all ranks from their send_counts; returns them one rank after the other.
/// @param ranks  the buffers of all ranks; only send_counts are read
/// Errors: InvalidSpec (counts) naming rank and value, for send_counts that prepare() would refuse.
[[nodiscard]] Result<std::vector<std::int64_t>> received_counts(const planner::OpSpec& op,
                                                                std::span<const RankBuffers> ranks);

} // namespace mc2::executor

#pragma GCC visibility pop
