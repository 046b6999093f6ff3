#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mc2::executor::mpi {

/// What rank 0 has a directed process do. Both are the same program, so that nothing here is kept or versioned.
enum class Command : std::int64_t { Open = 1, Close, Allocate, Free, Upload, Download, Prepare, Run, Drop, Quit };

/// Numbers and texts in the order in which they were put.
class Message {
 public:
  Message() = default;
  explicit Message(Command command) { put(static_cast<std::int64_t>(command)); }

  Message& put(std::int64_t value);
  Message& put(const std::string& text);
  /// The next one. What is not there is a programming error.
  [[nodiscard]] std::int64_t number();
  [[nodiscard]] std::string text();

  /// Errors: as send_bytes.
  void send(int rank, MPI_Comm comm, std::chrono::milliseconds deadline) const;
  /// Sleeps between looks until a message of that rank has come: a process that waits for work leaves the core to
  /// those that have some.
  [[nodiscard]] static Message receive(int rank, MPI_Comm comm);

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

inline constexpr std::chrono::milliseconds kNoDeadline = std::chrono::milliseconds::max();

/// Any number of bytes, in pieces of 1 MiB. A piece that outlasts the deadline ends the job, naming the other rank.
/// Throws SystemError.
void send_bytes(std::span<const std::byte> bytes, int rank, MPI_Comm comm, std::chrono::milliseconds deadline);
void receive_bytes(std::span<std::byte> bytes, int rank, MPI_Comm comm, std::chrono::milliseconds deadline);

} // namespace mc2::executor::mpi
