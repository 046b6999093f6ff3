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

/// What answers a question: the same bytes for everyone who asks in one epoch.
struct Answer {
  std::int64_t epoch = 0; ///< of its machine: the store's revision from which on this is the answer
  std::shared_ptr<const std::string> body;
  std::string etag;
  std::string_view source = {};                                   ///< "stored" or "model"
  planner::Provenance provenance = planner::Provenance::Analytic; ///< of the makespan; the weakest of several
};

/// Answers by question, least recently asked ones forgotten first. An answer holds until the store's revision moves;
/// then it is made anew, and keeps its bytes when it is of the same epoch. The last few answers to a question are kept,
/// so that ranks that ask for an epoch get that epoch's answer also when it was replaced meanwhile. Threads: safe to
/// share; two that miss at once both make the answer, and the first one's is kept.
class AnswerCache {
 public:
  /// What an answer, and a question, takes in memory besides its texts.
  static constexpr std::size_t kAnswerBytes = 256, kQuestionBytes = 256;

  /// @param capacity        questions whose answers are kept
  /// @param capacity_bytes  of all that is kept
  AnswerCache(std::size_t capacity, std::size_t capacity_bytes)
      : shard_capacity_(capacity / kShardCount + 1), shard_capacity_bytes_(capacity_bytes / kShardCount) {}

  /// The answer at this revision, if it is known.
  [[nodiscard]] std::optional<Answer> find(const std::string& question, std::int64_t revision);

  /// Keeps what was made at this revision and returns what everyone gets for it.
  Answer keep(const std::string& question, std::int64_t revision, Answer made);

  /// What was kept is not asked for again: it is of another store.
  void forget_all();

  /// The answer of an epoch; nothing when it is unknown: too old, or of before this service started.
  [[nodiscard]] std::optional<Answer> find_epoch(const std::string& question, std::int64_t epoch);

 private:
  static constexpr std::size_t kShardCount = 16;
  static constexpr std::size_t kHistoryLength = 8;

  struct Entry {
    std::string question;
    std::int64_t revision = 0;   ///< at which the newest was last seen to be right
    std::vector<Answer> answers; ///< newest first
  };
  struct Shard {
    std::mutex mutex;
    std::list<Entry> entries;                                                     ///< most recently asked first
    std::unordered_map<std::string_view, std::list<Entry>::iterator> by_question; ///< into the entries' texts
    std::size_t bytes = 0;                                                        ///< of all entries
  };

  [[nodiscard]] Shard& shard_of(const std::string& question) {
    return shards_[std::hash<std::string>()(question) % kShardCount];
  }
  /// Null when there is none; else it is the first now. The shard's mutex is held.
  [[nodiscard]] static Entry* touch(Shard& shard, const std::string& question);

  /// Forgets the least recently asked, never the first. The shard's mutex is held.
  void shrink(Shard& shard) const;

  std::size_t shard_capacity_, shard_capacity_bytes_;
  std::array<Shard, kShardCount> shards_;
};

} // namespace mc2::server
