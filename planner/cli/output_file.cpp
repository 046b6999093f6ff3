#include "output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <utility>

#include "mc2/planner/error.hpp"

namespace mc2::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, int code, const std::string& what) {
  throw SystemError("write " + path.string(), code, what + "; nothing was changed");
}

/// Whether the path is a device or a pipe, which is written directly.
bool is_special(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// The file to write: follows links, also to a file that does not exist yet. A special file keeps its path, because its
/// target may have no name: /dev/stdout may lead to a pipe.
fs::path target_of(fs::path path) {
  if (is_special(path)) return path;
  constexpr int kMostLinks = 40; // as many as Linux follows
  std::error_code failure;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, failure); ++i) {
    const fs::path next = fs::read_symlink(path, failure);
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

bool is_store(const fs::path& path) {
  constexpr std::string_view kSqliteHeader("SQLite format 3", 16); // with its terminating 0
  std::array<char, kSqliteHeader.size()> start{};
  std::ifstream(path, std::ios::binary).read(start.data(), start.size());
  return std::string_view(start.data(), start.size()) == kSqliteHeader;
}

} // namespace

void OutputFile::check(const fs::path& path) {
  const fs::path target = target_of(path);
  if (is_special(target)) return;
  std::error_code failure;
  const fs::file_status status = fs::status(target, failure);
  if (fs::is_directory(status)) refuse(path, EISDIR, "it is a directory; name a file");
  if (fs::is_regular_file(status) && is_store(target))
    refuse(path, EEXIST, "it is a store, which would be lost; name another file");
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (access(folder.c_str(), W_OK | X_OK) != 0) refuse(path, errno, std::generic_category().message(errno));
}

OutputFile::OutputFile(const fs::path& path) : path_(path), target_(target_of(path)) {
  check(path);
  if (!is_special(target_)) temporary_ = target_.string() + ".part";
  constexpr mode_t kByUmask = 0666;
  file_ =
      ::open((temporary_.empty() ? target_ : temporary_).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kByUmask);
  if (file_ < 0) refuse(path_, errno, std::generic_category().message(errno));
  std::error_code failure;
  const fs::file_status status = fs::status(target_, failure);
  if (fs::is_regular_file(status)) fs::permissions(temporary_, status.permissions(), failure);
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
  if (temporary_.empty()) return;
  std::error_code ignored;
  fs::remove(temporary_, ignored); // it is gone if the file was kept
}

void OutputFile::write(std::string_view text) {
  constexpr std::size_t kMostUnwritten = 1 << 20;
  unwritten_ += text;
  if (unwritten_.size() > kMostUnwritten) flush();
}

void OutputFile::flush() {
  for (std::string_view rest = unwritten_; !rest.empty();) {
    const ssize_t count = ::write(file_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(path_, errno, std::generic_category().message(errno));
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  unwritten_.clear();
}

void OutputFile::keep() {
  flush();
  if (::close(std::exchange(file_, -1)) != 0) refuse(path_, errno, std::generic_category().message(errno));
  if (temporary_.empty()) return;
  std::error_code failure;
  fs::rename(temporary_, target_, failure);
  if (failure) refuse(path_, failure.value(), failure.message());
}

} // namespace mc2::cli
