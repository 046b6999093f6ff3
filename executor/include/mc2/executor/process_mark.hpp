#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace mc2::executor {

/// A member that tells an object whether it is in a fork()ed child of the process that made it. There the threads,
/// connections and devices that it needs are missing: they stayed in the parent. A check costs one load. Threads: safe
/// to share.
class ProcessMark {
 public:
  /// Marks the calling process.
  ProcessMark() noexcept;

  /// Whether this process is a child of the marked one.
  [[nodiscard]] bool is_inherited() const noexcept;

 private:
  std::uint64_t fork_count_;
};

} // namespace mc2::executor

#pragma GCC visibility pop
