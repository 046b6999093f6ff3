#pragma once

#include <filesystem>
#include <string>

#include "context.hpp"

namespace mc2::cli {

/// A drawing's file, in the format that its extension names. PNG is made by the program rsvg-convert (Debian package
/// librsvg2-bin) at twice the drawing's size.
class ImageFile {
 public:
  /// Asks before long work whether the file can be written.
  /// @param option  the option that names the file, for messages
  /// Errors: InvalidSpec unless it ends in .svg or .png and its directory exists; Unsupported for .png without
  /// rsvg-convert.
  [[nodiscard]] static Result<ImageFile> open(const std::string& file, const char* option);

  /// Writes a temporary file beside it and renames. @param svg  a complete SVG document. Throws SystemError.
  void write(const std::string& svg) const;

 private:
  ImageFile(std::filesystem::path path, bool is_png) : path_(std::move(path)), is_png_(is_png) {}

  std::filesystem::path path_; ///< absolute: no option to rsvg-convert
  bool is_png_;
};

} // namespace mc2::cli
