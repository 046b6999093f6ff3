#include "backends/mpi/message.hpp"

#include <algorithm>
#include <cstring>

#include "backends/mpi/check.hpp"
#include "backends/mpi/waiting.hpp"
#include "backends/mpi/world.hpp"
#include "mc2/planner/error.hpp"
#include "texts.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr int kMessageTag = 1, kBytesTag = 2;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;
constexpr std::chrono::microseconds kMessageYieldFor{200}, kMessageSleep{100};

void wait(MPI_Request request, int rank, const char* what, std::chrono::milliseconds deadline) {
  const auto start = Clock::now();
  const Patience patience(kMessageSleep, kMessageYieldFor);
  wait_all({&request, 1}, [&] {
    if (deadline != kNoDeadline && Clock::now() - start >= deadline)
      abort_job(World::get().name_of(rank) + " does not answer: " + what + " took longer than the deadline");
    patience.pause();
  });
}

} // namespace

Message& Message::put(std::int64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

Message& Message::put(const std::string& text) {
  put(static_cast<std::int64_t>(text.size()));
  bytes_ += text;
  return *this;
}

std::int64_t Message::number() {
  std::int64_t value = 0;
  MC2_CHECK(at_ + sizeof value <= bytes_.size(), "a message between processes ends early");
  std::memcpy(&value, bytes_.data() + at_, sizeof value);
  at_ += sizeof value;
  return value;
}

std::string Message::text() {
  const auto length = static_cast<std::size_t>(number());
  MC2_CHECK(length <= bytes_.size() - at_, "a message between processes ends early");
  at_ += length;
  return bytes_.substr(at_ - length, length);
}

void Message::send(int rank, MPI_Comm comm, std::chrono::milliseconds deadline) const {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(bytes_.data(), static_cast<int>(bytes_.size()), MPI_BYTE, rank, kMessageTag, comm, &request),
        "MPI_Isend");
  wait(request, rank, "an order to it", deadline);
}

Message Message::receive(int rank, MPI_Comm comm) {
  const Patience patience(kMessageSleep, kMessageYieldFor);
  MPI_Status status;
  for (int has_come = 0;;) {
    check(MPI_Iprobe(rank, kMessageTag, comm, &has_come, &status), "MPI_Iprobe");
    if (has_come != 0) break;
    patience.pause();
  }
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  Message message;
  message.bytes_.resize(static_cast<std::size_t>(count));
  check(MPI_Recv(message.bytes_.data(), count, MPI_BYTE, rank, kMessageTag, comm, MPI_STATUS_IGNORE), "MPI_Recv");
  return message;
}

void send_bytes(std::span<const std::byte> bytes, int rank, MPI_Comm comm, std::chrono::milliseconds deadline) {
  for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    const auto piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, rank, kBytesTag, comm, &request),
          "MPI_Isend");
    wait(request, rank, "data for it", deadline);
  }
}

void receive_bytes(std::span<std::byte> bytes, int rank, MPI_Comm comm, std::chrono::milliseconds deadline) {
  for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    const auto piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, rank, kBytesTag, comm, &request),
          "MPI_Irecv");
    wait(request, rank, "data from it", deadline);
  }
}

} // namespace mc2::executor::mpi
