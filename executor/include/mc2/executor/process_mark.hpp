#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace mc2::executor {

/// Tells an object in a child process, after fork(), that the threads, connections and devices it counts on stayed
/// behind in the parent. Costs one load. Threads: safe to share.
class ProcessMark {
 public:
  /// Marks the process that calls.
  ProcessMark() noexcept;

  /// Whether this process is a child of the marked one.
  [[nodiscard]] bool is_inherited() const noexcept;

 private:
  std::uint64_t fork_count_;
};

} // namespace mc2::executor

#pragma GCC visibility pop
