#include "answer_cache.hpp"

#include <gtest/gtest.h>

namespace mc2::server {
namespace {

Answer answer(const std::string& digest, std::int64_t epoch) {
  return {digest, epoch, std::make_shared<const std::string>(digest + std::to_string(epoch)), "\"" + digest + "\""};
}

TEST(AnswerCache, HoldsUntilTheStoresRevisionMoves) {
  AnswerCache cache(100);
  EXPECT_FALSE(cache.find("q", 1));
  cache.keep("q", 1, answer("a", 1));
  EXPECT_EQ(cache.find("q", 1).value().digest, "a");
  EXPECT_FALSE(cache.find("q", 2));
  EXPECT_FALSE(cache.find("other", 1));
}

TEST(AnswerCache, SameContentKeepsItsEpochAndBytes) {
  AnswerCache cache(100);
  const Answer first = cache.keep("q", 1, answer("a", 1));
  const Answer second = cache.keep("q", 5, answer("a", 5));
  EXPECT_EQ(second.epoch, 1);
  EXPECT_EQ(second.body, first.body);
  EXPECT_EQ(cache.find("q", 5).value().body, first.body);
}

TEST(AnswerCache, ReplacedAnswerIsFoundByItsEpoch) {
  AnswerCache cache(100);
  cache.keep("q", 1, answer("a", 1));
  cache.keep("q", 2, answer("b", 2));
  EXPECT_EQ(cache.find_epoch("q", 1).value().digest, "a");
  EXPECT_EQ(cache.find_epoch("q", 2).value().digest, "b");
  EXPECT_FALSE(cache.find_epoch("q", 3));
  EXPECT_FALSE(cache.find_epoch("other", 1));
}

TEST(AnswerCache, ForgetsTheOldestOfManyEpochs) {
  AnswerCache cache(100);
  for (int epoch = 1; epoch <= 9; ++epoch) cache.keep("q", epoch, answer(std::to_string(epoch), epoch));
  EXPECT_FALSE(cache.find_epoch("q", 1));
  EXPECT_TRUE(cache.find_epoch("q", 2));
}

TEST(AnswerCache, LateAnswerDoesNotReplaceANewerOne) {
  AnswerCache cache(100);
  cache.keep("q", 7, answer("new", 7));
  EXPECT_EQ(cache.keep("q", 6, answer("old", 6)).digest, "old"); // its own asker's, and nobody else's
  EXPECT_EQ(cache.find("q", 7).value().digest, "new");
}

TEST(AnswerCache, ForgetsWhatWasNotAskedForLongest) {
  AnswerCache cache(0); // one answer in each of its parts
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
