#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mc2::executor::mpi {

/// An order of rank 0 to a process that it directs. Both run the same program, so the format has no version.
enum class Command : std::int64_t { Open = 1, Close, Allocate, Free, Upload, Download, Prepare, Run, Drop, Quit };

/// A message of numbers and texts, which are read in the order in which they were put.
class Message {
 public:
  Message() = default;
  explicit Message(Command command) { put(static_cast<std::int64_t>(command)); }

  Message& put(std::int64_t value);
  Message& put(const std::string& text);
  /// Reads the next number or text. Reading past the end is a programming error.
  [[nodiscard]] std::int64_t number();
  [[nodiscard]] std::string text();

  /// Sends the message to `rank`. Errors: as send_bytes.
  void send(int rank, MPI_Comm comm, std::chrono::milliseconds deadline) const;
  /// Waits for a message of `rank`. Sleeps between looks, so that a process that waits for work leaves its core to
  /// others.
  [[nodiscard]] static Message receive(int rank, MPI_Comm comm);

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

inline constexpr std::chrono::milliseconds kNoDeadline = std::chrono::milliseconds::max();

/// Sends or receives any number of bytes, in pieces of 1 MiB. If a piece takes longer than the deadline, the job ends
/// with an error that names the other rank. Throws SystemError.
void send_bytes(std::span<const std::byte> bytes, int rank, MPI_Comm comm, std::chrono::milliseconds deadline);
void receive_bytes(std::span<std::byte> bytes, int rank, MPI_Comm comm, std::chrono::milliseconds deadline);

} // namespace mc2::executor::mpi
