#pragma once

#include <cstddef>
#include <cstdint>

namespace mc2::executor::node {

/// Anonymous memory that another process of this machine can open by its address. Failures set errno.
class SharedFile {
 public:
  /// Makes a file of zeros.
  explicit SharedFile(std::size_t byte_count) noexcept;
  /// Opens a file of another process, which must have it open during the call.
  [[nodiscard]] static SharedFile open(std::int64_t address) noexcept;
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&&) = delete;
  ~SharedFile();

  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  /// The argument of open(): the process id and the file's number in the process. -1 if the file could not be made.
  [[nodiscard]] std::int64_t address() const noexcept;
  /// Maps the first bytes for reading and writing; null if that fails. The mapping stays when the file is closed.
  [[nodiscard]] std::byte* map(std::size_t byte_count) const noexcept;
  /// Write and read the file's first 8 bytes as a number; false if that fails.
  bool write(std::int64_t number) const noexcept;
  [[nodiscard]] bool read(std::int64_t& number) const noexcept;

 private:
  SharedFile() = default;

  int number_ = -1;
};

} // namespace mc2::executor::node
