#include "parallel_for.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace mc2::executor::parallel_for_test {
namespace {

TEST(ParallelFor, CallsEveryIndexOnce) {
  for (const std::int64_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
    parallel_for(count, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    for (const auto& call : calls) EXPECT_EQ(call.load(), 1);
  }
}

TEST(ParallelFor, ThrowsWhatACallThrew) {
  const auto fail = [](std::int64_t i) {
    if (i == 7) throw std::runtime_error("call 7");
  };
  EXPECT_THROW(parallel_for(100, fail), std::runtime_error);
}

TEST(ParallelFindFirst, IsTheLowestOfSeveral) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(parallel_find_first(1000, [](std::int64_t at) { return at >= 500 && at % 3 == 0; }), 501);
  }
  EXPECT_EQ(parallel_find_first(1000, [](std::int64_t) { return false; }), std::nullopt);
}

} // namespace
} // namespace mc2::executor::parallel_for_test
