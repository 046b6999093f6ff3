#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <system_error>

namespace mc2::server {

/// What copies of stores are called while they are on their way.
inline constexpr const char* kCopyPrefix = ".mc2-backup-";

/// A name in a folder that nobody else has, and no file of it, or of the draft beside it, once it goes.
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

/// Removes the copies that services which were killed have left in the store's folder.
void remove_old_backups(const std::filesystem::path& folder);

} // namespace mc2::server
