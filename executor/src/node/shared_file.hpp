#pragma once

#include <cstddef>
#include <cstdint>

namespace mc2::executor::node {

/// Anonymous memory that another process of this machine can open by its address. Errors are left in errno.
class SharedFile {
 public:
  /// A new one, zero.
  explicit SharedFile(std::size_t byte_count) noexcept;
  /// That of another process, which has it open meanwhile.
  [[nodiscard]] static SharedFile open(std::int64_t address) noexcept;
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&&) = delete;
  ~SharedFile();

  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  /// The process and its number for the file: what open() takes. -1 for a file that could not be made.
  [[nodiscard]] std::int64_t address() const noexcept;
  /// The first bytes for reading and writing; null when they cannot be mapped. They stay when the file is closed.
  [[nodiscard]] std::byte* map(std::size_t byte_count) const noexcept;
  /// Its first number; false when that fails.
  bool write(std::int64_t number) const noexcept;
  [[nodiscard]] bool read(std::int64_t& number) const noexcept;

 private:
  SharedFile() = default;

  int number_ = -1;
};

} // namespace mc2::executor::node
