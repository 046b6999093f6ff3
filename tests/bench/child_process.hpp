#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"

namespace mc2::cli {

/// A child process that exchanges lines with this one and never outlives *this. It has a process group of its own, so
/// that the processes that it starts end with it.
class ChildProcess {
 public:
  /// @param command  the program, looked up in PATH unless it has a slash, and its arguments; not empty
  /// Errors: NotFound when it cannot be started. Throws SystemError when pipes or files run out.
  [[nodiscard]] static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& command);

  /// Closes the child's input, gives it two seconds to end, then kills its process group.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Errors: NotFound when the child has ended.
  [[nodiscard]] Result<void> write_line(std::string_view line);
  /// The next line of the child's standard output, without its line break. Lines are at most 1 MiB.
  /// Errors: OutOfRange after `patience`, Malformed for a longer line, NotFound when the output has ended, Cancelled.
  [[nodiscard]] Result<std::string> read_line(std::chrono::milliseconds patience);
  /// The last whole lines that the child wrote to standard error, at most `byte_count` bytes.
  [[nodiscard]] std::string error_tail(std::size_t byte_count) const;

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, FileCloser>;

  ChildProcess() = default;
  void wait_for_end(std::chrono::milliseconds patience) const noexcept;

  pid_t process_ = -1;
  File input_;  ///< the child's standard input
  File output_; ///< the child's standard output
  File errors_; ///< the child's standard error: a temporary file without a name
  std::string received_;
};

} // namespace mc2::cli
