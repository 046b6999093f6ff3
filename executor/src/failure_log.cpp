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
  std::vector<const FailureLog*> made; ///< in this order
};

/// Never destroyed: devices may be closed as late as anything.
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
  } catch (...) { // of a sink, or for want of memory: there is nobody else to tell
  }
}

} // namespace mc2::executor
