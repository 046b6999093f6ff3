// The part of NCCL that mc2 and its tests call. Ranks may be in several processes, which read one another's memory with
// process_vm_readv().
#include <nccl.h>

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/runtime/limits.hpp"
#include "simulated_gpu/device.hpp"
#include "simulated_gpu/numbers.hpp"
#include "simulated_gpu/stream.hpp"

using namespace mc2::simulated;

namespace {

constexpr int kMostRanks = mc2::executor::cuda::kMaxCudaRanks;

/// The messages of one rank in an operation, one for every rank; null for ranks that get none.
struct Offer {
  const void* messages[kMostRanks];
  std::size_t bytes[kMostRanks];
};

/// The state that a communicator's ranks share, in memory that all their processes map. It starts as all zeros.
struct Meeting {
  std::atomic<int> joined;
  std::atomic<int> is_aborted;
  std::atomic<int> processes[kMostRanks];
  /// The messages from one rank to another.
  struct Pair {
    std::atomic<std::uint64_t> posted, fetched; ///< how many messages so far
    const void* message;
    std::size_t bytes;
  } pairs[kMostRanks][kMostRanks];
};

struct Identity {
  int process;
  int file;
};
static_assert(sizeof(Identity) <= sizeof(ncclUniqueId));

/// Maps a Meeting once per process, so that a thread sanitizer sees all threads access the same memory. It is never
/// unmapped.
Meeting* open_meeting(const ncclUniqueId& id) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, Meeting*> mapped;
  Identity identity{};
  std::memcpy(&identity, &id, sizeof identity);
  const std::lock_guard lock(mutex);
  Meeting*& found = mapped[{identity.process, identity.file}];
  if (found == nullptr) found = static_cast<Meeting*>(map_shared(identity.process, identity.file, sizeof(Meeting)));
  return found;
}

/// One rank's communicator. Operations in captured graphs share its ownership: as with NCCL, it lives as long as they
/// do.
class Communicator {
 public:
  Communicator(Meeting& meeting, int rank, int world_size, bool takes_no_sm)
      : rank(rank), world_size(world_size), takes_no_sm(takes_no_sm), device(current_device()), meeting_(meeting) {}

  /// Waits for all ranks. @return true when all have come, false after an abort
  bool join() {
    meeting_.processes[rank] = getpid();
    ++meeting_.joined;
    spin_until([&] { return meeting_.joined >= world_size || meeting_.is_aborted != 0; });
    return meeting_.is_aborted == 0;
  }
  void abort() { meeting_.is_aborted = 1; }

  /// Offers a message to every rank and fetches one from every rank.
  std::vector<std::vector<std::byte>> exchange(const Offer& offer) {
    return exchange(offer, [](int) { return true; });
  }

  /// Offers the messages that are not null and fetches one from each rank for which the predicate holds. @return the
  /// messages by rank; empty after an abort
  template <typename Predicate>
  std::vector<std::vector<std::byte>> exchange(const Offer& offer, const Predicate& is_received_from) {
    for (int peer = 0; peer < world_size; ++peer) {
      if (offer.messages[peer] == nullptr) continue;
      Meeting::Pair& pair = meeting_.pairs[rank][peer];
      pair.message = offer.messages[peer];
      pair.bytes = offer.bytes[peer];
      ++pair.posted;
    }
    std::vector<std::vector<std::byte>> messages(static_cast<std::size_t>(world_size));
    for (int peer = 0; peer < world_size; ++peer) {
      if (!is_received_from(peer)) continue;
      Meeting::Pair& pair = meeting_.pairs[peer][rank];
      if (!until([&] { return pair.posted > pair.fetched; })) return {};
      auto& message = messages[static_cast<std::size_t>(peer)];
      message.resize(pair.bytes);
      fetch(meeting_.processes[peer], pair.message, message);
      ++pair.fetched;
    }
    for (int peer = 0; peer < world_size; ++peer) {
      const Meeting::Pair& pair = meeting_.pairs[rank][peer];
      if (offer.messages[peer] != nullptr && !until([&] { return pair.fetched == pair.posted; })) return {};
    }
    return messages;
  }

  const int rank, world_size;
  const bool takes_no_sm;
  const int device;

 private:
  template <typename Predicate>
  bool until(const Predicate& is_true) {
    spin_until([&] { return is_true() || meeting_.is_aborted != 0; });
    return is_true();
  }
  static void fetch(int process, const void* from, std::vector<std::byte>& to) {
    if (to.empty()) return;
    if (process == getpid()) {
      std::memcpy(to.data(), from, to.size());
      return;
    }
    const iovec here{to.data(), to.size()}, there{const_cast<void*>(from), to.size()};
    (void)process_vm_readv(process, &here, 1, &there, 1, 0);
  }

  Meeting& meeting_;
};

std::shared_ptr<Communicator>& shared(ncclComm_t handle) {
  return *reinterpret_cast<std::shared_ptr<Communicator>*>(handle);
}

std::size_t bytes_of(ncclDataType_t type) { return type == ncclFloat32 ? 4 : 2; }

/// Gives the operation to the stream. With copy engines it becomes a copy node in a graph, not a kernel node.
ncclResult_t enqueue(const std::shared_ptr<Communicator>& communicator, cudaStream_t stream, Work work) {
  const auto type = communicator->takes_no_sm ? cudaGraphNodeTypeMemcpy : cudaGraphNodeTypeKernel;
  return submit(stream, type, std::move(work)) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

Offer to_all(const Communicator& communicator, const void* first, std::size_t bytes, std::size_t step) {
  Offer offer{};
  for (int rank = 0; rank < communicator.world_size; ++rank) {
    offer.messages[rank] = static_cast<const std::byte*>(first) + static_cast<std::size_t>(rank) * step;
    offer.bytes[rank] = bytes;
  }
  return offer;
}

template <typename T>
void put_sum(const std::vector<std::vector<std::byte>>& messages, std::size_t count, void* to) {
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const auto& message : messages) sum += to_f32(reinterpret_cast<const T*>(message.data())[i]);
    static_cast<T*>(to)[i] = from_f32<T>(sum);
  }
}

ncclResult_t reduce(ncclComm_t handle, const void* send, void* receive, std::size_t count, std::size_t step_bytes,
                    ncclDataType_t type, cudaStream_t stream) {
  const auto communicator = shared(handle);
  return enqueue(communicator, stream, [=] {
    const auto messages = communicator->exchange(to_all(*communicator, send, count * bytes_of(type), step_bytes));
    if (messages.empty()) return;
    if (type == ncclFloat32) put_sum<float>(messages, count, receive);
    if (type == ncclFloat16) put_sum<mc2::executor::F16>(messages, count, receive);
    if (type == ncclBfloat16) put_sum<Bf16>(messages, count, receive);
  });
}

ncclResult_t gather(ncclComm_t handle, const void* send, void* receive, std::size_t bytes, std::size_t step_bytes,
                    cudaStream_t stream) {
  const auto communicator = shared(handle);
  return enqueue(communicator, stream, [=] {
    auto* to = static_cast<std::byte*>(receive);
    for (const auto& message : communicator->exchange(to_all(*communicator, send, bytes, step_bytes)))
      to = std::ranges::copy(message, to).out;
  });
}

/// The sends and receives between ncclGroupStart() and ncclGroupEnd(), by communicator and stream.
struct Group {
  int depth = 0;
  struct Part {
    ncclComm_t communicator;
    cudaStream_t stream;
    std::array<std::vector<std::span<const std::byte>>, kMostRanks> sent{};
    std::array<std::vector<std::span<std::byte>>, kMostRanks> received{};
  };
  std::vector<Part> parts;

  Part& part(ncclComm_t communicator, cudaStream_t stream) {
    const auto found = std::ranges::find_if(
        parts, [&](const Part& part) { return part.communicator == communicator && part.stream == stream; });
    return found != parts.end() ? *found : parts.emplace_back(Part{.communicator = communicator, .stream = stream});
  }
};
thread_local Group group;

/// Runs one part of a group. All pieces that are sent to one rank travel as one message.
void carry(Communicator& communicator, const Group::Part& part) {
  std::array<std::vector<std::byte>, kMostRanks> packed;
  Offer offer{};
  for (int peer = 0; peer < communicator.world_size; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    for (const auto piece : part.sent[index]) packed[index].insert(packed[index].end(), piece.begin(), piece.end());
    if (packed[index].empty()) continue;
    offer.messages[peer] = packed[index].data();
    offer.bytes[peer] = packed[index].size();
  }
  const auto messages =
      communicator.exchange(offer, [&](int peer) { return !part.received[static_cast<std::size_t>(peer)].empty(); });
  for (std::size_t peer = 0; peer < messages.size(); ++peer) {
    auto from = messages[peer].begin();
    for (const auto piece : part.received[peer]) from = std::ranges::copy_n(from, std::ssize(piece), piece.data()).in;
  }
}

ncclResult_t close_handle(ncclComm_t handle) {
  auto* const owner = &shared(handle);
  while (owner->use_count() > 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(1)); // graphs and pending work share it
  delete owner;
  return ncclSuccess;
}

} // namespace

#define MC2_MAY_FAIL() \
  if (injected(__func__) != cudaSuccess) return ncclSystemError

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t) { return "an error of NCCL"; }
const char* ncclGetLastError(ncclComm_t) { return "simulated"; }

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  MC2_MAY_FAIL();
  return allocate(bytes, Source::VirtualMemory, memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  MC2_MAY_FAIL();
  const Identity identity{getpid(), memfd_create("simulated NCCL", MFD_CLOEXEC)};
  if (identity.file < 0 || ftruncate(identity.file, sizeof(Meeting)) != 0) return ncclSystemError;
  *id = {};
  std::memcpy(id, &identity, sizeof identity);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int world_size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  MC2_MAY_FAIL();
  Meeting* const meeting = open_meeting(id);
  if (meeting == nullptr || world_size > kMostRanks) return ncclSystemError;
  const bool takes_no_sm = config != nullptr && config->CTAPolicy == NCCL_CTA_POLICY_ZERO;
  auto made = std::make_shared<Communicator>(*meeting, rank, world_size, takes_no_sm);
  if (!made->join()) return ncclSystemError;
  *handle = reinterpret_cast<ncclComm_t>(new std::shared_ptr<Communicator>(std::move(made)));
  return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t* handles, int count, const int* devices) {
  ncclUniqueId id;
  if (const ncclResult_t code = ncclGetUniqueId(&id); code != ncclSuccess) return code;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < count; ++rank) {
    ranks.emplace_back([=] {
      (void)cudaSetDevice(devices == nullptr ? rank : devices[rank]);
      (void)ncclCommInitRankConfig(handles + rank, count, id, rank, nullptr);
    });
  }
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  shared(handle)->abort();
  return close_handle(handle);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t /*handle*/, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) { return close_handle(handle); }

ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  *count = shared(handle)->world_size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  *rank = shared(handle)->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t handle, int* device) {
  *device = shared(handle)->device;
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t, void* memory, std::size_t, ncclWindow_t* window, int) {
  MC2_MAY_FAIL();
  *window = static_cast<ncclWindow_t>(memory);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) { return ncclSuccess; }

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t handle, cudaStream_t stream) {
  MC2_MAY_FAIL();
  return reduce(handle, send, receive, count, 0, type, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t handle, cudaStream_t stream) {
  MC2_MAY_FAIL();
  return reduce(handle, send, receive, count, count * bytes_of(type), type, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t handle,
                           cudaStream_t stream) {
  MC2_MAY_FAIL();
  return gather(handle, send, receive, count * bytes_of(type), 0, stream);
}

ncclResult_t ncclAlltoAll(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t handle,
                          cudaStream_t stream) {
  MC2_MAY_FAIL();
  return gather(handle, send, receive, count * bytes_of(type), count * bytes_of(type), stream);
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  MC2_MAY_FAIL();
  const std::span bytes(static_cast<const std::byte*>(from), count * bytes_of(type));
  group.part(handle, stream).sent[static_cast<std::size_t>(peer)].push_back(bytes);
  return ncclSuccess;
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  MC2_MAY_FAIL();
  const std::span bytes(static_cast<std::byte*>(to), count * bytes_of(type));
  group.part(handle, stream).received[static_cast<std::size_t>(peer)].push_back(bytes);
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group.depth > 0) return ncclSuccess;
  for (const Group::Part& part : std::exchange(group.parts, {})) {
    const auto communicator = shared(part.communicator);
    const ncclResult_t code = enqueue(communicator, part.stream, [=] { carry(*communicator, part); });
    if (code != ncclSuccess) return code;
  }
  return ncclSuccess;
}

} // extern "C"
