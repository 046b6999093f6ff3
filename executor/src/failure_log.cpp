#include "mc2/executor/failure_log.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

namespace mc2::executor {
namespace {

struct FailureLogs {
  std::mutex mutex;
  std::vector<const FailureLog*> made; ///< living logs in the order in which they were made
};

/// Never destroyed, because devices may be closed after static objects have been destroyed.
FailureLogs& failure_logs() {
  static auto* const logs = new FailureLogs;
  return *logs;
}

} // namespace

FailureLog::FailureLog(FailureSink sink) : sink_(std::move(sink)) {
  const std::lock_guard lock(failure_logs().mutex);
  failure_logs().made.push_back(this);
}

FailureLog::~FailureLog() {
  const std::lock_guard lock(failure_logs().mutex);
  std::erase(failure_logs().made, this);
}

void log_failure(const std::string& line) noexcept {
  try {
    const std::lock_guard lock(failure_logs().mutex);
    if (!failure_logs().made.empty()) return failure_logs().made.back()->sink_(line);
    const std::string whole = "mc2: error: " + line + "\n";
    std::fwrite(whole.data(), 1, whole.size(), stderr);
  } catch (...) { // the sink threw or memory is short; there is no other place for the line
  }
}

} // namespace mc2::executor
