#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "mc2/planner/error.hpp"

namespace mc2::executor::mpi {

/// The place of some bytes in a rank's memory: `offset` bytes into the piece that was allocated under `id`.
struct Place {
  std::int64_t id = 0;
  std::int64_t offset = 0;
  std::int64_t byte_count = 0;
};

/// Addresses in this process that stand for memory of other processes. The pages exist but may not be touched: so no
/// two pieces share an address, and a mistaken read ends the program instead of finding other data.
class AddressBook {
 public:
  /// Reserves addresses for a new piece of a rank's memory and returns its id. Throws SystemError.
  std::int64_t add(int rank, std::size_t byte_count);
  void remove(std::int64_t id) noexcept;
  [[nodiscard]] std::span<std::byte> bytes(std::int64_t id) const;
  /// Errors: InvalidSpec (buffers) if the bytes do not all lie in one piece of that rank. `name` names the bytes in the
  /// text.
  [[nodiscard]] Result<Place> find(int rank, std::span<const std::byte> bytes, const char* name) const;

 private:
  struct Piece {
    int rank = 0;
    std::span<std::byte> bytes;
  };
  std::map<std::int64_t, Piece> pieces_;
  std::int64_t next_id_ = 1;
};

} // namespace mc2::executor::mpi
