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
/// nothing else: an entry holds for ever, and they take at most so many bytes. Threads: safe to share.
class QuestionCache {
 public:
  explicit QuestionCache(std::size_t capacity_bytes) : shard_capacity_bytes_(capacity_bytes / kShardCount) {}

  /// Null when it is not known.
  [[nodiscard]] std::shared_ptr<const KeyedQuestion> find(const std::string& target) {
    Shard& shard = shard_of(target);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.by_target.find(target);
    return found == shard.by_target.end() ? nullptr : found->second;
  }

  void keep(const std::string& target, std::shared_ptr<const KeyedQuestion> question) {
    if (target.size() > kLongestTarget) return;                                       // a client chooses them
    const std::size_t bytes = kEntryBytes + target.size() + 2 * question->key.size(); // its request is as long
    Shard& shard = shard_of(target);
    const std::lock_guard lock(shard.mutex);
    if (shard.bytes + bytes > shard_capacity_bytes_) {
      shard.by_target.clear();
      shard.bytes = 0;
    }
    if (shard.by_target.emplace(target, std::move(question)).second) shard.bytes += bytes;
  }

 private:
  static constexpr std::size_t kShardCount = 16;
  static constexpr std::size_t kLongestTarget = 256;
  static constexpr std::size_t kEntryBytes = 1024; ///< besides the texts

  struct Shard {
    std::mutex mutex;
    /// shared with those who answer it now
    std::unordered_map<std::string, std::shared_ptr<const KeyedQuestion>> by_target;
    std::size_t bytes = 0; ///< of all
  };

  [[nodiscard]] Shard& shard_of(const std::string& target) {
    return shards_[std::hash<std::string>()(target) % kShardCount];
  }

  std::size_t shard_capacity_bytes_;
  std::array<Shard, kShardCount> shards_;
};

} // namespace mc2::server
