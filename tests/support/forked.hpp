#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <span>
#include <vector>

namespace mc2::testing {

/// Runs `rank_main(rank)` in `count` processes and waits for them. Returns the exit code of each: what rank_main
/// returned, 99 after an exception, 128 + n after signal n. Call it before this process starts threads or opens a
/// device.
inline std::vector<int> run_processes(int count, const std::function<int(int)>& rank_main) {
  std::fflush(nullptr);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t process = fork();
    if (process == 0) {
      int code = 99;
      try {
        code = rank_main(rank);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      std::fflush(nullptr);
      _exit(code); // without the parent's atexit handlers
    }
    processes.push_back(process);
  }
  std::vector<int> codes;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return codes;
}

/// Memory, filled with zeros, that this process shares with processes forked later.
class SharedBytes {
 public:
  explicit SharedBytes(std::size_t count)
      : bytes_{static_cast<std::byte*>(mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
               count} {
    if (bytes_.data() == MAP_FAILED) std::abort();
  }
  ~SharedBytes() { munmap(bytes_.data(), bytes_.size()); }
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

} // namespace mc2::testing
