#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::server {

/// The answer to a question. Everyone who asks within one epoch gets the same bytes.
struct Answer {
  std::int64_t epoch = 0; ///< the store's revision at the last change to what it has of the machine
  std::shared_ptr<const std::string> body;
  std::string etag;
  std::string_view source = {};                                   ///< "stored" or "model"
  planner::Provenance provenance = planner::Provenance::Analytic; ///< of the makespan; of several makespans the weakest
};

/// Keeps answers by question and forgets the least recently asked question first. An answer is valid at one revision of
/// the store. At a later revision it is made anew; where its epoch has not changed, the kept bytes stay. The last
/// kHistoryLength answers to a question are kept, so that ranks that ask for an epoch get the answer of that epoch
/// although a newer answer exists. Threads: safe to share; when two threads miss at once, both make the answer and the
/// first one is kept.
class AnswerCache {
 public:
  /// What an answer and a question take in memory in addition to their texts.
  static constexpr std::size_t kAnswerBytes = 256, kQuestionBytes = 256;

  /// @param capacity        questions whose answers are kept
  /// @param capacity_bytes  of all kept answers and questions
  AnswerCache(std::size_t capacity, std::size_t capacity_bytes)
      : shard_capacity_(capacity / kShardCount + 1), shard_capacity_bytes_(capacity_bytes / kShardCount) {}

  /// The answer that is known to be valid at this revision, if any.
  [[nodiscard]] std::optional<Answer> find(const std::string& question, std::int64_t revision);

  /// Keeps an answer that was made at this revision. Returns what everyone gets: the kept answer where the epoch is the
  /// same, else `made`.
  Answer keep(const std::string& question, std::int64_t revision, Answer made);

  /// Forgets every answer, because the store was replaced by another one.
  void forget_all();

  /// The answer of an epoch. Nothing when it is unknown: it is too old, or older than this service's start.
  [[nodiscard]] std::optional<Answer> find_epoch(const std::string& question, std::int64_t epoch);

 private:
  static constexpr std::size_t kShardCount = 16;
  static constexpr std::size_t kHistoryLength = 8;

  struct Entry {
    std::string question;
    std::int64_t revision = 0;   ///< the last one at which the newest answer was valid
    std::vector<Answer> answers; ///< newest first
  };
  struct Shard {
    std::mutex mutex;
    std::list<Entry> entries;                                                     ///< most recently asked first
    std::unordered_map<std::string_view, std::list<Entry>::iterator> by_question; ///< keys point into `entries`
    std::size_t bytes = 0;                                                        ///< of all entries
  };

  [[nodiscard]] Shard& shard_of(const std::string& question) {
    return shards_[std::hash<std::string>()(question) % kShardCount];
  }
  /// Finds an entry and moves it to the front; null when there is none. The caller holds the shard's mutex.
  [[nodiscard]] static Entry* touch(Shard& shard, const std::string& question);

  /// Forgets the least recently asked questions until the rest fits, but never the first entry. The caller holds the
  /// shard's mutex.
  void shrink(Shard& shard) const;

  std::size_t shard_capacity_, shard_capacity_bytes_;
  std::array<Shard, kShardCount> shards_;
};

} // namespace mc2::server
