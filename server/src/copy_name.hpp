#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <system_error>

namespace mc2::server {

/// The names of copies of the store begin with this while they are sent.
inline constexpr const char* kCopyPrefix = ".mc2-backup-";

/// A random file name in a folder. The destructor removes the file of this name and its draft, NAME.part.
class CopyName {
 public:
  explicit CopyName(const std::filesystem::path& folder) {
    std::random_device random;
    path_ = folder / (kCopyPrefix + std::to_string(random()) + std::to_string(random()));
  }
  ~CopyName() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
    std::filesystem::remove(path_.string() + ".part", ignored);
  }
  CopyName(const CopyName&) = delete;
  CopyName& operator=(const CopyName&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Removes copies that killed services have left in the store's folder: those that are older than an hour.
void remove_old_backups(const std::filesystem::path& folder);

} // namespace mc2::server
