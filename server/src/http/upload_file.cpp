#include "http/upload_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace mc2::server {
namespace {

[[noreturn]] void fail(const char* call) { throw SystemError(call, errno, std::strerror(errno)); }

int create_file(const std::filesystem::path& directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  const bool has_no_such_files = errno == EOPNOTSUPP || errno == EISDIR;
  if (!has_no_such_files) fail("open");
  std::string name = (directory / ".mc2-upload-XXXXXX").string();
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) fail("mkostemp");
  unlink(name.c_str());
  return named;
}

/// The bytes of an open file.
/// @param kept  released with the last copy of the body
Body map_whole(int file, std::shared_ptr<void> kept) {
  struct stat status {};
  if (fstat(file, &status) != 0) fail("fstat");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return {};
  void* const place = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (place == MAP_FAILED) fail("mmap");
  const std::shared_ptr<const void> owner(place, [size, kept = std::move(kept)](void* bytes) { munmap(bytes, size); });
  return {owner, {static_cast<const char*>(place), size}};
}

} // namespace

Body map_file(const std::filesystem::path& path, std::shared_ptr<void> kept) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail("open");
  const std::shared_ptr<void> closed(nullptr, [file](void*) { close(file); });
  return map_whole(file, std::move(kept));
}

Body::Body(std::string bytes) {
  auto kept = std::make_shared<const std::string>(std::move(bytes));
  bytes_ = *kept;
  owner_ = std::move(kept);
}

UploadFile::UploadFile(UploadFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), place_(std::move(other.place_)) {}

UploadFile::~UploadFile() {
  if (file_ >= 0) close(file_);
}

void UploadFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("write");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

Body UploadFile::finish() { return map_whole(file_, place_); }

std::optional<UploadFile> UploadRoom::enter() {
  if (count_.fetch_add(1) >= most_) {
    --count_;
    return std::nullopt;
  }
  std::shared_ptr<void> place(nullptr, [this](void*) { --count_; });
  const int file = create_file(directory_.empty() ? std::filesystem::path(".") : directory_);
  return UploadFile(file, std::move(place));
}

bool Upload::append(std::string_view bytes) {
  if (!file_ && small_.size() + bytes.size() <= small_bytes_) {
    small_.append(bytes);
    return true;
  }
  if (!file_) {
    auto file = room_.enter();
    if (!file) return false;
    file_.emplace(std::move(*file));
    file_->append(std::exchange(small_, {}));
  }
  file_->append(bytes);
  return true;
}

Body Upload::finish() { return file_ ? file_->finish() : Body(std::move(small_)); }

} // namespace mc2::server
