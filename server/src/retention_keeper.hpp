#pragma once

#include <thread>

#include "mc2/server/config.hpp"
#include "mc2/server/service.hpp"
#include "store_gate.hpp"

namespace mc2::server {

/// Removes documents that are older than Retention allows: at once, and then every hour as long as this object lives.
class RetentionKeeper {
 public:
  RetentionKeeper(const Retention& retention, StoreGate& store, Surroundings surroundings);

 private:
  void remove_all(const std::stop_token& ends);
  void watch(const std::stop_token& ends);

  Retention retention_;
  StoreGate& store_;
  Surroundings surroundings_;
  std::jthread thread_; ///< last, because it uses the members above; none where everything is kept for ever
};

} // namespace mc2::server
