#include "answer_cache.hpp"

#include <algorithm>

namespace mc2::server {

namespace {

std::size_t bytes_of(const std::string& question) { return AnswerCache::kQuestionBytes + question.size(); }
std::size_t bytes_of(const Answer& answer) {
  return AnswerCache::kAnswerBytes + answer.etag.size() + answer.body->size();
}

} // namespace

AnswerCache::Entry* AnswerCache::touch(Shard& shard, const std::string& question) {
  const auto found = shard.by_question.find(question);
  if (found == shard.by_question.end()) return nullptr;
  shard.entries.splice(shard.entries.begin(), shard.entries, found->second);
  return &shard.entries.front();
}

std::optional<Answer> AnswerCache::find(const std::string& question, std::int64_t revision) {
  Shard& shard = shard_of(question);
  const std::lock_guard lock(shard.mutex);
  const Entry* entry = touch(shard, question);
  if (entry == nullptr || entry->revision != revision) return std::nullopt;
  return entry->answers.front();
}

Answer AnswerCache::keep(const std::string& question, std::int64_t revision, Answer made) {
  Shard& shard = shard_of(question);
  const std::lock_guard lock(shard.mutex);
  Entry* entry = touch(shard, question);
  if (entry == nullptr) {
    shard.entries.push_front({question, revision, {}});
    entry = &shard.entries.front();
    shard.by_question.emplace(entry->question, shard.entries.begin());
    shard.bytes += bytes_of(question);
  }
  const bool is_late = revision < entry->revision; // another thread has kept an answer of a newer revision
  if (is_late) return made;
  entry->revision = revision;
  const bool is_same = !entry->answers.empty() && entry->answers.front().epoch == made.epoch;
  if (!is_same) {
    shard.bytes += bytes_of(made);
    entry->answers.insert(entry->answers.begin(), std::move(made));
    if (entry->answers.size() > kHistoryLength) {
      shard.bytes -= bytes_of(entry->answers.back());
      entry->answers.pop_back();
    }
    shrink(shard);
  }
  return entry->answers.front();
}

void AnswerCache::forget_all() {
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    shard.by_question.clear();
    shard.entries.clear();
    shard.bytes = 0;
  }
}

void AnswerCache::shrink(Shard& shard) const {
  while (shard.entries.size() > 1 && (shard.entries.size() > shard_capacity_ || shard.bytes > shard_capacity_bytes_)) {
    Entry& last = shard.entries.back();
    shard.bytes -= bytes_of(last.question);
    for (const Answer& answer : last.answers) shard.bytes -= bytes_of(answer);
    shard.by_question.erase(last.question);
    shard.entries.pop_back();
  }
}

std::optional<Answer> AnswerCache::find_epoch(const std::string& question, std::int64_t epoch) {
  Shard& shard = shard_of(question);
  const std::lock_guard lock(shard.mutex);
  const Entry* entry = touch(shard, question);
  if (entry == nullptr) return std::nullopt;
  const auto found = std::ranges::find(entry->answers, epoch, &Answer::epoch);
  return found == entry->answers.end() ? std::nullopt : std::optional<Answer>(*found);
}

} // namespace mc2::server
