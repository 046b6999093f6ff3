#include "plan_cache.hpp"

#include <cstdint>

namespace mc2::embed {
namespace {

/// Mixes as boost::hash_combine does for 64 bits.
constexpr std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) noexcept {
  return seed ^ (value + 0x9E3779B97F4A7C15ULL + (seed << 12U) + (seed >> 4U));
}

} // namespace

std::size_t PlanCache::Hash::operator()(const QuestionView& question) const noexcept {
  const planner::OpSpec& op = question.op;
  std::uint64_t hash = static_cast<std::uint64_t>(op.kind);
  for (const std::int64_t value : {op.m, op.n, op.k, static_cast<std::int64_t>(op.dtype), std::int64_t{op.world_size},
                                   question.options != nullptr ? question.options->max_block_count : std::int64_t{0}})
    hash = mixed(hash, static_cast<std::uint64_t>(value));
  return hash;
}

bool PlanCache::Equal::operator()(const QuestionView& left, const QuestionView& right) const noexcept {
  if (left.op != right.op || (left.options == nullptr) != (right.options == nullptr)) return false;
  if (left.options != nullptr && *left.options != *right.options) return false;
  if (left.may_transfer != right.may_transfer) return false;
  if ((left.variant == nullptr) != (right.variant == nullptr)) return false;
  if (left.variant != nullptr && *left.variant != *right.variant) return false;
  return left.machine == right.machine;
}

PlanCache::Entry PlanCache::find(const QuestionView& question) const {
  const std::shared_lock lock(mutex_);
  const auto known = entries_.find(question);
  return known == entries_.end() ? Entry{} : known->second;
}

void PlanCache::put(const finder::PlanQuestion& question, const FoundPlanPtr& plan, Clock::time_point now) {
  const std::unique_lock lock(mutex_);
  if (entries_.size() >= capacity_ && !entries_.contains(question)) entries_.clear();
  entries_.insert_or_assign(question, Entry{plan, now});
}

} // namespace mc2::embed
