#include "mc2/planner/layer_shape.hpp"

#include <array>

#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::planner {
namespace {

constexpr std::array kParallelismNames{
    Name<Parallelism>{Parallelism::Row, "row"}, Name<Parallelism>{Parallelism::Column, "column"},
    Name<Parallelism>{Parallelism::Dispatch, "dispatch"}, Name<Parallelism>{Parallelism::Combine, "combine"}};

struct KindsOf {
  Parallelism parallelism;
  std::array<std::optional<OpKind>, 2> kinds; ///< without and with sequence parallelism
};

constexpr std::array kKindsOf{KindsOf{Parallelism::Row, {OpKind::MatmulAllReduce, OpKind::MatmulReduceScatter}},
                              KindsOf{Parallelism::Column, {std::nullopt, OpKind::AllGatherMatmul}},
                              KindsOf{Parallelism::Dispatch, {OpKind::AllToAllMatmul, std::nullopt}},
                              KindsOf{Parallelism::Combine, {OpKind::MatmulAllToAll, std::nullopt}}};

Error not_divided(int ranks, const std::string& axis, std::int64_t units, bool has_parts) {
  return {ErrorCode::Infeasible, "ranks",
          std::to_string(ranks) + " ranks do not divide " + axis +
              (has_parts ? " into whole parts, of which it has " + std::to_string(units) : "") +
              "; give a number of ranks that divides " + std::to_string(units)};
}

/// Shared columns of one rank: its own parts or, if there are fewer parts than ranks, one part that several ranks hold.
Result<std::int64_t> columns_of_a_rank(const SharedColumns& shared, int ranks) {
  if (shared.units % ranks == 0) return shared.n / ranks;
  if (ranks % shared.units == 0) return shared.n / shared.units;
  return Error{ErrorCode::Infeasible, "ranks",
               std::to_string(ranks) + " ranks neither divide the " + std::to_string(shared.units) +
                   " parts of the n = " + std::to_string(shared.n) +
                   " columns that ranks may share nor are a multiple of them; give a number of ranks that is"};
}

Result<std::int64_t> divided_n(const LayerShape& layer, int ranks) {
  if (!layer.shared) return layer.n / ranks;
  MC2_ASSIGN(const std::int64_t shared, columns_of_a_rank(*layer.shared, ranks));
  return (layer.n - layer.shared->n) / ranks + shared;
}

} // namespace

std::string_view to_string(Parallelism parallelism) noexcept {
  return name_of(std::span<const Name<Parallelism>>(kParallelismNames), parallelism);
}

Result<Parallelism> parse_parallelism(std::string_view text) {
  return parse_name(std::span<const Name<Parallelism>>(kParallelismNames), text, "parallel");
}

std::vector<OpKind> LayerShape::kinds() const {
  std::vector<OpKind> result;
  for (const auto& row : kKindsOf)
    if (row.parallelism == parallelism)
      for (const auto& kind : row.kinds)
        if (kind) result.push_back(*kind);
  return result;
}

std::int64_t LayerShape::experts_of_a_rank(int ranks) const { return experts ? experts->total / ranks : 1; }

Result<OpSpec> LayerShape::op(OpKind kind, std::int64_t m, int ranks) const {
  const bool is_row = parallelism == Parallelism::Row, is_column = parallelism == Parallelism::Column;
  const std::int64_t axis = is_row ? k : n - (shared ? shared->n : 0);
  if (units % ranks != 0) // units is 0 if nothing is divided
    return not_divided(ranks, (is_row ? "k = " : "n = ") + std::to_string(axis) + (shared ? " of queries" : ""), units,
                       units != axis);
  if (experts && experts->total % ranks != 0)
    return Error{ErrorCode::Infeasible, "ranks",
                 std::to_string(experts->total) + " experts on " + std::to_string(ranks) +
                     " ranks; every rank needs as many, so give a number of ranks that divides " +
                     std::to_string(experts->total)};
  OpSpec op{kind, m, n, is_row ? k / ranks : k, dtype, ranks};
  op.experts_per_rank = experts_of_a_rank(ranks);
  if (is_column) {
    MC2_ASSIGN(op.n, divided_n(*this, ranks));
  }
  MC2_TRY(op.validate());
  return op;
}

std::int64_t LayerShape::rows_of(std::int64_t token_count, OpKind kind, int ranks) const {
  const std::int64_t rows = experts ? ceil_div(token_count * experts->per_token, ranks) : token_count;
  const std::int64_t step = m_step({.kind = kind, .world_size = ranks, .experts_per_rank = experts_of_a_rank(ranks)});
  return align_up(rows, step);
}

} // namespace mc2::planner
