#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/planner/units.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// A fused matmul + collective operator. Values are stored and served: never renumber or reuse one. The table in
/// src/kinds.cpp says what each kind is; code asks for a trait, not for a kind.
enum class OpKind : std::uint8_t {
  MatmulAllReduce = 1,
  MatmulReduceScatter = 2,
  AllGatherMatmul = 3,
  MatmulAllToAll = 4,
  AllToAllMatmul = 5,
  EmbeddingAllToAll = 6,
  AllGatherGroupedMatmul = 7,
  GroupedMatmulReduceScatter = 8,
  GroupedMatmulAllReduce = 9,
};

/// The two lanes of a pipeline. A block passes one, then the other.
enum class Lane : std::uint8_t { Compute = 1, Communication = 2 };

[[nodiscard]] constexpr Lane other(Lane lane) noexcept {
  return lane == Lane::Compute ? Lane::Communication : Lane::Compute;
}

/// What the communication lane does. Values are stored: never renumber.
enum class Collective : std::uint8_t { AllReduce = 1, ReduceScatter = 2, AllGather = 3, AllToAll = 4 };

[[nodiscard]] std::string_view to_string(Collective collective) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<Collective> parse_collective(std::string_view text);

/// Where blocks are cut from the product: runs of its rows, or of its columns.
enum class CutAxis : std::uint8_t { Rows = 1, Columns = 2 };

/// What the rows of C are divided by to make a second result. Values are stored: never renumber.
enum class Norm : std::uint8_t {
  None = 0,
  Rms = 1, ///< the root of the mean of their squares (Zhang and Sennrich, "Root mean square layer normalization", 2019)
};

/// "none" or "rms".
[[nodiscard]] std::string_view to_string(Norm norm) noexcept;
/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<Norm> parse_norm(std::string_view text);

/// What is done to the product: C = op(A, B) + bias + residual, and optionally a second result, C with normalised rows
/// (docs/operators.md).
struct Epilogue {
  bool has_bias = false;     ///< one number per column, [n]
  bool has_residual = false; ///< a matrix of C's shape
  Norm norm = Norm::None;    ///< only for kinds that sum over ranks
  [[nodiscard]] bool is_empty() const noexcept { return *this == Epilogue{}; }
  /// Whether C is more than the product.
  [[nodiscard]] bool adds() const noexcept { return has_bias || has_residual; }
  auto operator<=>(const Epilogue&) const = default;
};

/// "none", or the parts that it has, in the order of "bias+residual+rms_norm".
[[nodiscard]] std::string_view to_string(const Epilogue& epilogue) noexcept;
/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<Epilogue> parse_epilogue(std::string_view name);

/// What the compute lane does.
enum class Work : std::uint8_t {
  Matmul,        ///< 2 m n k flops: a multiplication and an addition for each inner step
  Pooling,       ///< m n k flops: one addition for each row that a bag names
  GroupedMatmul, ///< 2 m n k flops for each expert that a row chooses
};

/// "matmul", "pooling", "grouped matmul": for texts about the compute lane.
[[nodiscard]] std::string_view to_string(Work work) noexcept;

/// How the rows that a bag names are combined; an empty bag gives zeros. Values are stored: never renumber.
enum class Pooling : std::uint8_t { Sum = 1, Mean = 2 };

[[nodiscard]] std::string_view to_string(Pooling pooling) noexcept;

/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<Pooling> parse_pooling(std::string_view text);

/// The tables that one rank holds, all of one shape: [row_count, n / table_count] each, row-major.
struct EmbeddingTables {
  std::int64_t table_count = 0;
  std::int64_t row_count = 0; ///< of every table
  Pooling pooling = Pooling::Sum;

  /// Errors: InvalidSpec (tables, table_rows) for a number outside 1 to kMaxSize.
  [[nodiscard]] Result<void> validate() const;
  auto operator<=>(const EmbeddingTables&) const = default;
};

/// The experts of a grouped matmul. Every rank holds a part of each expert, and each of the m rows (tokens) chooses
/// some of the experts.
struct ChosenExperts {
  std::int64_t count = 0; ///< experts; B is this many matrices [k, n], one below the other
  std::int64_t top_k = 0; ///< experts that each row chooses: 1 to kMaxTopK, and at most `count`

  /// Errors: InvalidSpec (experts) for a count outside 1 to kMaxSize, (top_k) outside its range.
  [[nodiscard]] Result<void> validate() const;
  auto operator<=>(const ChosenExperts&) const = default;
};
inline constexpr std::int64_t kMaxTopK = 64;

/// One problem: what one rank computes and what the ranks then exchange.
struct OpSpec {
  OpKind kind = OpKind::MatmulAllReduce;
  std::int64_t m = 0; ///< rows of the product of one rank's matmul. embedding_all_to_all: samples of the whole batch.
                      ///< Of grouped matmuls: tokens, each of which is in top_k products
  std::int64_t n = 0; ///< columns of the product. embedding_all_to_all: pooled features of all tables of one rank
  std::int64_t k = 0; ///< inner length of one rank's matmul: A is [m, k], B is [k, n], row-major.
                      ///< embedding_all_to_all: rows that a bag names on average; costs follow it, results do not
  DType dtype = DType::F32;
  int world_size = 0;                      ///< ranks that take part
  std::optional<EmbeddingTables> tables{}; ///< embedding_all_to_all has them, and no other kind
  Epilogue epilogue = {};                  ///< not of embedding_all_to_all
  /// Whole experts that a rank holds; above 1 only for kinds that take counts. B is this many matrices [k, n], one
  /// below the other, and each row is multiplied by its expert's matrix. docs/operators.md gives the order of the rows
  std::int64_t experts_per_rank = 1;
  std::optional<ChosenExperts> experts{}; ///< grouped matmuls have them, and no other kind

  /// Errors: InvalidSpec naming the first field that is illegal:
  ///   a size outside 1..kMaxSize, or ranks outside 2..kMaxWorldSize;
  ///   experts_per_rank above 1 for a kind that takes no counts;
  ///   m that is no multiple of m_step();
  ///   tables or experts that are missing for a kind that needs them, or present for another kind, or not valid;
  ///   n that is no multiple of the number of tables;
  ///   an epilogue of a kind that pools, or a residual of a grouped matmul that does not sum over ranks;
  ///   a dtype with scales of a kind that pools or of a grouped matmul;
  ///   a norm of a kind that does not sum over ranks;
  ///   k above kMaxI8K for i8, where sums of products could exceed 32 bits;
  ///   "m, n, k" for an operand above kMaxOperandBytes.
  [[nodiscard]] Result<void> validate() const;

  /// Flops of one rank: 2 m n k of a matmul, that times top_k of a grouped one, m n k of pooling.
  [[nodiscard]] double flop_count() const noexcept { return flop_count(m); }
  /// Flops of `rows` rows of the product.
  [[nodiscard]] double flop_count(std::int64_t rows) const noexcept;

  /// "matmul_all_reduce m=4096 n=8192 k=3072 bf16 x8 bias+residual", for people and logs.
  [[nodiscard]] std::string text() const;

  auto operator<=>(const OpSpec&) const = default;
};

inline constexpr std::int64_t kMaxSize = 1'000'000'000;
inline constexpr int kMaxWorldSize = 65536;
inline constexpr std::int64_t kMaxI8K = ((std::int64_t{1} << 31) - 1) / (128 * 128); ///< for products of -128 and -128
inline constexpr std::int64_t kMaxOperandBytes = std::int64_t{1} << 46;

/// Rows of one tile. A matmul of up to this many rows reads all of B whatever their number, so memory sets its time.
inline constexpr std::int64_t kFewRows = 64;

/// All that planner and executor know of an operator kind: one row of the table in src/kinds.cpp.
struct OpTraits {
  OpKind kind;
  std::string_view name; ///< served name, e.g. "matmul_all_reduce"
  Work work;             ///< what the compute lane does
  Collective collective; ///< what the communication lane does
  Lane first_lane;       ///< the lane that a block passes first
  /// The m rows form a shard of m / ranks rows for each rank that they come from or go to. Blocks are cut along the
  /// shards: a block of b rows takes b rows of every shard.
  bool has_row_shards;
  /// A rank's own shard needs no communication: its matmul runs before the first block arrives.
  bool has_local_part;
  /// A rank brings m / ranks rows of A and receives the rows of all ranks, which it may keep.
  bool gathers_a = false;
  /// Ranks may send one another any number of rows up to m / ranks, and may hold several experts.
  bool takes_counts = false;
  /// The received parts lie side by side in C, [m / ranks, ranks n], not one below the other.
  bool lands_side_by_side = false;
  /// If the product has at most this many rows, blocks are cut from n: there are too few rows to cut, and columns
  /// stored block after block keep a message contiguous. 0: never.
  std::int64_t max_column_cut_m = 0;
  /// Length of the axis that blocks are cut from: m, m / ranks with row shards, or n.
  std::int64_t (*cut_axis_length)(const OpSpec&);
  /// Bytes of the full array that one row or column of the cut axis contributes to the collective (nccl-tests'
  /// convention).
  std::int64_t (*message_bytes_per_unit)(const OpSpec&);

  [[nodiscard]] bool communicates_first() const noexcept { return first_lane == Lane::Communication; }
  /// Whether the collective adds up what the ranks bring, instead of only moving it.
  [[nodiscard]] bool sums() const noexcept {
    return collective == Collective::AllReduce || collective == Collective::ReduceScatter;
  }
  /// Whether the collective moves the compute lane's products and leaves their values as they are.
  [[nodiscard]] bool moves_products() const noexcept { return !communicates_first() && !sums(); }
};

/// All operator kinds, in order of preference in listings.
[[nodiscard]] std::span<const OpTraits> op_registry() noexcept;

/// The traits of a kind; every OpKind has them.
[[nodiscard]] const OpTraits& traits_of(OpKind kind);

/// The kinds that have a trait, for messages: "matmul_all_to_all and all_to_all_matmul".
[[nodiscard]] std::string kinds_with(bool (*has_trait)(const OpTraits&));

/// The number of which every legal m is a multiple: 1 for kinds without row shards, otherwise ranks times
/// experts_per_rank. `op` may be illegal.
[[nodiscard]] std::int64_t m_step(const OpSpec& op);

/// Matrices [k, n] in one rank's B: one for each expert of which the rank holds all or a part.
[[nodiscard]] std::int64_t matrix_count(const OpSpec& op) noexcept;

/// Products of one row with matrices of B: one for each expert that the row chooses, 1 if rows choose none.
[[nodiscard]] std::int64_t products_per_row(const OpSpec& op) noexcept;

/// Element type of the product, C, bias and residual: the operator's, or bf16 for types with scales (i8, f8e4m3).
[[nodiscard]] DType product_type(const OpSpec& op) noexcept;

/// Element type of what the ranks exchange: A's if the kind communicates first, otherwise the product's.
[[nodiscard]] DType exchange_type(const OpSpec& op);

/// The axis that the blocks of an operator are cut from: their lengths count rows or columns.
[[nodiscard]] CutAxis cut_axis(const OpSpec& op);

/// The length of that axis.
[[nodiscard]] std::int64_t cut_axis_length(const OpSpec& op);

/// "rows" or "columns".
[[nodiscard]] std::string_view to_string(CutAxis axis) noexcept;

/// What a block's length counts, for people: "rows", "columns" or, with row shards, "rows of each rank's m / ranks".
[[nodiscard]] std::string cut_axis_text(const OpSpec& op);

/// Whether block costs of `profiled` hold for `op`: both have the same cut axis, and differ at most in its length, i.e.
/// in m where rows are cut and in n where columns are cut.
[[nodiscard]] bool has_same_block_costs(const OpSpec& profiled, const OpSpec& op);

/// The operator with m = 0 where rows are cut, or n = 0 where columns are cut. Operators with the same block costs give
/// equal results.
[[nodiscard]] OpSpec of_any_length(OpSpec op);

[[nodiscard]] std::string_view to_string(OpKind kind);

/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<OpKind> parse_op_kind(std::string_view name);

[[nodiscard]] std::string_view to_string(Lane lane) noexcept;

} // namespace mc2::planner

#pragma GCC visibility pop
