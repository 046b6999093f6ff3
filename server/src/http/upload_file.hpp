#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/server/message.hpp"

namespace mc2::server {

/// Takes a body that is too large for memory into a file without a name, which the system removes with its last user.
class UploadFile {
 public:
  UploadFile(UploadFile&& other) noexcept;
  UploadFile& operator=(UploadFile&&) = delete;
  ~UploadFile();

  /// Throws SystemError, e.g. for a full disk.
  void append(std::string_view bytes);
  /// The appended bytes, as a mapped file: the system may drop the pages from memory and read them again. Throws
  /// SystemError.
  [[nodiscard]] Body finish();

 private:
  friend class UploadRoom;
  UploadFile(int file, std::shared_ptr<void> place) : file_(file), place_(std::move(place)) {}

  int file_;
  std::shared_ptr<void> place_; ///< in the room; shared with the body that finish() returns
};

/// The bytes of a file, whose name may be removed afterwards. Throws SystemError.
/// @param kept  released with the last copy of the body
[[nodiscard]] Body map_file(const std::filesystem::path& path, std::shared_ptr<void> kept);

/// Bounds the number of large bodies at a time, and says where their files are. Threads: safe to share.
class UploadRoom {
 public:
  /// @param directory  one on a disk: the service passes the store's
  UploadRoom(std::filesystem::path directory, int most) : directory_(std::move(directory)), most_(most) {}

  /// A new file; nothing when the room is full. The file and the body that comes of it take a place as long as they
  /// live. The room must outlive both. Throws SystemError.
  [[nodiscard]] std::optional<UploadFile> enter();
  [[nodiscard]] bool is_full() const noexcept { return count_ >= most_; }

 private:
  std::filesystem::path directory_;
  int most_;
  std::atomic<int> count_{0};
};

/// Takes a body of unknown size: in memory up to `small_bytes`, then in a file of the room. So a client that announces
/// a large body takes no place before it sends one.
class Upload {
 public:
  Upload(UploadRoom& room, std::size_t small_bytes) : room_(room), small_bytes_(small_bytes) {}

  /// False when the body has become large and the room is full. Throws SystemError.
  [[nodiscard]] bool append(std::string_view bytes);
  /// The appended bytes; call it once. Throws SystemError.
  [[nodiscard]] Body finish();

 private:
  UploadRoom& room_;
  std::size_t small_bytes_;
  std::string small_;
  std::optional<UploadFile> file_;
};

} // namespace mc2::server
