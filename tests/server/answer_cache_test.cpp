#include "answer_cache.hpp"

#include <gtest/gtest.h>

namespace mc2::server {
namespace {

Answer answer(const std::string& digest, std::int64_t epoch) {
  return {digest, epoch, std::make_shared<const std::string>(digest + std::to_string(epoch)), "\"" + digest + "\""};
}

TEST(AnswerCache, HoldsUntilTheStoresRevisionMoves) {
  AnswerCache cache(100, 1 << 20);
  EXPECT_FALSE(cache.find("q", 1));
  cache.keep("q", 1, answer("a", 1));
  EXPECT_EQ(cache.find("q", 1).value().identity, "a");
  EXPECT_FALSE(cache.find("q", 2));
  EXPECT_FALSE(cache.find("other", 1));
}

TEST(AnswerCache, SameContentKeepsItsEpochAndBytes) {
  AnswerCache cache(100, 1 << 20);
  const Answer first = cache.keep("q", 1, answer("a", 1));
  const Answer second = cache.keep("q", 5, answer("a", 5));
  EXPECT_EQ(second.epoch, 1);
  EXPECT_EQ(second.body, first.body);
  EXPECT_EQ(cache.find("q", 5).value().body, first.body);
}

TEST(AnswerCache, ReplacedAnswerIsFoundByItsEpoch) {
  AnswerCache cache(100, 1 << 20);
  cache.keep("q", 1, answer("a", 1));
  cache.keep("q", 2, answer("b", 2));
  EXPECT_EQ(cache.find_epoch("q", 1).value().identity, "a");
  EXPECT_EQ(cache.find_epoch("q", 2).value().identity, "b");
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
  EXPECT_EQ(cache.keep("q", 6, answer("old", 6)).identity, "old"); // its own asker's, and nobody else's
  EXPECT_EQ(cache.find("q", 7).value().identity, "new");
}

TEST(AnswerCache, HoldsNoMoreBytesThanItMay) {
  constexpr std::size_t kBodyBytes = 1000;
  AnswerCache cache(100'000, 16 * 10 * kBodyBytes); // ten bodies in each of its 16 parts
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

} // namespace
} // namespace mc2::server
