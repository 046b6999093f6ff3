#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "mc2/client/plan_source.hpp"

namespace mc2::embed {

using FoundPlanPtr = std::shared_ptr<const client::FoundPlan>; ///< shared by the cache and whoever asked

/// Plans that were found. Threads: safe to share.
class PlanCache {
 public:
  using Clock = std::chrono::steady_clock;

  struct Entry {
    FoundPlanPtr plan; ///< null: not known
    Clock::time_point found_at;
  };

  explicit PlanCache(std::size_t capacity) : capacity_(capacity) {}

  /// Allocates nothing.
  [[nodiscard]] Entry find(const client::PlanQuestion& question) const;
  /// Forgets all others when it is full.
  void put(const client::PlanQuestion& question, const FoundPlanPtr& plan, Clock::time_point now);

 private:
  /// Of the operator and the number of blocks allowed: a program asks on few machines, whose texts are long.
  struct Hash {
    [[nodiscard]] std::size_t operator()(const client::PlanQuestion& question) const noexcept;
  };
  struct Equal {
    [[nodiscard]] bool operator()(const client::PlanQuestion& left, const client::PlanQuestion& right) const noexcept;
  };

  const std::size_t capacity_;
  mutable std::shared_mutex mutex_; ///< of entries_
  std::unordered_map<client::PlanQuestion, Entry, Hash, Equal> entries_;
};

} // namespace mc2::embed
