#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "mc2/finder/plan_source.hpp"

namespace mc2::embed {

using FoundPlanPtr = std::shared_ptr<const finder::FoundPlan>; ///< shared by the cache and whoever asked

/// A question that need not be copied to be looked up.
struct QuestionView {
  const planner::OpSpec& op;
  const planner::Fingerprint& machine;
  const planner::PlanOptions* options = nullptr; ///< null: none
  const planner::Variant* variant = nullptr;     ///< null: any
  bool may_transfer = true;

  QuestionView(const planner::OpSpec& asked_op, const planner::Fingerprint& asked_machine)
      : op(asked_op), machine(asked_machine) {}
  QuestionView(const finder::PlanQuestion& question) // NOLINT: implicit by design
      : op(question.op),
        machine(question.machine),
        options(question.options ? &*question.options : nullptr),
        variant(question.variant ? &*question.variant : nullptr),
        may_transfer(question.may_transfer) {}
};

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
  [[nodiscard]] Entry find(const QuestionView& question) const;
  /// Forgets all others when it is full.
  void put(const finder::PlanQuestion& question, const FoundPlanPtr& plan, Clock::time_point now);

 private:
  /// Of the operator and the number of blocks allowed: a program asks on few machines, whose texts are long.
  struct Hash {
    using is_transparent = void;
    [[nodiscard]] std::size_t operator()(const QuestionView& question) const noexcept;
  };
  struct Equal {
    using is_transparent = void;
    [[nodiscard]] bool operator()(const QuestionView& left, const QuestionView& right) const noexcept;
  };

  const std::size_t capacity_;
  mutable std::shared_mutex mutex_; ///< of entries_
  std::unordered_map<finder::PlanQuestion, Entry, Hash, Equal> entries_;
};

} // namespace mc2::embed
