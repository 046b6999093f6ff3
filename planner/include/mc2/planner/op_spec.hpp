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

/// A fused matmul + collective operator. Values are stored and served: never renumber or reuse one. What a kind is says
/// the table in src/kinds.cpp; code asks for a trait, not for a kind.
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

/// What is done to the product: C = op(A, B) + bias + residual, and beside it C's rows normalised
/// (docs/operators.md).
struct Epilogue {
  bool has_bias = false;     ///< one number per column, [n]
  bool has_residual = false; ///< a matrix of C's shape
  Norm norm = Norm::None;    ///< of kinds that sum
  [[nodiscard]] bool is_empty() const noexcept { return *this == Epilogue{}; }
  /// Whether C is more than the product.
  [[nodiscard]] bool adds() const noexcept { return has_bias || has_residual; }
  auto operator<=>(const Epilogue&) const = default;
};

/// "none", or what it has in this order: "bias+residual+rms_norm".
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

/// Experts of which every rank holds its part, and of which each of the m rows - tokens - chooses some.
struct ChosenExperts {
  std::int64_t count = 0; ///< B is as many matrices [k, n], one below the other
  std::int64_t top_k = 0; ///< that each row chooses; 1 to kMaxTopK, and no more than there are

  /// Errors: InvalidSpec (experts, top_k) for a number outside 1 to kMaxSize, or as said.
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
  std::optional<EmbeddingTables> tables{}; ///< of embedding_all_to_all, and of no other kind
  Epilogue epilogue = {};                  ///< not of embedding_all_to_all
  /// Experts that a rank holds, of kinds that take counts: B is as many matrices [k, n], one below the other, and every
  /// row is multiplied by its expert's. docs/operators.md says in which order rows lie
  std::int64_t experts_per_rank = 1;
  std::optional<ChosenExperts> experts{}; ///< of grouped matmuls, and of no other kind

  /// Errors: InvalidSpec naming the first field outside its legal range (sizes 1..kMaxSize, ranks 2..kMaxWorldSize),
  /// m when the ranks hold shards of rows, or their experts, and do not divide it, experts_per_rank when the kind has
  /// none and there are several, n when the tables do not divide it, tables when the
  /// kind needs them and has none or the reverse, experts and top_k likewise, epilogue or dtype when the kind pools or
  /// has none such for its grouped matmuls, norm when the kind does not sum, or when an operand would exceed
  /// kMaxOperandBytes, or k when sums of i8 products could exceed 32 bits (kMaxI8K).
  [[nodiscard]] Result<void> validate() const;

  /// Flops of one rank: 2 m n k of a matmul, that times top_k of a grouped one, m n k of pooling.
  [[nodiscard]] double flop_count() const noexcept { return flop_count(m); }
  /// Flops of so many rows of the product.
  [[nodiscard]] double flop_count(std::int64_t rows) const noexcept;

  /// "matmul_all_reduce m=4096 n=8192 k=3072 bf16 x8 bias+residual", for people and logs.
  [[nodiscard]] std::string text() const;

  auto operator<=>(const OpSpec&) const = default;
};

inline constexpr std::int64_t kMaxSize = 1'000'000'000;
inline constexpr int kMaxWorldSize = 65536;
inline constexpr std::int64_t kMaxI8K = ((std::int64_t{1} << 31) - 1) / (128 * 128); ///< of products of -128 and -128
inline constexpr std::int64_t kMaxOperandBytes = std::int64_t{1} << 46;

/// One tile of rows: a matmul reads all of B for any number of rows up to it, and waits for memory.
inline constexpr std::int64_t kFewRows = 64;

/// All that is known of an operator kind, in planner and executor: one row of the table in src/kinds.cpp.
struct OpTraits {
  OpKind kind;
  std::string_view name; ///< served name, e.g. "matmul_all_reduce"
  Work work;             ///< what the compute lane does
  Collective collective; ///< what the communication lane does
  Lane first_lane;       ///< the lane that a block passes first
  /// The m rows are divided into m / ranks rows by which rank they come from or go to, and blocks are cut from those:
  /// a block of b rows takes b rows of every shard.
  bool has_row_shards;
  /// Part of the matmul needs no communication: a rank's own shard. It runs before the first block arrives.
  bool has_local_part;
  /// A rank brings m / ranks rows of A and gets those of all, which it may keep.
  bool gathers_a = false;
  /// Ranks may have any number of rows for one another, up to m / ranks, and hold several experts.
  bool takes_counts = false;
  /// What the ranks sent lies side by side in C, [m / ranks, ranks n], not one below the other.
  bool lands_side_by_side = false;
  /// With at most so many rows of product blocks are cut from n: too few rows to cut, and columns stored block after
  /// block keep a message contiguous. 0: never.
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
  /// What the compute lane makes travels, and ends as it was made.
  [[nodiscard]] bool moves_products() const noexcept { return !communicates_first() && !sums(); }
};

/// All operator kinds, in order of preference in listings.
[[nodiscard]] std::span<const OpTraits> op_registry() noexcept;

/// The traits of a kind; every OpKind has them.
[[nodiscard]] const OpTraits& traits_of(OpKind kind);

/// "matmul_all_to_all and all_to_all_matmul": the kinds of which something is true, for messages.
[[nodiscard]] std::string kinds_with(bool (*has_trait)(const OpTraits&));

/// Every m is a multiple of it: the number of ranks where they hold shards of the rows, of all experts where they hold
/// several, else 1. The operator may be illegal.
[[nodiscard]] std::int64_t m_step(const OpSpec& op);

/// Matrices [k, n] in one rank's B: one for each expert that it has, or has a part of.
[[nodiscard]] std::int64_t matrix_count(const OpSpec& op) noexcept;

/// Products of a row with B: one for each expert that it chooses.
[[nodiscard]] std::int64_t products_per_row(const OpSpec& op) noexcept;

/// Element type of the product, C, bias and residual: the operator's, bf16 for i8, whose products are sums of 32 bits
/// times scales.
[[nodiscard]] DType product_type(const OpSpec& op) noexcept;

/// Element type of what the ranks exchange: A's where they communicate first, else the product's.
[[nodiscard]] DType exchange_type(const OpSpec& op);

/// What the blocks of an operator are cut from, and what their lengths therefore count.
[[nodiscard]] CutAxis cut_axis(const OpSpec& op);

/// "rows" or "columns".
[[nodiscard]] std::string_view to_string(CutAxis axis) noexcept;

/// What a block's length counts, for people: the axis, with row shards "rows of each rank's m / ranks".
[[nodiscard]] std::string cut_axis_text(const OpSpec& op);

/// Whether block costs of `profiled` are block costs of `op`: all but the length of the cut axis is the same, i.e. all
/// but m where rows are cut, all but n where columns are.
[[nodiscard]] bool has_same_block_costs(const OpSpec& profiled, const OpSpec& op);

/// The operator with 0 as the length of its cut axis: the same for all that have the same block costs.
[[nodiscard]] OpSpec of_any_length(OpSpec op);

[[nodiscard]] std::string_view to_string(OpKind kind);

/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<OpKind> parse_op_kind(std::string_view name);

[[nodiscard]] std::string_view to_string(Lane lane) noexcept;

} // namespace mc2::planner

#pragma GCC visibility pop
