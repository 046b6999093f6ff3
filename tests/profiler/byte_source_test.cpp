#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "gzipped.hpp"
#include "imported_log.hpp"

namespace mc2::profiler::byte_source_test {
namespace {

constexpr const char* kOsu = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n4  21.76\n";

/// A named pipe that is removed at the end of the test.
class Pipe {
 public:
  explicit Pipe(const std::string& name)
      : path_(std::filesystem::path(::testing::TempDir()) / (name + std::to_string(getpid()))) {
    std::filesystem::remove(path_);
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(ByteSource, APipeIsReadToItsEnd) {
  const Pipe pipe("mc2_written_");
  const auto source = open_log(pipe.path());
  ASSERT_TRUE(source) << source.error().text();
  const std::jthread writer([&pipe] { std::ofstream(pipe.path()) << kOsu << std::flush << "8  22.5\n"; });
  TimingSet timings;
  const auto summary = import_log(*source.value(), "", {.world_size = 4}, timings);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary.value().took_count, 2);
}

TEST(ByteSource, APipeThatNobodyWritesToIsWaitedForUntilTheCallerCancels) {
  const Pipe pipe("mc2_silent_");
  const auto source = open_log(pipe.path());
  ASSERT_TRUE(source) << source.error().text();
  int asked = 0;
  ImportHooks hooks;
  hooks.is_cancelled = [&asked] { return ++asked > 2; };
  TimingSet timings;
  const auto summary = import_log(*source.value(), "", {}, timings, hooks);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::Cancelled);
}

/// 8 MiB of line breaks are 8 KiB of gzip, which is one piece of the file.
TEST(ByteSource, ACompressedLogIsCancelledWithinAPieceOfTheFile) {
  constexpr std::int64_t kLines = 8 << 20, kPieceBytes = 64 << 10;
  const std::string bytes = gzipped(std::string(kLines, '\n'));
  const auto source = memory_log(bytes);
  std::int64_t line_count = 0;
  ImportHooks hooks;
  hooks.on_line = [&line_count](const LineVerdict&) { ++line_count; };
  hooks.is_cancelled = [&line_count] { return line_count > 0; };
  TimingSet timings;
  const auto summary = import_log(*source, "osu", {}, timings, hooks);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::Cancelled);
  EXPECT_LE(line_count, 2 * kPieceBytes);
}

} // namespace
} // namespace mc2::profiler::byte_source_test
