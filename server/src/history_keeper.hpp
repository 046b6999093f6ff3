#pragma once

#include <chrono>
#include <thread>

#include "damage_watch.hpp"
#include "drift_watch.hpp"
#include "mc2/server/service.hpp"
#include "metrics.hpp"
#include "store_gate.hpp"

namespace mc2::server {

/// Adds a point to the store's history (schemas/history.schema.json) every interval, as long as this object lives.
class HistoryKeeper {
 public:
  /// @param interval  0: no history is kept
  HistoryKeeper(std::chrono::seconds interval, StoreGate& store, Metrics& metrics, const DriftWatch& drift,
                DamageWatch& damage, Surroundings surroundings);

 private:
  [[nodiscard]] Result<store::HistoryPoint> look(const Metrics::Totals& now, const std::stop_token& ends);
  void keep(const std::stop_token& ends);
  void watch(const std::stop_token& ends);

  std::chrono::seconds interval_;
  StoreGate& store_;
  Metrics& metrics_;
  const DriftWatch& drift_;
  DamageWatch& damage_;
  Surroundings surroundings_;
  Metrics::Totals before_; ///< at the last point that was kept
  std::jthread thread_;    ///< last, because it uses the members above
};

} // namespace mc2::server
