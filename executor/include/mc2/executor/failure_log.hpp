#pragma once

#include <functional>
#include <string>

#pragma GCC visibility push(default)

namespace mc2::executor {

/// Receives one line, without a newline.
using FailureSink = std::function<void(const std::string& line)>;

/// While a FailureLog lives, its sink receives failures that cannot be returned to a caller, e.g. in destructors and at
/// the end of a job. If there are several, only the one made last receives them. If there is none, they go to standard
/// error, each as "mc2: error: LINE" in one write. Threads: any; the sink is called by one thread at a time, and never
/// after the destructor has returned.
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

/// Passes a failure to the FailureLog that was made last, else to standard error.
void log_failure(const std::string& line) noexcept;

} // namespace mc2::executor

#pragma GCC visibility pop
