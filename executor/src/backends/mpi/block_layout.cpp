#include "backends/mpi/block_layout.hpp"

#include "lanes/combine.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::executor::mpi {
namespace {

bool is_dense(const lanes::SumTarget& sum) { return sum.columns == sum.row_stride; }

void finish_sum(const BlockExchange& block) {
  const std::byte* const sum = sum_arrival(block);
  if (!block.sum.is_plain()) lanes::sum_in_rank_order(block.dtype, {&sum, 1}, block.sum, block.element_count);
}

} // namespace

bool has_joined_pieces(const planner::OpSpec& op) noexcept {
  const auto collective = planner::collective_of(op.kind);
  return collective == planner::Collective::ReduceScatter || collective == planner::Collective::AllGather;
}

std::int64_t exchanged_elements(const planner::OpSpec& op) noexcept {
  return lanes::piece_bytes(op, 1) / planner::size_bytes(planner::exchange_type(op));
}

std::int64_t longest_piece_bytes(const StageList& list) noexcept {
  return lanes::piece_bytes(list.op, longest_rows(list));
}

std::int64_t staging_bytes(const StageList& list) noexcept {
  const std::int64_t piece_bytes = longest_piece_bytes(list);
  if (!lanes::landing_pitch(list.op).is_dense()) return list.op.world_size * piece_bytes;
  const bool is_one_block = list.stages.size() == 1; // the block has all columns of C
  return planner::cut_axis(list.op) == planner::CutAxis::Columns && !is_one_block ? piece_bytes : 0;
}

std::byte* sum_arrival(const BlockExchange& block) noexcept {
  return is_dense(block.sum) ? block.sum.first : block.staging.data();
}

std::byte* arrival_of(const BlockExchange& block, int rank) noexcept {
  std::byte* const landing = block.pieces->landings[static_cast<std::size_t>(rank)];
  if (landing == nullptr || block.landing.is_dense()) return landing;
  return block.staging.data() + rank * block.piece_bytes();
}

std::byte* gathered(const BlockExchange& block) noexcept {
  const int other = block.rank == 0 ? 1 : 0; // uses another rank's landing, because the own piece has none
  return block.pieces->landings[static_cast<std::size_t>(other)] - other * block.piece_bytes();
}

void finish(const BlockExchange& block) noexcept {
  if (block.is_summed()) return finish_sum(block);
  const int rank_count = static_cast<int>(block.pieces->landings.size());
  for (int rank = 0; rank < rank_count && !block.landing.is_dense(); ++rank)
    lanes::land(block, rank, arrival_of(block, rank));
  lanes::add_residuals(block);
}

} // namespace mc2::executor::mpi
