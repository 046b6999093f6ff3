#include "answer_cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "http/content_coding.hpp"
#include "question_cache.hpp"

namespace mc2::server::answer_cache_test {
namespace {

Answer answer(const std::string& digest, std::int64_t epoch) {
  return {epoch, std::make_shared<const std::string>(digest), "\"" + digest + "\""};
}

TEST(AnswerCache, HoldsUntilTheStoresRevisionMoves) {
  AnswerCache cache(100, 1 << 20);
  EXPECT_FALSE(cache.find("q", 1));
  cache.keep("q", 1, answer("a", 1));
  EXPECT_EQ(*cache.find("q", 1).value().body, "a");
  EXPECT_FALSE(cache.find("q", 2));
  EXPECT_FALSE(cache.find("other", 1));
}

TEST(AnswerCache, SameEpochKeepsItsBytes) {
  AnswerCache cache(100, 1 << 20);
  const Answer first = cache.keep("q", 1, answer("a", 1));
  const Answer second = cache.keep("q", 5, answer("a", 1)); // documents of another machine have changed
  EXPECT_EQ(second.epoch, 1);
  EXPECT_EQ(second.body, first.body);
  EXPECT_EQ(cache.find("q", 5).value().body, first.body);
}

TEST(AnswerCache, ReplacedAnswerIsFoundByItsEpoch) {
  AnswerCache cache(100, 1 << 20);
  cache.keep("q", 1, answer("a", 1));
  cache.keep("q", 2, answer("b", 2));
  EXPECT_EQ(*cache.find_epoch("q", 1).value().body, "a");
  EXPECT_EQ(*cache.find_epoch("q", 2).value().body, "b");
  EXPECT_FALSE(cache.find_epoch("q", 3));
  EXPECT_FALSE(cache.find_epoch("other", 1));
}

TEST(AnswerCache, ForgetsTheOldestOfManyEpochs) {
  AnswerCache cache(100, 1 << 20);
  for (int epoch = 1; epoch <= 9; ++epoch) cache.keep("q", epoch, answer(std::to_string(epoch), epoch));
  EXPECT_FALSE(cache.find_epoch("q", 1));
  EXPECT_TRUE(cache.find_epoch("q", 2));
}

TEST(AnswerCache, LateAnswerDoesNotReplaceANewerOne) {
  AnswerCache cache(100, 1 << 20);
  cache.keep("q", 7, answer("new", 7));
  EXPECT_EQ(*cache.keep("q", 6, answer("old", 6)).body, "old"); // for its own asker only
  EXPECT_EQ(*cache.find("q", 7).value().body, "new");
}

TEST(AnswerCache, HoldsNoMoreBytesThanItMay) {
  constexpr std::size_t kBodyBytes = 1000;
  AnswerCache cache(100'000, 16 * 10 * (kBodyBytes + 600)); // ten bodies in each of its 16 parts
  int known_count = 0;
  for (int i = 0; i < 2000; ++i) {
    Answer large = answer("a", 1);
    large.body = std::make_shared<const std::string>(kBodyBytes, 'x');
    cache.keep(std::to_string(i), 1, large);
    EXPECT_TRUE(cache.find(std::to_string(i), 1)) << "the newest stays";
  }
  for (int i = 0; i < 2000; ++i) known_count += cache.find(std::to_string(i), 1) ? 1 : 0;
  EXPECT_LE(known_count, 160);
  EXPECT_GE(known_count, 100);
}

TEST(AnswerCache, ForgetsWhatWasNotAskedForLongest) {
  AnswerCache cache(0, 1 << 20); // one answer in each of its parts
  for (int i = 0; i < 1000; ++i) {
    const std::string question = std::to_string(i);
    cache.keep(question, 1, answer("a", 1));
    EXPECT_TRUE(cache.find(question, 1)) << "the newest stays";
  }
  int kept = 0;
  for (int i = 0; i < 1000; ++i) kept += cache.find(std::to_string(i), 1) ? 1 : 0;
  EXPECT_LE(kept, 16);
}

/// The resident memory of this process.
std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(getpagesize());
}

TEST(Caches, AMillionQuestionsTakeNoMoreThanTheyMay) {
  constexpr std::size_t kBytes = 8 << 20;
  constexpr int kQuestions = 1'000'000, kOneIsCompressedOf = 250;
  AnswerCache answers(1 << 20, kBytes);
  QuestionCache questions(kBytes);
  Compressor compressor(kBytes);
  std::size_t before = 0;
  std::string filling; // 64 different bytes in no order, which hardly compress
  for (std::uint32_t at = 0, state = 1; at < 1500; ++at)
    filling += static_cast<char>('0' + (state = state * 1664525 + 1013904223) / (1U << 26));
  for (int i = 0; i < kQuestions; ++i) {
    const std::string text = "?m=" + std::to_string(i);
    std::string body = text + filling;
    questions.keep(text, std::make_shared<const KeyedQuestion>(KeyedQuestion{{}, text}));
    const Answer kept =
        answers.keep(text, 1, {1, std::make_shared<const std::string>(std::move(body)), "\"" + text + "\""});
    if (i % kOneIsCompressedOf == 0) {
      Response response{.body = kept.body, .etag = kept.etag};
      compressor.encode(response, "gzip");
    }
    if (i == kQuestions / 10) before = resident_bytes(); // all caches are full by now
  }
  EXPECT_LT(resident_bytes(), before + kBytes);
  EXPECT_LT(before, 16 * kBytes);
  EXPECT_TRUE(answers.find("?m=" + std::to_string(kQuestions - 1), 1));
}

} // namespace
} // namespace mc2::server::answer_cache_test
