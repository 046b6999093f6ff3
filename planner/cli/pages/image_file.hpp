#pragma once

#include <filesystem>
#include <string>

#include "context.hpp"

namespace mc2::cli {

/// The file of a drawing, in the format that its extension names. The program rsvg-convert (Debian package
/// librsvg2-bin) makes PNG, at twice the drawing's size.
class ImageFile {
 public:
  /// Checks before long work that the file can be written.
  /// @param option  the option that names the file, for messages
  /// Errors: InvalidSpec unless it ends in .svg or .png and its directory exists; Unsupported for .png without
  /// rsvg-convert.
  [[nodiscard]] static Result<ImageFile> open(const std::string& file, const char* option);

  /// Writes a temporary file in the same folder and renames it. Throws SystemError.
  /// @param svg  a complete SVG document
  void write(const std::string& svg) const;

 private:
  ImageFile(std::filesystem::path path, bool is_png) : path_(std::move(path)), is_png_(is_png) {}

  std::filesystem::path path_; ///< absolute, so that rsvg-convert does not take it for an option
  bool is_png_;
};

} // namespace mc2::cli
