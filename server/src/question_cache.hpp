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

/// What requests to /v1/plan ask, so that one that comes again is not read again. What its text asks depends on nothing
/// else: an entry holds for ever, and they take at most so many bytes. Threads: safe to share.
class QuestionCache {
 public:
  static constexpr std::size_t kLongestText = 1024; ///< bytes; longer ones are read every time

  explicit QuestionCache(std::size_t capacity_bytes) : shard_capacity_bytes_(capacity_bytes / kShardCount) {}

  /// Null when it is not known.
  [[nodiscard]] std::shared_ptr<const KeyedQuestion> find(const std::string& text) {
    Shard& shard = shard_of(text);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.by_text.find(text);
    return found == shard.by_text.end() ? nullptr : found->second;
  }

  void keep(const std::string& text, std::shared_ptr<const KeyedQuestion> question) {
    if (text.empty() || text.size() > kLongestText) return;                         // a client chooses them
    const std::size_t bytes = kEntryBytes + text.size() + 2 * question->key.size(); // its request is as long
    if (bytes > shard_capacity_bytes_) return;
    Shard& shard = shard_of(text);
    const std::lock_guard lock(shard.mutex);
    if (shard.bytes + bytes > shard_capacity_bytes_) {
      shard.by_text.clear();
      shard.bytes = 0;
    }
    if (shard.by_text.emplace(text, std::move(question)).second) shard.bytes += bytes;
  }

 private:
  static constexpr std::size_t kShardCount = 16;
  static constexpr std::size_t kEntryBytes = 1024; ///< besides the texts

  struct Shard {
    std::mutex mutex;
    /// shared with those who answer it now
    std::unordered_map<std::string, std::shared_ptr<const KeyedQuestion>> by_text;
    std::size_t bytes = 0; ///< of all
  };

  [[nodiscard]] Shard& shard_of(const std::string& text) {
    return shards_[std::hash<std::string>()(text) % kShardCount];
  }

  std::size_t shard_capacity_bytes_;
  std::array<Shard, kShardCount> shards_;
};

} // namespace mc2::server
