#include "backends/cuda/tiles/chosen_matmul.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <vector>

#include "choices.hpp"
#include "index_numbers.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/units.hpp"
#include "texts.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::ceil_div;

constexpr std::int64_t kElementBytes = 2;                                         ///< bf16, f16
constexpr std::size_t kListedRowBytes = sizeof(ChosenRow) + sizeof(std::int32_t); ///< a row and its place

/// Runs as if every expert were chosen equally often. They decide which width of tiles is best.
std::vector<ExpertRun> equal_runs(std::int64_t row_count, std::int64_t expert_count) {
  std::vector<ExpertRun> runs;
  const std::int64_t each = std::max<std::int64_t>(1, row_count / expert_count);
  for (std::int64_t first = 0; first < row_count && std::ssize(runs) < expert_count; first += each)
    runs.push_back({.expert = static_cast<int>(std::ssize(runs)), .rows = {first, first, each}});
  return runs;
}

GroupedShape with_rows(GroupedShape shape, std::int64_t row_count, bool adds_up) {
  shape.a_rows = row_count;
  if (adds_up) shape.c_rows = row_count;
  return shape;
}

} // namespace

ChosenMatmul::ChosenMatmul(GroupedShape shape, const ChosenTokens& tokens, bool adds_up, const GemmOperands& operands)
    : shape_(with_rows(shape, std::int64_t{tokens.token_count} * tokens.top_k, adds_up)),
      tokens_(tokens),
      adds_up_(adds_up),
      grouped_(shape_, equal_runs(row_count(), shape_.expert_count)),
      operands_(operands) {
  grouped_.reserve(row_count(), shape_.expert_count);
}

std::int64_t ChosenMatmul::scratch_bytes(std::int64_t rows, std::int64_t n, std::int64_t k, bool adds_up) {
  return rows * (k + (adds_up ? n : 0)) * kElementBytes;
}

std::byte* ChosenMatmul::products() const noexcept {
  return adds_up_ ? scratch_ + row_count() * shape_.k * kElementBytes : operands_.c;
}

void ChosenMatmul::set_scratch(std::byte* memory) {
  scratch_ = memory;
  set_operands(operands_);
}

void ChosenMatmul::set_operands(const GemmOperands& operands) {
  operands_ = operands;
  grouped_.set_operands({.a = scratch_, .b = operands.b, .c = products(), .bias = operands.bias});
}

void ChosenMatmul::enqueue(cudaStream_t stream) const {
  const GatheredRows gathered{.rows = sorted_.rows,
                              .row_count = sorted_.row_count,
                              .most_rows = static_cast<std::int32_t>(row_count()),
                              .a = operands_.a,
                              .gathered = scratch_,
                              .a_row_bytes = shape_.k * kElementBytes,
                              .products = products(),
                              .product_row_bytes = shape_.n * kElementBytes,
                              .keeps_order = adds_up_};
  enqueue_gathering(gathered, shape_.cta_count, stream);
  grouped_.enqueue(stream);
  if (!adds_up_) return;
  const WeightedSums sums{.tokens = tokens_,
                          .places = sorted_.places,
                          .weights = weights_,
                          .products = products(),
                          .sums = operands_.c,
                          .columns = shape_.n,
                          .is_half = shape_.is_half};
  enqueue_weighted_sums(sums, shape_.cta_count, stream);
}

ChoiceSorter::ChoiceSorter(std::span<ChosenMatmul* const> matmuls, int rank, const planner::ChosenExperts& experts,
                           DevicePool& pool)
    : rank_(rank),
      experts_(experts),
      fault_(std::make_unique<MappedWord>(kChoiceFaultWords)),
      list_count_(static_cast<int>(matmuls.size())) {
  std::int64_t row_count = 0;
  for (const ChosenMatmul* matmul : matmuls) row_count += matmul->row_count();
  const auto bytes = static_cast<std::size_t>(row_count) * kListedRowBytes + matmuls.size() * sizeof(std::int32_t);
  row_memory_ = std::make_unique<DeviceMemory>(pool, bytes);
  // Zeros, so that rows which no run has sorted are valid rows of A and C.
  row_memory_->upload(std::vector<std::byte>(bytes));
  auto* rows = reinterpret_cast<ChosenRow*>(row_memory_->bytes().data());
  auto* places = reinterpret_cast<std::int32_t*>(rows + row_count);
  auto* words = places + row_count;
  std::vector<SortedChoices> lists;
  for (ChosenMatmul* matmul : matmuls) {
    const GroupedMatmul& grouped = matmul->grouped_;
    // The casts are needed because the sorting kernel writes what the descriptions of other kernels only read.
    matmul->sorted_ = {
        .tokens = matmul->tokens_,
        .rows = rows,
        .places = matmul->adds_up_ ? places : nullptr,
        .row_count = words++,
        .tiles = const_cast<GroupedTile*>(grouped.run().tiles),
        .tile_count = const_cast<std::int32_t*>(grouped.run().tile_count),
        .tile_columns = grouped.tile_columns(),
        .column_tiles = static_cast<std::int32_t>(ceil_div(matmul->shape_.n, std::int64_t{grouped.tile_columns()}))};
    if (!matmul->adds_up_) matmul->grouped_.set_chosen(rows);
    rows += matmul->row_count();
    places += matmul->row_count();
    lists.push_back(matmul->sorted_);
  }
  const auto list_bytes = std::as_bytes(std::span(lists));
  list_memory_ = std::make_unique<DeviceMemory>(pool, list_bytes.size());
  list_memory_->upload(list_bytes);
}

void ChoiceSorter::enqueue(const ExpertChoices& choices, cudaStream_t stream) const {
  const DeviceChoices sorted{
      .experts = choices.experts.data(),
      .weights = choices.weights.empty() ? nullptr : reinterpret_cast<const float*>(choices.weights.data()),
      .index_bytes = static_cast<int>(size_bytes(choices.type)),
      .expert_count = static_cast<int>(experts_.count),
      .fault = fault_->device()};
  const auto* lists = reinterpret_cast<const SortedChoices*>(list_memory_->bytes().data());
  enqueue_sorting(sorted, {lists, list_count_}, stream);
}

void ChoiceSorter::require_legal() const {
  const auto fault = static_cast<ChoiceFault>(fault_->get());
  if (fault == ChoiceFault::None) return;
  if (fault == ChoiceFault::BeingTold) throw SystemError("choices", EINVAL, rank_text(rank_) + " met an illegal one");
  const auto number = [&](std::size_t word) {
    return static_cast<std::int64_t>(std::uint64_t{fault_->get(word + 1)} << 32U | fault_->get(word));
  };
  const Choice choice{.expert = number(3), .weight = std::bit_cast<float>(fault_->get(5))};
  throw SystemError("choices", EINVAL, rank_text(rank_) + ", " + choice_fault(experts_, number(1), choice).message);
}

void ChoiceSorter::keep_memory() noexcept {
  for (auto* memory : {&row_memory_, &list_memory_}) (void)memory->release();
  (void)fault_.release();
}

std::array<std::int64_t, 2> sorted_choice_bytes(std::int64_t row_count, std::int64_t matmul_count,
                                                std::int64_t expert_count, std::int64_t n) {
  const std::int64_t row_tiles = row_count / kTileRows + matmul_count * expert_count;
  return {row_count * std::int64_t{kListedRowBytes} + matmul_count * std::int64_t{sizeof(SortedChoices)},
          row_tiles * ceil_div(n, std::int64_t{kNarrowTile}) * std::int64_t{sizeof(GroupedTile)}};
}

} // namespace mc2::executor::cuda
