#include "retention_keeper.hpp"

#include <chrono>
#include <exception>
#include <optional>

#include "mc2/store/dates.hpp"
#include "pause.hpp"

namespace mc2::server {
namespace {

constexpr std::chrono::hours kInterval{1};

struct Rule {
  std::optional<std::chrono::seconds> kept_for;
  Result<std::int64_t> (store::Store::*remove_before)(const std::string&);
  const char* what;
};

} // namespace

RetentionKeeper::RetentionKeeper(const Retention& retention, StoreGate& store, Surroundings surroundings)
    : retention_(retention), store_(store), surroundings_(std::move(surroundings)) {
  if (retention.samples || retention.models || retention.measurements)
    thread_ = std::jthread([this](const std::stop_token& ends) { watch(ends); });
}

/// Removes in portions, so that others can write in between.
void RetentionKeeper::remove_all(const std::stop_token& ends) {
  const std::string now = surroundings_.utc_now();
  for (const Rule& rule : {Rule{retention_.samples, &store::Store::remove_batches_before, "batches of samples"},
                           Rule{retention_.models, &store::Store::remove_models_before, "models"},
                           Rule{retention_.measurements, &store::Store::remove_measurements_before, "measurements"}}) {
    if (!rule.kept_for) continue;
    const std::string moment = store::later(now, -rule.kept_for->count());
    std::int64_t removed_count = 0;
    Result<std::int64_t> removed = std::int64_t{store::kMostRemoved};
    while (removed && removed.value() == store::kMostRemoved && !ends.stop_requested()) {
      removed = store_.write([&](store::Store& store) { return (store.*rule.remove_before)(moment); });
      removed_count += removed ? removed.value() : 0;
    }
    if (!removed) surroundings_.tell(std::string(rule.what) + " of before " + moment + ": " + removed.error().text());
    if (removed_count > 0)
      surroundings_.tell("removed " + std::to_string(removed_count) + " " + rule.what + " of before " + moment);
  }
}

void RetentionKeeper::watch(const std::stop_token& ends) {
  do {
    try {
      remove_all(ends);
    } catch (const std::exception& fault) { // the store was locked too long, or the disk is full: try again in an hour
      surroundings_.tell(std::string("old documents were not removed: ") + fault.what());
    }
  } while (!ends_within(ends, kInterval));
}

} // namespace mc2::server
