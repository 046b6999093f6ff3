#include "backends/mpi/remote_memory.hpp"
#include "texts.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace mc2::executor::mpi {
namespace {

std::size_t mapped_bytes(std::size_t byte_count) { return std::max<std::size_t>(byte_count, 1); }

} // namespace

std::int64_t AddressBook::add(int rank, std::size_t byte_count) {
  void* base = mmap(nullptr, mapped_bytes(byte_count), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw SystemError(
        "mmap", errno,
        "addresses for " + std::to_string(byte_count) + " bytes of " + rank_text(rank) + ": " + std::strerror(errno));
  }
  pieces_[next_id_] = {rank, {static_cast<std::byte*>(base), byte_count}};
  return next_id_++;
}

void AddressBook::remove(std::int64_t id) noexcept {
  const auto found = pieces_.find(id);
  if (found == pieces_.end()) return;
  munmap(found->second.bytes.data(), mapped_bytes(found->second.bytes.size()));
  pieces_.erase(found);
}

std::span<std::byte> AddressBook::bytes(std::int64_t id) const { return pieces_.at(id).bytes; }

Result<Place> AddressBook::find(int rank, std::span<const std::byte> bytes, const char* name) const {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  for (const auto& [id, piece] : pieces_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(piece.bytes.data());
    if (piece.rank != rank || first < begin || first + bytes.size() > begin + piece.bytes.size()) continue;
    return Place{id, static_cast<std::int64_t>(first - begin), static_cast<std::int64_t>(bytes.size())};
  }
  return Error{ErrorCode::InvalidSpec, "buffers",
               rank_text(rank) + " " + name + " is not in that rank's memory; allocate() gives some"};
}

} // namespace mc2::executor::mpi
