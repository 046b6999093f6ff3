#include "node/shared_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace mc2::executor::node {
namespace {

constexpr int kNumberBits = 32; // an address has the process id above these bits and the file's number in them

} // namespace

SharedFile::SharedFile(std::size_t byte_count) noexcept : number_(memfd_create("mc2", MFD_CLOEXEC)) {
  if (number_ < 0 || ftruncate(number_, static_cast<off_t>(byte_count)) == 0) return;
  close(std::exchange(number_, -1));
}

SharedFile::SharedFile(SharedFile&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

SharedFile::~SharedFile() {
  if (number_ >= 0) close(number_);
}

SharedFile SharedFile::open(std::int64_t address) noexcept {
  const std::string path = "/proc/" + std::to_string(address >> kNumberBits) + "/fd/" +
                           std::to_string(address & ((std::int64_t{1} << kNumberBits) - 1));
  SharedFile file;
  file.number_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  return file;
}

std::int64_t SharedFile::address() const noexcept {
  return is_open() ? (static_cast<std::int64_t>(getpid()) << kNumberBits) + number_ : -1;
}

std::byte* SharedFile::map(std::size_t byte_count) const noexcept {
  void* mapped = mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_SHARED, number_, 0);
  if (mapped == MAP_FAILED) return nullptr;
  madvise(mapped, byte_count, MADV_HUGEPAGE); // a hint: small pages only cost speed
  return static_cast<std::byte*>(mapped);
}

bool SharedFile::write(std::int64_t number) const noexcept {
  return pwrite(number_, &number, sizeof number, 0) == static_cast<ssize_t>(sizeof number);
}

bool SharedFile::read(std::int64_t& number) const noexcept {
  return pread(number_, &number, sizeof number, 0) == static_cast<ssize_t>(sizeof number);
}

} // namespace mc2::executor::node
