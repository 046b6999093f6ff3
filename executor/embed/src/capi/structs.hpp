#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "capi/call.hpp"

namespace mc2::capi {

/// The fields that every struct of mc2.h begins with.
struct StructHeader {
  std::size_t size;
  std::uint32_t version;
};

/// No version of a struct is larger: a caller's struct with a larger `size` has not been initialised.
inline constexpr std::size_t kMaxStructBytes = 1024;

/// The header of a caller's struct. Leaves the call with MC2_ERROR_STRUCT for an impossible size or version, with
/// MC2_ERROR_NEWER_VERSION for a newer version, with MC2_ERROR_INVALID_SPEC for NULL.
StructHeader check_header(const void* address, const char* name);

/// Leaves the call with MC2_ERROR_STRUCT unless the bytes from `known` to `size` are 0.
void check_tail(const void* address, std::size_t known, std::size_t size, const char* name);

/// A copy of the caller's struct, as large as this library knows it. Fields that an older header does not have are 0,
/// their default. Leaves the call with MC2_ERROR_STRUCT unless a field `reserved` is 0, since a later header may use
/// it.
template <typename T>
T read_struct(const T* address, const char* name) {
  const StructHeader header = check_header(address, name);
  if (header.size > sizeof(T)) check_tail(address, sizeof(T), header.size, name);
  T known{};
  std::memcpy(&known, address, std::min(header.size, sizeof(T)));
  if constexpr (requires { known.reserved; }) {
    if (known.reserved != 0)
      fail(MC2_ERROR_STRUCT, std::string(name) + ".reserved", "is not 0; initialise the struct with MC2_INIT");
  }
  return known;
}

/// Copies of the caller's array of structs. Leaves the call with MC2_ERROR_STRUCT unless all have the first one's size.
template <typename T>
std::vector<T> read_structs(const T* first, std::size_t count, const char* name) {
  std::vector<T> known;
  if (count == 0) return known;
  const std::size_t stride = check_header(first, name).size;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* each = reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(first) + i * stride);
    if (check_header(each, name).size != stride)
      fail(MC2_ERROR_STRUCT, std::string(name) + ".size", "differs between the elements of the array");
    known.push_back(read_struct(each, name));
  }
  return known;
}

/// As read_struct(); NULL gives a struct of defaults.
template <typename T>
T read_optional_struct(const T* address, const char* name) {
  return address == nullptr ? T{} : read_struct(address, name);
}

/// Writes a value to the caller's struct, which may be shorter or longer. Its size and version stay; bytes that this
/// library does not know become 0.
template <typename T>
void write_struct(T* address, const T& value, const char* name) {
  const StructHeader header = check_header(address, name);
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  auto* to = reinterpret_cast<std::byte*>(address);
  constexpr std::size_t kBody = offsetof(T, version) + sizeof(header.version);
  const std::size_t known = std::min(header.size, sizeof(T));
  std::memcpy(to + kBody, from + kBody, known - kBody);
  std::memset(to + known, 0, header.size - known);
}

} // namespace mc2::capi
