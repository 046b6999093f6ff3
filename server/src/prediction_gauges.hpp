#pragma once

#include <atomic>
#include <cstdint>

#include "damage_watch.hpp"
#include "metrics.hpp"
#include "store_gate.hpp"

namespace mc2::server {

/// Keeps the gauges of how well the kept plans' makespans are predicted up to date with the store. Threads: safe to
/// share; two threads that find the store changed both read it.
class PredictionGauges {
 public:
  /// Reads the newest plans if the store has changed since the last call. Where they cannot be read, the gauges stay.
  void refresh(StoreGate& store, Metrics& metrics, DamageWatch& damage);

 private:
  std::atomic<std::int64_t> revision_{-1}; ///< of the store that the gauges show
};

} // namespace mc2::server
