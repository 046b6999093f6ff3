#include "capi/structs.hpp"

namespace mc2::capi {

StructHeader check_header(const void* address, const char* name) {
  if (address == nullptr) fail(MC2_ERROR_INVALID_SPEC, name, "is NULL");
  constexpr std::size_t kHeaderBytes = offsetof(StructHeader, version) + sizeof(std::uint32_t);
  StructHeader header{};
  std::memcpy(&header, address, kHeaderBytes);
  if (header.size < kHeaderBytes || header.size > kMaxStructBytes) {
    fail(MC2_ERROR_STRUCT, std::string(name) + ".size",
         "is " + std::to_string(header.size) + ", which no version of the struct has; initialise it with MC2_INIT");
  }
  if (header.version == 0)
    fail(MC2_ERROR_STRUCT, std::string(name) + ".version", "is 0; initialise the struct with MC2_INIT");
  if (header.version > MC2_STRUCT_VERSION) {
    fail(MC2_ERROR_NEWER_VERSION, std::string(name) + ".version",
         "is " + std::to_string(header.version) + "; this library, mc2 " + mc2_version() + ", knows up to " +
             std::to_string(MC2_STRUCT_VERSION));
  }
  return header;
}

void check_tail(const void* address, std::size_t known, std::size_t size, const char* name) {
  const auto* bytes = static_cast<const unsigned char*>(address);
  if (std::all_of(bytes + known, bytes + size, [](unsigned char byte) { return byte == 0; })) return;
  fail(MC2_ERROR_STRUCT, name,
       "is of a newer mc2.h and uses fields that this library, mc2 " + std::string(mc2_version()) + ", does not have");
}

} // namespace mc2::capi
