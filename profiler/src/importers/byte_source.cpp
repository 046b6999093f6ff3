#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {
namespace {

class FileSource : public ByteSource {
 public:
  FileSource(int file, std::filesystem::path path, std::int64_t total_bytes)
      : file_(file), path_(std::move(path)), total_bytes_(total_bytes) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { close(file_); }

  [[nodiscard]] std::size_t read(std::span<char> into) override {
    while (true) {
      const ssize_t got = ::read(file_, into.data(), into.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw SystemError("read " + path_.string(), errno, std::strerror(errno));
    }
  }
  [[nodiscard]] std::filesystem::path path() const override { return path_; }
  [[nodiscard]] std::int64_t total_bytes() const override { return total_bytes_; }
  [[nodiscard]] bool is_ready() override {
    constexpr int kWait_ms = 100;
    pollfd waited{file_, POLLIN, 0};
    const int found = poll(&waited, 1, kWait_ms);
    return found > 0 || (found < 0 && errno != EINTR);
  }

 private:
  int file_;
  std::filesystem::path path_;
  std::int64_t total_bytes_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : rest_(bytes), total_bytes_(static_cast<std::int64_t>(bytes.size())) {}

  [[nodiscard]] std::size_t read(std::span<char> into) override {
    const std::size_t size = std::min(into.size(), rest_.size());
    std::copy_n(rest_.data(), size, into.data());
    rest_.remove_prefix(size);
    return size;
  }
  [[nodiscard]] std::int64_t total_bytes() const override { return total_bytes_; }

 private:
  std::string_view rest_;
  std::int64_t total_bytes_;
};

} // namespace

Result<std::unique_ptr<ByteSource>> open_log(const std::filesystem::path& path) {
  const auto refused = [&](const std::string& why) { return Error{ErrorCode::InvalidSpec, path.string(), why}; };
  // Else opening a named pipe waits until somebody writes to it, and no signal ends that wait.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return refused(errno == ENOENT ? "no such file" : std::string("cannot be opened: ") + std::strerror(errno));
  fcntl(file, F_SETFL, 0); // is_ready() waits, so read() may block
  struct stat status {};
  const bool is_readable = fstat(file, &status) == 0 && !S_ISDIR(status.st_mode);
  if (is_readable)
    return std::unique_ptr<ByteSource>(
        std::make_unique<FileSource>(file, path, S_ISREG(status.st_mode) ? std::int64_t{status.st_size} : 0));
  close(file);
  return refused("is a directory, not a log");
}

std::unique_ptr<ByteSource> memory_log(std::string_view bytes) { return std::make_unique<MemorySource>(bytes); }

} // namespace mc2::profiler
