#include "drift_watch.hpp"

#include "mc2/store/codec.hpp"

namespace mc2::server {
namespace {

std::string key_of(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) {
  return fingerprint.canonical_text() + "\n" + store::encode(op);
}

} // namespace

void DriftWatch::set(const planner::CostModel& model, bool has_drifted) {
  const std::lock_guard lock(mutex_);
  if (has_drifted)
    drifted_.insert(key_of(model.op, model.fingerprint));
  else
    drifted_.erase(key_of(model.op, model.fingerprint));
}

void DriftWatch::forget(const planner::CostModel& model) { set(model, false); }

std::size_t DriftWatch::drifted_count() const {
  const std::lock_guard lock(mutex_);
  return drifted_.size();
}

} // namespace mc2::server
