#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace mc2::cli {

/// A file that a command writes. What is at the path stays until keep(): a temporary file beside it is written and
/// takes its place, and its permissions. A symbolic link stays, and what it names is replaced; devices and pipes are
/// written as they are.
class OutputFile {
 public:
  /// Before the work whose result is written. Throws SystemError where the path names a directory, a store, which would
  /// be lost, or nothing that can be written.
  static void check(const std::filesystem::path& path);
  /// Throws as check().
  explicit OutputFile(const std::filesystem::path& path);
  /// Leaves what was at the path, unless it was kept.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throws SystemError.
  void write(std::string_view text);
  /// Throws SystemError; what was at the path is unchanged then.
  void keep();

 private:
  void flush();

  std::filesystem::path path_;      ///< as it was named
  std::filesystem::path target_;    ///< without links
  std::filesystem::path temporary_; ///< empty: the target itself is written
  int file_ = -1;
  std::string unwritten_; ///< so that many short texts are few calls
};

} // namespace mc2::cli
