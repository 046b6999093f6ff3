#include "mc2/planner/op_spec.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

Error size_error(const char* field, std::int64_t value) {
  return {ErrorCode::InvalidSpec, field, "is " + std::to_string(value) + "; legal: 1 to " + std::to_string(kMaxSize)};
}

constexpr std::array kEpilogueNames{Name<Epilogue>{{}, "none"},
                                    Name<Epilogue>{{true, false, Norm::None}, "bias"},
                                    Name<Epilogue>{{false, true, Norm::None}, "residual"},
                                    Name<Epilogue>{{true, true, Norm::None}, "bias+residual"},
                                    Name<Epilogue>{{false, false, Norm::Rms}, "rms_norm"},
                                    Name<Epilogue>{{true, false, Norm::Rms}, "bias+rms_norm"},
                                    Name<Epilogue>{{false, true, Norm::Rms}, "residual+rms_norm"},
                                    Name<Epilogue>{{true, true, Norm::Rms}, "bias+residual+rms_norm"}};
constexpr std::array kNormNames{Name<Norm>{Norm::None, "none"}, Name<Norm>{Norm::Rms, "rms"}};

constexpr std::array kCollectiveNames{Name<Collective>{Collective::AllReduce, "all_reduce"},
                                      Name<Collective>{Collective::ReduceScatter, "reduce_scatter"},
                                      Name<Collective>{Collective::AllGather, "all_gather"},
                                      Name<Collective>{Collective::AllToAll, "all_to_all"}};
constexpr std::array kPoolingNames{Name<Pooling>{Pooling::Sum, "sum"}, Name<Pooling>{Pooling::Mean, "mean"}};

bool pools(const OpTraits& traits) { return traits.work == Work::Pooling; }
bool multiplies_groups(const OpTraits& traits) { return traits.work == Work::GroupedMatmul; }

Result<void> validate_tables(const OpSpec& op) {
  const bool is_pooled = pools(traits_of(op.kind));
  if (is_pooled != op.tables.has_value())
    return Error{ErrorCode::InvalidSpec, "tables",
                 is_pooled
                     ? std::string(to_string(op.kind)) + " needs the number of a rank's tables and the rows of each"
                     : "only " + kinds_with(pools) + " has tables, not " + std::string(to_string(op.kind))};
  if (!is_pooled) return {};
  if (!op.epilogue.is_empty())
    return Error{ErrorCode::InvalidSpec, "epilogue",
                 "is " + std::string(to_string(op.epilogue)) + ", which is for products; " +
                     std::string(to_string(op.kind)) + " has none"};
  if (has_scales(op.dtype))
    return Error{ErrorCode::InvalidSpec, "dtype",
                 "is " + std::string(to_string(op.dtype)) + "; tables are f32, f16 or bf16"};
  MC2_TRY(op.tables->validate());
  if (op.n % op.tables->table_count == 0) return {};
  const std::string count = std::to_string(op.tables->table_count);
  return Error{ErrorCode::InvalidSpec, "n",
               "is " + std::to_string(op.n) + "; a rank's " + count +
                   " tables share the columns equally, so n must be a multiple of " + count + ", e.g. " +
                   std::to_string(align_up(op.n, op.tables->table_count))};
}

Result<void> validate_experts(const OpSpec& op) {
  const auto has_experts = [](const OpTraits& traits) { return traits.takes_counts; };
  if (op.experts_per_rank < 1 || op.experts_per_rank > kMaxSize)
    return size_error("experts_per_rank", op.experts_per_rank);
  if (op.experts_per_rank == 1 || has_experts(traits_of(op.kind))) return {};
  return Error{ErrorCode::InvalidSpec, "experts_per_rank",
               "is " + std::to_string(op.experts_per_rank) + "; " + kinds_with(has_experts) + " have experts, not " +
                   std::string(to_string(op.kind))};
}

Result<void> validate_chosen(const OpSpec& op) {
  const bool is_grouped = multiplies_groups(traits_of(op.kind));
  const std::string kind(to_string(op.kind));
  if (is_grouped != op.experts.has_value())
    return Error{ErrorCode::InvalidSpec, "experts",
                 is_grouped
                     ? kind + " needs the number of experts and how many of them a row chooses"
                     : "only rows of " + kinds_with(multiplies_groups) + " choose experts, not those of " + kind};
  if (!is_grouped) return {};
  MC2_TRY(op.experts->validate());
  if (has_scales(op.dtype))
    return Error{ErrorCode::InvalidSpec, "dtype",
                 "is " + std::string(to_string(op.dtype)) + "; the matrices of chosen experts are f32, f16 or bf16"};
  if (op.epilogue.has_residual && !traits_of(op.kind).sums())
    return Error{ErrorCode::InvalidSpec, "epilogue", "has a residual; only " + kinds_with([](const OpTraits& traits) {
                                                       return multiplies_groups(traits) && traits.sums();
                                                     }) + " of the kinds whose rows choose experts adds one"};
  return {};
}

/// " experts=64 top_k=8", or nothing.
std::string chosen_text(const std::optional<ChosenExperts>& experts) {
  if (!experts) return {};
  return " experts=" + std::to_string(experts->count) + " top_k=" + std::to_string(experts->top_k);
}

/// " tables=8x100000 sum", or nothing.
std::string tables_text(const std::optional<EmbeddingTables>& tables) {
  if (!tables) return {};
  return " tables=" + std::to_string(tables->table_count) + "x" + std::to_string(tables->row_count) + " " +
         std::string(to_string(tables->pooling));
}

struct Operand {
  const char* name;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t element_bytes;
};

Result<void> validate_bytes(const Operand& operand) {
  if (operand.rows <= kMaxOperandBytes / operand.element_bytes / operand.columns) return {};
  return Error{ErrorCode::InvalidSpec, "m, n, k",
               std::string(operand.name) + " would take more than 64 TiB; make the sizes smaller"};
}

Result<void> validate_operands(const OpSpec& op) {
  const std::int64_t bytes = size_bytes(op.dtype);
  const bool is_wide = op.experts && traits_of(op.kind).sums(); // then A has a row for every choice; otherwise C has
  const std::int64_t choices = products_per_row(op);
  const Operand matmul[] = {{is_wide ? "A [m top_k, k]" : "A [m, k]", is_wide ? op.m * choices : op.m, op.k, bytes},
                            {"B [k, n] of all experts of a rank", matrix_count(op) * op.k, op.n, bytes}};
  // Each size is at most 1e9, so a product of two fits in 64 bits; a bag's row numbers are 64-bit ones at most.
  const Operand pooling[] = {{"a rank's tables", op.tables ? op.tables->row_count : 1, op.n, bytes},
                             {"the row numbers of all bags", op.m * op.k, op.tables ? op.tables->table_count : 1, 8}};
  for (const Operand& operand : op.tables ? pooling : matmul) MC2_TRY(validate_bytes(operand));
  return validate_bytes({op.experts ? "the products [m top_k, n]" : "the product [m, n]", op.m * choices, op.n,
                         size_bytes(product_type(op))});
}

} // namespace

std::string_view to_string(Work work) noexcept {
  switch (work) {
    case Work::Matmul: return "matmul";
    case Work::Pooling: return "pooling";
    case Work::GroupedMatmul: return "grouped matmul";
  }
  return "?";
}

std::string_view to_string(Collective collective) noexcept { return name_of<Collective>(kCollectiveNames, collective); }
Result<Collective> parse_collective(std::string_view text) {
  return parse_name<Collective>(kCollectiveNames, text, "collective");
}

std::string_view to_string(Pooling pooling) noexcept { return name_of<Pooling>(kPoolingNames, pooling); }
Result<Pooling> parse_pooling(std::string_view text) { return parse_name<Pooling>(kPoolingNames, text, "pooling"); }

std::string_view to_string(Norm norm) noexcept { return name_of<Norm>(kNormNames, norm); }
Result<Norm> parse_norm(std::string_view text) { return parse_name<Norm>(kNormNames, text, "norm"); }

std::int64_t m_step(const OpSpec& op) {
  if (!traits_of(op.kind).has_row_shards) return 1;
  return std::max(op.world_size, 1) * std::clamp(op.experts_per_rank, std::int64_t{1}, kMaxSize);
}

std::int64_t matrix_count(const OpSpec& op) noexcept { return op.experts ? op.experts->count : op.experts_per_rank; }

std::int64_t products_per_row(const OpSpec& op) noexcept { return op.experts ? op.experts->top_k : 1; }

Result<void> EmbeddingTables::validate() const {
  if (table_count < 1 || table_count > kMaxSize) return size_error("tables", table_count);
  if (row_count < 1 || row_count > kMaxSize) return size_error("table_rows", row_count);
  return {};
}

Result<void> ChosenExperts::validate() const {
  if (count < 1 || count > kMaxSize) return size_error("experts", count);
  const std::int64_t most = std::min(count, kMaxTopK);
  if (top_k >= 1 && top_k <= most) return {};
  return Error{ErrorCode::InvalidSpec, "top_k",
               "is " + std::to_string(top_k) + "; legal: 1 to " + std::to_string(most) +
                   (most < kMaxTopK ? ", as there are no more experts" : "")};
}

Result<void> OpSpec::validate() const {
  const std::array sizes{std::pair{"m", m}, std::pair{"n", n}, std::pair{"k", k}};
  for (const auto& [field, value] : sizes)
    if (value < 1 || value > kMaxSize) return size_error(field, value);
  if (world_size < 2 || world_size > kMaxWorldSize)
    return Error{ErrorCode::InvalidSpec, "ranks",
                 "is " + std::to_string(world_size) + "; legal: 2 to " + std::to_string(kMaxWorldSize)};
  MC2_TRY(validate_experts(*this));
  if (const std::int64_t step = m_step(*this); m % step != 0)
    return Error{
        ErrorCode::InvalidSpec, "m",
        "is " + std::to_string(m) + "; " + std::string(to_string(kind)) + " divides the rows equally among the " +
            (experts_per_rank > 1 ? "experts, so m must be a multiple of all " + std::to_string(step) + " experts"
                                  : "ranks, so m must be a multiple of the " + std::to_string(step) + " ranks") +
            ", e.g. " + std::to_string(align_up(m, step))};
  MC2_TRY(validate_tables(*this));
  MC2_TRY(validate_chosen(*this));
  if (epilogue.norm != Norm::None && !traits_of(kind).sums())
    return Error{ErrorCode::InvalidSpec, "norm",
                 "is " + std::string(to_string(epilogue.norm)) + "; only the sums of " +
                     kinds_with([](const OpTraits& traits) { return traits.sums(); }) + " are normalised, not what " +
                     std::string(to_string(kind)) + " gives"};
  if (dtype == DType::I8 && k > kMaxI8K)
    return Error{
        ErrorCode::InvalidSpec, "k",
        "is " + std::to_string(k) + "; sums of i8 products keep to 32 bits up to k = " + std::to_string(kMaxI8K)};
  return validate_operands(*this);
}

double OpSpec::flop_count(std::int64_t rows) const noexcept {
  const double flops_per_step = traits_of(kind).work == Work::Pooling ? 1.0 : 2.0;
  return flops_per_step * static_cast<double>(products_per_row(*this)) * static_cast<double>(rows) *
         static_cast<double>(n) * static_cast<double>(k);
}

std::string OpSpec::text() const {
  return std::string(to_string(kind)) + " m=" + std::to_string(m) + " n=" + std::to_string(n) +
         " k=" + std::to_string(k) + " " + std::string(to_string(dtype)) + " x" + std::to_string(world_size) +
         (experts_per_rank > 1 ? " experts=" + std::to_string(experts_per_rank) + "/rank" : "") + chosen_text(experts) +
         tables_text(tables) + (epilogue.is_empty() ? "" : " " + std::string(to_string(epilogue)));
}

std::string_view to_string(const Epilogue& epilogue) noexcept { return name_of<Epilogue>(kEpilogueNames, epilogue); }
Result<Epilogue> parse_epilogue(std::string_view name) {
  return parse_name<Epilogue>(kEpilogueNames, name, "epilogue");
}

DType product_type(const OpSpec& op) noexcept { return product_type(op.dtype); }

DType exchange_type(const OpSpec& op) { return traits_of(op.kind).communicates_first() ? op.dtype : product_type(op); }

CutAxis cut_axis(const OpSpec& op) {
  return op.m <= traits_of(op.kind).max_column_cut_m ? CutAxis::Columns : CutAxis::Rows;
}

std::int64_t cut_axis_length(const OpSpec& op) { return traits_of(op.kind).cut_axis_length(op); }

std::string_view to_string(CutAxis axis) noexcept { return axis == CutAxis::Rows ? "rows" : "columns"; }

std::string cut_axis_text(const OpSpec& op) {
  return std::string(to_string(cut_axis(op))) + (traits_of(op.kind).has_row_shards ? " of each rank's m / ranks" : "");
}

bool has_same_block_costs(const OpSpec& profiled, const OpSpec& op) {
  return cut_axis(profiled) == cut_axis(op) && of_any_length(profiled) == of_any_length(op);
}

OpSpec of_any_length(OpSpec op) {
  (cut_axis(op) == CutAxis::Rows ? op.m : op.n) = 0;
  return op;
}

std::string_view to_string(Lane lane) noexcept { return lane == Lane::Compute ? "compute" : "communication"; }

} // namespace mc2::planner
