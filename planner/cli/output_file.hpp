#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace mc2::cli {

/// A file that a command writes. An existing file stays until keep(): a temporary file in the same folder is written,
/// which then replaces it and has its permissions. A symbolic link stays; the file that it names is replaced. Devices
/// and pipes are written directly.
class OutputFile {
 public:
  /// For use before the work whose result is written. Throws SystemError if the path names a directory, a store (which
  /// would be lost), or a place that cannot be written.
  static void check(const std::filesystem::path& path);
  /// Opens the file. Throws as check().
  explicit OutputFile(const std::filesystem::path& path);
  /// Without keep(), removes the temporary file, so that the path has what it had before.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throws SystemError.
  void write(std::string_view text);
  /// Completes the file and puts it in place. Throws SystemError; the path is unchanged then.
  void keep();

 private:
  void flush();

  std::filesystem::path path_;      ///< as it was named
  std::filesystem::path target_;    ///< with links resolved
  std::filesystem::path temporary_; ///< empty: the target is written directly
  int file_ = -1;
  std::string unwritten_; ///< buffers short texts, to save system calls
};

} // namespace mc2::cli
