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

/// A body that is too large to be held in memory while it comes: a file without a name, gone with its last user.
class UploadFile {
 public:
  UploadFile(UploadFile&& other) noexcept;
  UploadFile& operator=(UploadFile&&) = delete;
  ~UploadFile();

  /// Throws SystemError, e.g. for a full disk.
  void append(std::string_view bytes);
  /// What was appended, mapped: the system may drop its pages from memory at any time and read them again.
  /// Throws SystemError.
  [[nodiscard]] Body finish();

 private:
  friend class UploadRoom;
  UploadFile(int file, std::shared_ptr<void> place) : file_(file), place_(std::move(place)) {}

  int file_;
  std::shared_ptr<void> place_; ///< of the room; shared with the body that comes of it
};

/// The bytes of a file, which may lose its name meanwhile. @param kept  lives as long. Throws SystemError.
[[nodiscard]] Body map_file(const std::filesystem::path& path, std::shared_ptr<void> kept);

/// How many large bodies may be there at a time, and where they are.
/// Threads: safe to share.
class UploadRoom {
 public:
  /// @param directory  on a disk: the service keeps its store there
  UploadRoom(std::filesystem::path directory, int most) : directory_(std::move(directory)), most_(most) {}

  /// Nothing when the room is full. A place is taken until the file and the body that comes of it are gone; the room
  /// must outlive both. Throws SystemError.
  [[nodiscard]] std::optional<UploadFile> enter();
  [[nodiscard]] bool is_full() const noexcept { return count_ >= most_; }

 private:
  std::filesystem::path directory_;
  int most_;
  std::atomic<int> count_{0};
};

/// A body that may become large: in memory up to `small_bytes`, then in a file of the room. A client that announces
/// much and sends little takes nobody's place.
class Upload {
 public:
  Upload(UploadRoom& room, std::size_t small_bytes) : room_(room), small_bytes_(small_bytes) {}

  /// False when it is not small any more and the room is full. Throws SystemError.
  [[nodiscard]] bool append(std::string_view bytes);
  /// What was appended; once. Throws SystemError.
  [[nodiscard]] Body finish();

 private:
  UploadRoom& room_;
  std::size_t small_bytes_;
  std::string small_;
  std::optional<UploadFile> file_;
};

} // namespace mc2::server
