#include <algorithm>
#include <cstring>

#include "bags.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/error.hpp"
#include "parallel_for.hpp"
#include "poison.hpp"
#include "random_fill.hpp"
#include "row_splits.hpp"

namespace mc2::executor {
namespace {

constexpr std::size_t kCacheLineBytes = 64;
constexpr std::uint64_t kEpilogueSeed = 0x65706967ULL, kScalesSeed = 0x7363616CULL, kChoicesSeed = 0x63686F69ULL;

/// A seed that gives each matrix of each rank another stream of numbers.
std::uint64_t matrix_seed(std::uint64_t seed, std::size_t rank, std::uint64_t matrix) {
  return seed * 0x9E3779B97F4A7C15ULL + (static_cast<std::uint64_t>(rank) * 2 + matrix + 1) * 0xD1B54A32D192ED03ULL;
}

} // namespace

RandomProblem::RandomProblem(const planner::OpSpec& op, std::uint64_t seed, const ProblemExtras& extras)
    : op_(op), views_(static_cast<std::size_t>(op.world_size)) {
  MC2_CHECK(op.validate().ok(), "a random problem of an illegal operator");
  add_counts(extras.counts);
  for (std::size_t rank = 0; rank < views_.size(); ++rank) {
    const OperandShapes shapes = rank_shapes(op, views_[rank]);
    const auto a = add_matrix(shapes.a, op.dtype);
    const auto b = add_matrix(shapes.b, op.dtype);
    fill_random(op.dtype, b, matrix_seed(seed, rank, 1));
    a_.push_back(a);
    views_[rank].a = a;
    views_[rank].b = b;
    views_[rank].c = add_matrix(shapes.c, planner::product_type(op));
    if (extras.wants_gathered_a) views_[rank].gathered_a = add_matrix(gathered_a_shape(op), op.dtype);
    if (op.tables) views_[rank].bags = add_bags();
    if (op.experts) views_[rank].choices = add_choices(rank);
    add_epilogue(shapes, seed, rank);
    if (has_scales(op.dtype)) add_scales(shapes, seed, rank);
  }
  refill_a(seed);
  poison();
}

void RandomProblem::add_counts(std::span<const std::int64_t> counts) {
  if (counts.empty()) return;
  const std::size_t count = count_count(op_);
  MC2_CHECK(counts.size() == views_.size() * count, "counts of another world");
  send_counts_.assign(counts.begin(), counts.end());
  for (std::size_t rank = 0; rank < views_.size(); ++rank)
    views_[rank].send_counts = std::span(send_counts_).subspan(rank * count, count);
  receive_counts_ = transposed_counts(op_, views_);
  for (std::size_t rank = 0; rank < views_.size(); ++rank)
    views_[rank].receive_counts = std::span(receive_counts_).subspan(rank * count, count);
}

/// Adds bias, residual and the norm's operands. They are the same on all ranks if all ranks get the same result.
void RandomProblem::add_epilogue(const OperandShapes& shapes, std::uint64_t seed, std::size_t rank) {
  const planner::DType dtype = planner::product_type(op_);
  const std::size_t owner = planner::collective_of(op_.kind) == planner::Collective::AllReduce ? 0 : rank;
  const auto bias = add_matrix(shapes.bias, dtype);
  const auto residual = add_matrix(shapes.residual, dtype);
  fill_random(dtype, bias, matrix_seed(seed + kEpilogueSeed, owner, 0));
  fill_random(dtype, residual, matrix_seed(seed + kEpilogueSeed, owner, 1));
  const auto norm_weight = add_matrix(shapes.norm_weight, dtype);
  fill_random(dtype, norm_weight, matrix_seed(seed + kEpilogueSeed, owner, 2));
  views_[rank].bias = bias;
  views_[rank].residual = residual;
  views_[rank].norm_weight = norm_weight;
  views_[rank].normed = add_matrix(shapes.normed, dtype);
}

/// Adds scales, different for every column and rank. With them elements are about 1.
void RandomProblem::add_scales(const OperandShapes& shapes, std::uint64_t seed, std::size_t rank) {
  const auto fill = [&](const MatrixShape& shape, std::uint64_t scales_seed) {
    const auto bytes = add_matrix(shape, planner::DType::F32);
    fill_random(planner::DType::F32, bytes, scales_seed);
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      float scale = 0;
      std::memcpy(&scale, bytes.data() + at, sizeof scale);
      scale = (scale + 2) / 256; // [1/256, 3/256)
      std::memcpy(bytes.data() + at, &scale, sizeof scale);
    }
    return bytes;
  };
  // In kinds that communicate first every rank has the scales of all ranks' A, which must be the same on all ranks.
  const std::size_t owner = planner::traits_of(op_.kind).communicates_first() ? 0 : rank;
  views_[rank].a_scales = fill(shapes.a_scales, matrix_seed(seed + kScalesSeed, owner, 0));
  views_[rank].b_scales = fill(shapes.b_scales, matrix_seed(seed + kScalesSeed, rank, 1));
}

std::span<std::byte> RandomProblem::add_matrix(const MatrixShape& shape, planner::DType dtype) {
  return add_bytes(shape.element_count() * planner::size_bytes(dtype));
}

EmbeddingBags RandomProblem::add_bags() {
  const std::int64_t bag_count = op_.tables->table_count * op_.m;
  const auto numbers = [this](std::int64_t count) {
    const auto bytes = add_bytes(count * size_bytes(IndexType::I64));
    return std::span(reinterpret_cast<std::int64_t*>(bytes.data()), static_cast<std::size_t>(count));
  };
  const Bags& own = bags_.emplace_back(Bags{numbers(bag_count + 1), numbers(bag_count * op_.k)});
  return {.offsets = std::as_bytes(own.offsets), .indices = std::as_bytes(own.indices), .type = IndexType::I64};
}

/// All ranks share one array, because they must have the same choices.
ExpertChoices RandomProblem::add_choices(std::size_t rank) {
  if (rank > 0) return views_.front().choices;
  const std::int64_t count = op_.m * op_.experts->top_k;
  const auto numbers = add_bytes(count * size_bytes(IndexType::I64));
  chosen_ = std::span(reinterpret_cast<std::int64_t*>(numbers.data()), static_cast<std::size_t>(count));
  if (planner::traits_of(op_.kind).sums())
    choice_weights_ = add_bytes(count * planner::size_bytes(planner::DType::F32));
  return {.experts = numbers, .weights = choice_weights_, .type = IndexType::I64};
}

std::span<std::byte> RandomProblem::add_bytes(std::int64_t byte_count) {
  const auto bytes = static_cast<std::size_t>(byte_count);
  auto& block = storage_.emplace_back(bytes + kCacheLineBytes);
  const auto misalignment = reinterpret_cast<std::uintptr_t>(block.data()) % kCacheLineBytes;
  return std::span(block).subspan((kCacheLineBytes - misalignment) % kCacheLineBytes, bytes);
}

void RandomProblem::refill_a(std::uint64_t seed) {
  if (op_.experts) fill_random_choices(*op_.experts, chosen_, seed);
  fill_random(planner::DType::F32, choice_weights_, seed + kChoicesSeed);
  for (std::size_t rank = 0; rank < a_.size(); ++rank) fill_random(op_.dtype, a_[rank], matrix_seed(seed, rank, 0));
  parallel_for(static_cast<std::int64_t>(bags_.size()), [&](std::int64_t i) {
    const auto rank = static_cast<std::size_t>(i);
    fill_random_bags(op_, bags_[rank].offsets, bags_[rank].indices, matrix_seed(seed, rank, 0));
  });
}

void RandomProblem::poison() {
  const auto fill = [](std::span<std::byte> matrix, planner::DType dtype) {
    if (matrix.empty()) return;
    const auto pattern = poison_of(dtype);
    std::ranges::copy(pattern, matrix.begin());
    for (std::size_t done = pattern.size(); done < matrix.size(); done *= 2) // so that the copies are few and long
      std::memcpy(matrix.data() + done, matrix.data(), std::min(done, matrix.size() - done));
  };
  parallel_for(static_cast<std::int64_t>(views_.size()), [&](std::int64_t rank) {
    const RankBuffers& own = views_[static_cast<std::size_t>(rank)];
    fill(own.c, planner::product_type(op_));
    fill(own.normed, planner::product_type(op_));
    fill(own.gathered_a, op_.dtype);
  });
}

} // namespace mc2::executor
