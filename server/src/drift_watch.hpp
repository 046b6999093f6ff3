#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>

#include "mc2/planner/cost_model.hpp"

namespace mc2::server {

/// The kept models that their newest samples disagree with. A model that replaces another one starts without a mark.
/// Threads: safe to share.
class DriftWatch {
 public:
  void set(const planner::CostModel& model, bool has_drifted);
  /// Removes the mark: the model of this operator and machine was just replaced or removed.
  void forget(const planner::CostModel& model);
  [[nodiscard]] std::size_t drifted_count() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> drifted_; ///< fingerprint and operator of each; under mutex_
};

} // namespace mc2::server
