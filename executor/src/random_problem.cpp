#include <bit>
#include <cstring>

#include "bf16.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/error.hpp"
#include "poison.hpp"
#include "random_fill.hpp"

namespace mc2::executor {
namespace {

constexpr std::size_t kCacheLineBytes = 64;

/// A different stream of numbers for each matrix of each rank.
std::uint64_t matrix_seed(std::uint64_t seed, std::size_t rank, std::uint64_t matrix) {
  return seed * 0x9E3779B97F4A7C15ULL + (static_cast<std::uint64_t>(rank) * 2 + matrix + 1) * 0xD1B54A32D192ED03ULL;
}

template <typename Element>
void fill_with(std::span<std::byte> bytes, Element element) {
  for (std::size_t at = 0; at + sizeof element <= bytes.size(); at += sizeof element) {
    std::memcpy(bytes.data() + at, &element, sizeof element);
  }
}

} // namespace

RandomProblem::RandomProblem(const planner::OpSpec& op, std::uint64_t seed) : op_(op) {
  MC2_CHECK(op.validate().ok(), "a random problem of an illegal operator");
  const auto rank_count = static_cast<std::size_t>(op.world_size);
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    const auto a = add_matrix(op.m * op.k);
    const auto b = add_matrix(op.k * op.n);
    const auto c = add_matrix(op.m * op.n);
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

void RandomProblem::refill_a(std::uint64_t seed) noexcept {
  for (std::size_t rank = 0; rank < a_.size(); ++rank) fill_random(op_.dtype, a_[rank], matrix_seed(seed, rank, 0));
}

void RandomProblem::poison() noexcept {
  for (const RankBuffers& rank : views_) {
    if (op_.dtype == planner::DType::F32) {
      fill_with(rank.c, kF32Poison);
    } else {
      fill_with(rank.c, kBf16Poison);
    }
  }
}

} // namespace mc2::executor
