#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "plan_question.hpp"

namespace mc2::server {

/// A question, and the text under which its answers are kept: equal questions have equal keys.
struct KeyedQuestion {
  PlanQuestion question;
  std::string key;
};

/// What the targets of GET /v1/plan ask, so that one that comes again is not read again. What a target asks depends on
/// nothing else: an entry holds for ever, and there are at most so many of them. Threads: safe to share.
class QuestionCache {
 public:
  explicit QuestionCache(std::size_t capacity) : shard_capacity_(capacity / kShardCount + 1) {}

  /// Null when it is not known.
  [[nodiscard]] std::shared_ptr<const KeyedQuestion> find(const std::string& target) {
    Shard& shard = shard_of(target);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.by_target.find(target);
    return found == shard.by_target.end() ? nullptr : found->second;
  }

  void keep(const std::string& target, std::shared_ptr<const KeyedQuestion> question) {
    if (target.size() > kLongestTarget) return; // a client chooses them
    Shard& shard = shard_of(target);
    const std::lock_guard lock(shard.mutex);
    if (shard.by_target.size() >= shard_capacity_) shard.by_target.clear();
    shard.by_target.insert_or_assign(target, std::move(question));
  }

 private:
  static constexpr std::size_t kShardCount = 16;
  static constexpr std::size_t kLongestTarget = 256;

  struct Shard {
    std::mutex mutex;
    /// shared with those who answer it now
    std::unordered_map<std::string, std::shared_ptr<const KeyedQuestion>> by_target;
  };

  [[nodiscard]] Shard& shard_of(const std::string& target) {
    return shards_[std::hash<std::string>()(target) % kShardCount];
  }

  std::size_t shard_capacity_;
  std::array<Shard, kShardCount> shards_;
};

} // namespace mc2::server
