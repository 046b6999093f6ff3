#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "mc2/finder/plan_source.hpp"

namespace mc2::embed {

using FoundPlanPtr = std::shared_ptr<const finder::FoundPlan>; ///< shared by the cache and the callers that asked

/// A view of a question, so that a look-up copies nothing.
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

/// Remembers the plans that were found, by question. Threads: safe to share.
class PlanCache {
 public:
  using Clock = std::chrono::steady_clock;

  struct Entry {
    FoundPlanPtr plan; ///< null: the question has no remembered plan
    Clock::time_point found_at;
  };

  explicit PlanCache(std::size_t capacity) : capacity_(capacity) {}

  /// Allocates nothing.
  [[nodiscard]] Entry find(const QuestionView& question) const;
  /// Remembers a plan. If the cache is full, forgets all others first.
  void put(const finder::PlanQuestion& question, const FoundPlanPtr& plan, Clock::time_point now);

 private:
  /// Hashes the operator and the allowed number of blocks, not the machine: its text is long, and a program asks for
  /// few machines.
  struct Hash {
    using is_transparent = void;
    [[nodiscard]] std::size_t operator()(const QuestionView& question) const noexcept;
  };
  struct Equal {
    using is_transparent = void;
    [[nodiscard]] bool operator()(const QuestionView& left, const QuestionView& right) const noexcept;
  };

  const std::size_t capacity_;
  mutable std::shared_mutex mutex_; ///< guards entries_
  std::unordered_map<finder::PlanQuestion, Entry, Hash, Equal> entries_;
};

} // namespace mc2::embed
