#pragma once

#include <functional>
#include <string>

#pragma GCC visibility push(default)

namespace mc2::executor {

/// Takes one line, without its end.
using FailureSink = std::function<void(const std::string& line)>;

/// While it lives, failures that no caller can be told, those of destructors and of a job's end, go to its sink. Of
/// several the one made last has them. Without any they go to standard error, each as "mc2: error: LINE" in one write.
/// Threads: any; the sink is called by one at a time, and not any more when the destructor has returned.
class FailureLog {
 public:
  explicit FailureLog(FailureSink sink);
  ~FailureLog();
  FailureLog(const FailureLog&) = delete;
  FailureLog& operator=(const FailureLog&) = delete;

 private:
  friend void log_failure(const std::string& line) noexcept;
  FailureSink sink_;
};

/// Tells one, as FailureLog says.
void log_failure(const std::string& line) noexcept;

} // namespace mc2::executor

#pragma GCC visibility pop
