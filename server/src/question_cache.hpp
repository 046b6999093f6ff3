#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "plan_question.hpp"

namespace mc2::server {

/// A question and the key under which its answers are kept. Equal questions have equal keys.
struct KeyedQuestion {
  PlanQuestion question;
  std::string key;
};

/// Keeps the questions that requests to /v1/plan were read as, so that an equal request is not parsed again. A
/// request's text alone decides its question, so an entry is valid for ever. Bounded in bytes: a shard without room
/// forgets all its entries. Threads: safe to share.
class QuestionCache {
 public:
  static constexpr std::size_t kLongestText = 1024; ///< bytes; longer texts are parsed every time

  explicit QuestionCache(std::size_t capacity_bytes) : shard_capacity_bytes_(capacity_bytes / kShardCount) {}

  /// The question of a request's text; null when it is not known.
  [[nodiscard]] std::shared_ptr<const KeyedQuestion> find(const std::string& text) {
    Shard& shard = shard_of(text);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.by_text.find(text);
    return found == shard.by_text.end() ? nullptr : found->second;
  }

  void keep(const std::string& text, std::shared_ptr<const KeyedQuestion> question) {
    if (text.empty() || text.size() > kLongestText) return; // bounded, because clients choose the texts
    const std::size_t bytes = kEntryBytes + text.size() + 2 * question->key.size(); // the key, a request as long
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
  static constexpr std::size_t kEntryBytes = 1024; ///< of an entry, in addition to its texts

  struct Shard {
    std::mutex mutex;
    /// Questions are shared with the threads that answer them now.
    std::unordered_map<std::string, std::shared_ptr<const KeyedQuestion>> by_text;
    std::size_t bytes = 0; ///< of all entries
  };

  [[nodiscard]] Shard& shard_of(const std::string& text) {
    return shards_[std::hash<std::string>()(text) % kShardCount];
  }

  std::size_t shard_capacity_bytes_;
  std::array<Shard, kShardCount> shards_;
};

} // namespace mc2::server
