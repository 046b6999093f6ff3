#pragma once

#include <filesystem>
#include <string_view>
#include <type_traits>

#include "context.hpp"

namespace mc2::cli {

/// Reads a file and decodes it by `decode`, e.g. store::decode_plan. Errors: as read_file; those of `decode` as
/// document_error.
template <typename Decode>
[[nodiscard]] std::invoke_result_t<Decode, std::string_view> read_document(const std::filesystem::path& path,
                                                                           Decode decode) {
  MC2_ASSIGN(const auto content, read_file(path));
  auto document = decode(content);
  if (!document) return document_error(path, document.error());
  return document;
}

} // namespace mc2::cli
