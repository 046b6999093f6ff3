#include "http/rate_limiter.hpp"

#include <gtest/gtest.h>

#include <string>

namespace mc2::server::rate_limiter_test {
namespace {

using std::chrono::milliseconds;
const RateLimiter::Clock::time_point kStart{};

TEST(RateLimiter, AdmitsASecondsWorthAtOnceAndThenTheRate) {
  RateLimiter limiter(10);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limiter.admit("a", kStart)) << i;
  EXPECT_FALSE(limiter.admit("a", kStart));
  EXPECT_TRUE(limiter.admit("a", kStart + milliseconds(101))); // 10 a second: one each 100 ms
  EXPECT_FALSE(limiter.admit("a", kStart + milliseconds(102)));
}

TEST(RateLimiter, CountsEveryClientByItself) {
  RateLimiter limiter(1);
  EXPECT_TRUE(limiter.admit("a", kStart));
  EXPECT_FALSE(limiter.admit("a", kStart));
  EXPECT_TRUE(limiter.admit("b", kStart));
}

TEST(RateLimiter, NeverSavesMoreThanASecond) {
  RateLimiter limiter(2);
  int admitted = 0;
  for (int i = 0; i < 10; ++i) admitted += limiter.admit("a", kStart + std::chrono::hours(1)) ? 1 : 0;
  EXPECT_EQ(admitted, 2);
}

TEST(RateLimiter, SlowRatesAdmitTheFirst) {
  RateLimiter limiter(0.1); // one each 10 s
  EXPECT_TRUE(limiter.admit("a", kStart));
  EXPECT_FALSE(limiter.admit("a", kStart + std::chrono::seconds(9)));
  EXPECT_TRUE(limiter.admit("a", kStart + std::chrono::seconds(20)));
}

TEST(RateLimiter, ZeroIsNoLimit) {
  RateLimiter limiter(0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(limiter.admit("a", kStart));
}

TEST(RateLimiter, ClientsBeyondThoseThatCanBeToldApartShareOneBucket) {
  RateLimiter limiter(1);
  for (int i = 0; i < 65'536; ++i) EXPECT_TRUE(limiter.admit(std::to_string(i), kStart));
  EXPECT_TRUE(limiter.admit("one more", kStart));
  EXPECT_FALSE(limiter.admit("and another", kStart));
  EXPECT_FALSE(limiter.admit("7", kStart)) << "is still known";
  const auto later = kStart + std::chrono::seconds(3); // the first clients are forgotten by then
  EXPECT_TRUE(limiter.admit("one more", later));
  EXPECT_TRUE(limiter.admit("and another", later));
}

} // namespace
} // namespace mc2::server::rate_limiter_test
