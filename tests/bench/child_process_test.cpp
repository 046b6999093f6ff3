#include "child_process.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

namespace mc2::cli::child_process_test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{20'000}, kShort{50};

std::unique_ptr<ChildProcess> start_shell(const std::string& script) {
  std::signal(SIGPIPE, SIG_IGN); // as the program does
  auto child = ChildProcess::start({"sh", "-c", script});
  EXPECT_TRUE(child.ok());
  return std::move(child).value();
}

/// Whether the process still runs. A zombie that no parent has reaped counts as gone.
bool is_running(int process) {
  std::ifstream stream("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  return std::getline(stream, line) && line.find(") Z ") == std::string::npos;
}

TEST(ChildProcess, AnswersLineByLine) {
  auto child = start_shell("while read line; do echo \"<$line>\"; echo and; done");
  ASSERT_TRUE(child->write_line("one").ok());
  EXPECT_EQ(child->read_line(kLong).value(), "<one>");
  EXPECT_EQ(child->read_line(kLong).value(), "and");
  ASSERT_TRUE(child->write_line("two").ok());
  EXPECT_EQ(child->read_line(kLong).value(), "<two>");
}

TEST(ChildProcess, RefusesAProgramThatIsNotThere) {
  const auto child = ChildProcess::start({"/no/such/program"});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code, ErrorCode::NotFound);
  EXPECT_EQ(child.error().field, "/no/such/program");
}

TEST(ChildProcess, TellsAnEndFromAWait) {
  auto silent = start_shell("read line");
  EXPECT_EQ(silent->read_line(kShort).error().code, ErrorCode::OutOfRange);
  auto ended = start_shell("printf 'half a line'");
  EXPECT_EQ(ended->read_line(kLong).error().code, ErrorCode::NotFound);
}

TEST(ChildProcess, RefusesALineWithoutEnd) {
  auto child = start_shell("yes | tr -d '\\n'");
  EXPECT_EQ(child->read_line(kLong).error().code, ErrorCode::Malformed);
}

TEST(ChildProcess, KeepsTheEndOfItsErrors) {
  auto child = start_shell("echo first >&2; echo second >&2; echo done");
  ASSERT_TRUE(child->read_line(kLong).ok());
  EXPECT_EQ(child->error_tail(1000), "first\nsecond");
  EXPECT_EQ(child->error_tail(9), "second"); // 7 bytes of it, and 2 of a line that is not whole
  EXPECT_EQ(start_shell("read line")->error_tail(1000), "");
}

TEST(ChildProcess, EndsWithWhatItStarted) {
  int grandchild = 0;
  {
    auto child = start_shell("trap '' TERM; sleep 1000 & echo $!; wait");
    grandchild = std::stoi(child->read_line(kLong).value());
    EXPECT_TRUE(is_running(grandchild));
  }
  for (int i = 0; i < 500 && is_running(grandchild); ++i) usleep(10'000);
  EXPECT_FALSE(is_running(grandchild));
}

} // namespace
} // namespace mc2::cli::child_process_test
