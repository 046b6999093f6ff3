#pragma once

#include <atomic>
#include <cstdint>

#include "metrics.hpp"
#include "store_gate.hpp"

namespace mc2::server {

/// How far the kept plans' measured makespans are from the predicted ones, kept up with the store.
/// Threads: safe to share; two that find the store changed both look.
class PredictionGauges {
 public:
  /// Looks at the newest plans when the store has changed since the last time; where it cannot be read, the gauges
  /// stay.
  void refresh(StoreGate& store, Metrics& metrics);

 private:
  std::atomic<std::int64_t> revision_{-1}; ///< that the gauges show
};

} // namespace mc2::server
