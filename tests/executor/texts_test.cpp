#include "texts.hpp"

#include <gtest/gtest.h>

namespace mc2::executor {
namespace {

TEST(Texts, BytesHaveTheLargestUnitThatLeavesAWholeOne) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{256} << 20), "256.0 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{1331} << 20), "1.30 GiB"); // 1331 / 1024 = 1.2998
  EXPECT_EQ(bytes_text(std::int64_t{4096} << 50), "4096.00 PiB");
}

} // namespace
} // namespace mc2::executor
