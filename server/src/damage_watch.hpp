#pragma once

#include <mutex>
#include <set>
#include <string>

#include "mc2/finder/models.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/server/service.hpp"
#include "metrics.hpp"

namespace mc2::server {

/// Tells the operator of kept documents that are passed over because they cannot be read: each once, in the log and in
/// the metrics, however often they are met. Answers go on without them. Threads: safe to share.
class DamageWatch {
 public:
  /// @param metrics  must outlive this object
  DamageWatch(Metrics& metrics, Surroundings surroundings)
      : metrics_(metrics), surroundings_(std::move(surroundings)) {}

  /// Takes note of the error of reading a document; other errors than damage and a newer version say nothing about it.
  void note(const Error& fault);

  /// The same documents, where what cannot be read is noted. The returned value must not outlive this object.
  [[nodiscard]] finder::Kept watched(finder::Kept kept);

 private:
  Metrics& metrics_;
  Surroundings surroundings_;
  std::mutex mutex_;
  std::set<std::string> told_; ///< the messages so far, which name the documents; under mutex_
};

} // namespace mc2::server
