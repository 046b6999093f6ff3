#pragma once

#include <filesystem>
#include <span>

#include "context.hpp"
#include "mc2/executor/buffer.hpp"

namespace mc2::cli {

/// A directory that only this user can open. The destructor removes it.
class PrivateDirectory {
 public:
  /// Makes one in /dev/shm where that has room for `byte_count`, else in the directory for temporary files.
  /// Errors: Unsupported when neither has room. Throws SystemError when the directory cannot be made.
  [[nodiscard]] static Result<PrivateDirectory> with_room_for(std::uintmax_t byte_count);
  ~PrivateDirectory();
  PrivateDirectory(PrivateDirectory&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  PrivateDirectory& operator=(PrivateDirectory&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  explicit PrivateDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

/// Total bytes of the A, B and C of all ranks.
[[nodiscard]] std::uintmax_t operand_bytes(std::span<const executor::RankBuffers> buffers) noexcept;

/// Writes the files a.R, b.R and c.R of every rank R: the matrices as they are in memory. Throws SystemError.
void write_operands(std::span<const executor::RankBuffers> buffers, const std::filesystem::path& directory);

} // namespace mc2::cli
