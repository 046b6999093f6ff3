#include <algorithm>
#include <bit>
#include <cstring>

#include "mc2/executor/verify.hpp"
#include "mc2/planner/error.hpp"
#include "parallel_for.hpp"
#include "poison.hpp"
#include "random_fill.hpp"

namespace mc2::executor {
namespace {

constexpr std::size_t kCacheLineBytes = 64;

/// A different stream of numbers for each matrix of each rank.
std::uint64_t matrix_seed(std::uint64_t seed, std::size_t rank, std::uint64_t matrix) {
  return seed * 0x9E3779B97F4A7C15ULL + (static_cast<std::uint64_t>(rank) * 2 + matrix + 1) * 0xD1B54A32D192ED03ULL;
}

} // namespace

RandomProblem::RandomProblem(const planner::OpSpec& op, std::uint64_t seed) : op_(op) {
  MC2_CHECK(op.validate().ok(), "a random problem of an illegal operator");
  const OperandShapes shapes = operand_shapes(op);
  const auto rank_count = static_cast<std::size_t>(op.world_size);
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    const auto a = add_matrix(shapes.a.element_count());
    const auto b = add_matrix(shapes.b.element_count());
    const auto c = add_matrix(shapes.c.element_count());
    fill_random(op.dtype, b, matrix_seed(seed, rank, 1));
    a_.push_back(a);
    views_.push_back({.a = a, .b = b, .c = c});
  }
  refill_a(seed);
  poison();
}

std::span<std::byte> RandomProblem::add_matrix(std::int64_t element_count) {
  const auto bytes = static_cast<std::size_t>(element_count * planner::size_bytes(op_.dtype));
  auto& block = storage_.emplace_back(bytes + kCacheLineBytes);
  const auto misalignment = reinterpret_cast<std::uintptr_t>(block.data()) % kCacheLineBytes;
  return std::span(block).subspan((kCacheLineBytes - misalignment) % kCacheLineBytes, bytes);
}

void RandomProblem::refill_a(std::uint64_t seed) {
  for (std::size_t rank = 0; rank < a_.size(); ++rank) fill_random(op_.dtype, a_[rank], matrix_seed(seed, rank, 0));
}

void RandomProblem::poison() {
  const auto pattern = poison_of(op_.dtype);
  parallel_for(static_cast<std::int64_t>(views_.size()), [&](std::int64_t rank) {
    const auto c = views_[static_cast<std::size_t>(rank)].c;
    for (std::size_t at = 0; at < c.size(); at += pattern.size())
      std::ranges::copy(pattern, c.begin() + static_cast<std::ptrdiff_t>(at));
  });
}

} // namespace mc2::executor
