#pragma once

#include <cstddef>
#include <cstdint>

/// NCCL's tuner interface, written from what NCCL publishes of it (NVIDIA/nccl, src/include/plugin/tuner/tuner_v4.h to
/// tuner_v7.h at 2449986): functions by address, looked up as ncclTunerPlugin_v4 to _v7. NCCL takes the newest that it
/// knows.
namespace mc2::nccl_tuner {

using Status = int; ///< ncclResult_t
inline constexpr Status kSuccess = 0;
inline constexpr Status kInternalError = 3;

enum LogLevel : int { kWarn = 2, kInfo = 3 };
inline constexpr unsigned long kAboutTuning = 64; ///< NCCL_TUNING
using Log = void (*)(LogLevel level, unsigned long about, const char* file, int line, const char* format, ...);

/// @param function   0 broadcast, 1 reduce, 2 allgather, 3 reducescatter, 4 allreduce, then those that are not tuned
/// @param costs      [algorithms][protocols] floats one behind the other; below 0: not possible here. NCCL takes the
///                   least, so 0 chooses
/// @param channels   left as it is: NCCL's number
using GetCollInfo = Status (*)(void* context, int function, std::size_t bytes, int grouped_ops, float** costs,
                               int algorithms, int protocols, int has_registered_buffers, int* channels);
using Finalize = Status (*)(void* context);
using GetChunkSize = Status (*)(void* context, int function, std::size_t bytes, int algorithm, int protocol,
                                int channels, std::size_t* chunk_bytes);
/// NVLink domains and constants are NCCL's own, of which nothing is read.
using Init = Status (*)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes, Log log,
                        void* domains, void* constants);

struct TunerV4 {
  const char* name;
  Status (*init)(std::size_t ranks, std::size_t nodes, Log log, void** context);
  GetCollInfo get_coll_info;
  Finalize destroy;
};

struct TunerV5 {
  const char* name;
  Init init;
  GetCollInfo get_coll_info;
  Finalize finalize;
};

/// v7 differs from v6 by the size of the constants alone.
struct TunerV6 {
  const char* name;
  Init init;
  GetCollInfo get_coll_info;
  Finalize finalize;
  GetChunkSize get_chunk_size; ///< null: NCCL's chunks
};

} // namespace mc2::nccl_tuner
