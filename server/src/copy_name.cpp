#include "copy_name.hpp"

#include <chrono>
#include <system_error>

namespace mc2::server {

void remove_old_backups(const std::filesystem::path& folder) {
  constexpr std::chrono::hours kOld{1}; // another service may still need a younger copy
  std::error_code failed;
  const auto now = std::filesystem::file_time_type::clock::now();
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    std::error_code ignored;
    const bool is_ours = entry.path().filename().string().starts_with(kCopyPrefix);
    if (is_ours && now - entry.last_write_time(ignored) > kOld && !ignored)
      std::filesystem::remove(entry.path(), ignored);
  }
}

} // namespace mc2::server
