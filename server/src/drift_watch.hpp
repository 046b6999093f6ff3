#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>

#include "mc2/planner/cost_model.hpp"

namespace mc2::server {

/// The kept models that the samples which came last disagree with. A model that is kept in place of another starts
/// anew. Threads: safe to share.
class DriftWatch {
 public:
  void set(const planner::CostModel& model, bool has_drifted);
  /// A model of this operator and machine was just kept: nothing is known of it yet.
  void forget(const planner::CostModel& model);
  [[nodiscard]] std::size_t drifted_count() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> drifted_; ///< machine and operator; under mutex_
};

} // namespace mc2::server
