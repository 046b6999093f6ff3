#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

/// Directories and processes for tests of what the store does to files.
namespace mc2::store::place {

/// A directory that is removed with everything in it.
class TemporaryDirectory {
 public:
  /// @param parent  with a final slash
  explicit TemporaryDirectory(const std::string& parent = ::testing::TempDir()) {
    std::string pattern = parent + "mc2-store-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// Starts `body` in a child process, which exits with its result; an exception exits with 99.
inline pid_t start_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = 99;
  try {
    code = body();
  } catch (...) {
  }
  ::_exit(code);
}

/// Waits for the child to end. Returns its exit status, or 128 + its signal.
inline int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline int run_child(const std::function<int()>& body) { return wait_for(start_child(body)); }

/// As run_child(), but as a user whom file modes bind, as they do not bind root. Gives `owned` to this user.
inline int run_unprivileged(const std::filesystem::path& owned, const std::function<int()>& body) {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0 && ::chown(owned.c_str(), kNobody, kNobody) != 0) return 98;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(owned))
    if (::geteuid() == 0 && ::chown(entry.path().c_str(), kNobody, kNobody) != 0) return 98;
  return run_child([&] {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return 98;
    return body();
  });
}

} // namespace mc2::store::place
