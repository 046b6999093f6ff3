#include "backends/cuda/cuda_checks.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/runtime/driver.hpp"
#include "backends/cuda/runtime/gemm.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "backends/cuda/tiles/chosen_kernels.hpp"
#include "backends/cuda/tiles/routing.hpp"
#include "backends/cuda/tiles/tensor_map.hpp"
#include "backends/cuda/transports/peer_memory.hpp"
#include "bags.hpp"
#include "checks.hpp"
#include "choices.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"
#include "operands.hpp"
#include "row_splits.hpp"
#include "texts.hpp"

namespace mc2::executor::cuda {
namespace {

constexpr std::uint32_t kBiasBytes = 16; ///< bytes of a bias that the matmul's kernels read at a time
constexpr std::int64_t kF8Multiple = 16; ///< n, k and addresses (in bytes) must be multiples of it for cuBLASLt

/// Checks that the bytes are in memory of the rank's device. Errors: InvalidSpec.
Result<void> check_place(LocalRank rank, const char* matrix, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  cudaPointerAttributes found{};
  MC2_CUDA(cudaPointerGetAttributes(&found, bytes.data()));
  if (found.type == cudaMemoryTypeDevice && found.device == rank.device) return {};
  const std::string name = rank_text(rank.number) + " " + matrix;
  const std::string place = found.type == cudaMemoryTypeDevice    ? "device " + std::to_string(found.device)
                            : found.type == cudaMemoryTypeManaged ? "managed memory"
                                                                  : "host memory";
  return Error{ErrorCode::InvalidSpec, "buffers",
               name + " is in " + place + "; it must be in memory of device " + std::to_string(rank.device)};
}

/// @param who says who needs the alignment, e.g. "f8e4m3 needs"
/// Errors: InvalidSpec naming rank and matrix.
Result<void> check_alignment(int rank, const char* matrix, const void* address, std::uint32_t needed_bytes,
                             const std::string& who) {
  if (alignment_of(address) >= needed_bytes) return {};
  return Error{ErrorCode::InvalidSpec, "buffers",
               rank_text(rank) + " " + matrix + " is aligned to " + std::to_string(alignment_of(address)) + " bytes; " +
                   who + " " + std::to_string(needed_bytes)};
}

/// Checks what cuBLASLt requires for f8e4m3. Errors: InvalidSpec naming rank and matrix, Unsupported naming the block.
Result<void> check_f8(const StageList& stages, std::span<const int> ranks, std::span<const RankBuffers> buffers) {
  if (stages.op.dtype != planner::DType::F8E4m3) return {};
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (const auto& [name, bytes] : {std::pair{"A", buffers[i].a},
                                      {"B", buffers[i].b},
                                      {"scales of A", buffers[i].a_scales},
                                      {"scales of B", buffers[i].b_scales}}) {
      MC2_TRY(check_alignment(ranks[i], name, bytes.data(), kF8Multiple, "f8e4m3 needs"));
    }
  }
  if (planner::cut_axis(stages.op) != planner::CutAxis::Columns) return {};
  for (std::size_t i = 0; i < stages.stages.size(); ++i) {
    if (stages.stages[i].row_count % kF8Multiple == 0) continue;
    return Error{ErrorCode::Unsupported, "blocks[" + std::to_string(i) + "]",
                 "is " + std::to_string(stages.stages[i].row_count) + " columns; cuBLASLt multiplies multiples of " +
                     std::to_string(kF8Multiple) + " columns of f8e4m3"};
  }
  return {};
}

/// Whether the driver has an allocation handle for the memory. It has none for memory of cudaMalloc.
bool has_allocation_handle(const std::byte* address) {
  using Retain = CUresult (*)(CUmemGenericAllocationHandle*, void*);
  using Release = CUresult (*)(CUmemGenericAllocationHandle);
  static const auto kRetain = reinterpret_cast<Retain>(driver_function("cuMemRetainAllocationHandle"));
  static const auto kRelease = reinterpret_cast<Release>(driver_function("cuMemRelease"));
  CUmemGenericAllocationHandle handle{};
  if (kRetain(&handle, const_cast<std::byte*>(address)) != CUDA_SUCCESS) return false;
  return kRelease(handle) == CUDA_SUCCESS;
}

/// The access that a device has to memory of a pool or to a mapping of the driver's; nothing for other memory.
std::optional<unsigned long long> access_of(const std::byte* address, int device) {
  static const auto kAttributes =
      reinterpret_cast<decltype(&cuPointerGetAttributes)>(driver_function("cuPointerGetAttributes"));
  static const auto kOfPool = reinterpret_cast<decltype(&cuMemPoolGetAccess)>(driver_function("cuMemPoolGetAccess"));
  static const auto kOfMapping = reinterpret_cast<decltype(&cuMemGetAccess)>(driver_function("cuMemGetAccess"));
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  CUmemoryPool pool = nullptr;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
  void* found[] = {&pool};
  const auto place = reinterpret_cast<CUdeviceptr>(address);
  if (kAttributes(1, &attribute, found, place) == CUDA_SUCCESS && pool != nullptr) {
    CUmemAccess_flags flags{};
    check(kOfPool(&flags, pool, &location), "cuMemPoolGetAccess");
    return flags;
  }
  if (!has_allocation_handle(address)) return std::nullopt;
  unsigned long long flags = 0;
  check(kOfMapping(&flags, &location, place), "cuMemGetAccess");
  return flags;
}

/// @param bytes  empty for a rank without rows
/// @param needed CUmemAccess_flags
Result<void> check_access(int rank, const char* matrix, std::span<const std::byte> bytes, unsigned long long needed,
                          std::span<const int> ranks) {
  for (const int peer : ranks) {
    const int device = device_for(peer);
    const bool is_own = device == device_for(rank);
    const auto access = is_own || bytes.empty() ? std::nullopt : access_of(bytes.data(), device);
    if (!access || (*access & needed) == needed) continue;
    return Error{
        ErrorCode::Unsupported, "buffers",
        rank_text(rank) + " " + matrix + " is memory that device " + std::to_string(device) +
            " may not reach; give it access (cudaMemPoolSetAccess, cuMemSetAccess), or allocate it with cudaMalloc"};
  }
  return {};
}

} // namespace

planner::Epilogue matmul_epilogue(const planner::OpSpec& op) noexcept {
  const planner::OpTraits& traits = planner::traits_of(op.kind);
  if (traits.communicates_first()) return op.epilogue;
  return {.has_bias = traits.moves_products() && op.epilogue.has_bias};
}

planner::Epilogue result_epilogue(const planner::OpSpec& op) noexcept {
  const planner::Epilogue done = matmul_epilogue(op);
  return {.has_bias = op.epilogue.has_bias && !done.has_bias,
          .has_residual = op.epilogue.has_residual && !done.has_residual,
          .norm = op.epilogue.norm};
}

planner::OpSpec exchanged_as(const planner::OpSpec& op) noexcept {
  planner::OpSpec exchanged = op;
  exchanged.dtype = planner::product_type(op);
  const bool sends_a = planner::traits_of(op.kind).first_lane == planner::Lane::Communication;
  if (sends_a && op.dtype == planner::DType::F8E4m3) exchanged.k /= 2;
  return exchanged;
}

Result<void> check_device_types(const planner::OpSpec& op, int device_count) {
  for (int device = 0; device < device_count && op.experts; ++device) {
    const int found = compute_capability(device);
    if (found == kHopper) continue;
    return Error{ErrorCode::Unsupported, "op",
                 "device " + std::to_string(device) + " has compute capability " + capability_text(found) + "; " +
                     std::string(to_string(op.kind)) + " needs 9.0, or the host backend"};
  }
  constexpr int kLeastForF8 = 89; // Ada, then Hopper
  for (int device = 0; device < device_count && op.dtype == planner::DType::F8E4m3; ++device) {
    const int found = compute_capability(device);
    if (found >= kLeastForF8) continue;
    return Error{ErrorCode::Unsupported, "dtype",
                 "device " + std::to_string(device) + " has compute capability " + capability_text(found) +
                     "; f8e4m3 needs 8.9 or later, or use bf16"};
  }
  return {};
}

namespace {

/// Checks what our own kernels take where tokens choose experts; no library has such kernels. Errors: Unsupported
/// naming the field.
Result<void> check_chosen_experts(const planner::OpSpec& op) {
  if (!op.experts) return {};
  const std::string kind = " of " + std::string(to_string(op.kind));
  if (op.dtype != planner::DType::Bf16 && op.dtype != planner::DType::F16)
    return Error{ErrorCode::Unsupported, "dtype",
                 "is " + std::string(to_string(op.dtype)) + "; the cuda backend has bf16 and f16" + kind};
  if (op.n % kRowMultiple != 0 || op.k % kRowMultiple != 0)
    return Error{ErrorCode::Unsupported, op.n % kRowMultiple != 0 ? "n" : "k",
                 "is " + std::to_string(op.n % kRowMultiple != 0 ? op.n : op.k) + "; the cuda backend's kernel" + kind +
                     " takes multiples of " + std::to_string(kRowMultiple)};
  if (op.experts->count > kMaxSortedExperts)
    return Error{ErrorCode::Unsupported, "experts",
                 "are " + std::to_string(op.experts->count) + "; the cuda backend takes at most " +
                     std::to_string(kMaxSortedExperts) + kind};
  if (op.m > std::numeric_limits<std::int32_t>::max() / op.experts->top_k)
    return Error{ErrorCode::Unsupported, "m",
                 "is " + std::to_string(op.m) + " with " + std::to_string(op.experts->top_k) +
                     " choices each; the cuda backend takes less than 2^31 choices" + kind};
  return {};
}

/// Checks the row length of biases of several experts, which lie one below the other. Errors: Unsupported (n).
Result<void> check_bias_rows(const planner::OpSpec& op) {
  const std::int64_t element_bytes = planner::size_bytes(planner::product_type(op));
  if (!matmul_epilogue(op).has_bias || planner::matrix_count(op) == 1 || op.n * element_bytes % kBiasBytes == 0)
    return {};
  return Error{ErrorCode::Unsupported, "n",
               "a bias of " + std::to_string(op.n) + " columns for each of several experts; cuBLASLt needs rows of " +
                   "whole 16 bytes, so a multiple of " + std::to_string(kBiasBytes / element_bytes) + " columns"};
}

} // namespace

Result<void> check_operator(const planner::OpSpec& op) {
  MC2_TRY(op.validate());
  if (op.dtype == planner::DType::I8)
    return Error{ErrorCode::Unsupported, "dtype", "the cuda backend does not run i8; the host backend may"};
  MC2_TRY(check_chosen_experts(op));
  constexpr std::int64_t kMostExperts = 65536; // in all: every rank has tables of all ranks' experts
  if (op.experts_per_rank > kMostExperts / op.world_size)
    return Error{ErrorCode::Unsupported, "experts_per_rank",
                 "is " + std::to_string(op.experts_per_rank) + "; the cuda backend takes at most " +
                     std::to_string(kMostExperts) + " experts in all, so " +
                     std::to_string(kMostExperts / op.world_size) + " on each of " + std::to_string(op.world_size) +
                     " ranks"};
  MC2_TRY(check_bias_rows(op));
  if (op.experts_per_rank > 1 && op.dtype == planner::DType::F8E4m3)
    return Error{ErrorCode::Unsupported, "dtype",
                 "f8e4m3 is for one expert a rank on the cuda backend, and these have " +
                     std::to_string(op.experts_per_rank) + "; use bf16 or f16"};
  MC2_TRY(cuda_backend().check_rank_count(op.world_size));
  if (op.dtype == planner::DType::F8E4m3 && (op.n % kF8Multiple != 0 || op.k % kF8Multiple != 0)) {
    return Error{ErrorCode::Unsupported, op.n % kF8Multiple != 0 ? "n" : "k",
                 "is " + std::to_string(op.n % kF8Multiple != 0 ? op.n : op.k) +
                     "; cuBLASLt multiplies f8e4m3 where n and k are multiples of " + std::to_string(kF8Multiple)};
  }
  if (std::max({op.m, op.n, op.k}) > std::numeric_limits<std::int32_t>::max() / 2) {
    return Error{ErrorCode::Unsupported, "m", "m, n and k above 2^30 do not fit cuBLASLt"};
  }
  return {};
}

std::vector<int> numbers_of(std::span<const LocalRank> ranks) {
  std::vector<int> numbers;
  for (const LocalRank& rank : ranks) numbers.push_back(rank.number);
  return numbers;
}

std::vector<LocalRank> local_ranks_of(const CommunicatorOptions& options) {
  if (options.process) return {{options.process->rank, device_for(options.process->device())}};
  std::vector<LocalRank> ranks;
  for (int rank = 0; rank < options.world_size; ++rank) ranks.push_back({rank, device_for(rank)});
  return ranks;
}

int ranks_here(const CommunicatorOptions& options) {
  return spans_hosts(options) ? options.process->local_size : options.world_size;
}

Result<void> check_devices(int rank_count) {
  constexpr int kLeastNccl = 22800; // 2.28: windows, CTA policies
  int nccl_version = 0;
  MC2_CUDA(ncclGetVersion(&nccl_version));
  if (nccl_version < kLeastNccl)
    return Error{ErrorCode::Unsupported, "nccl", "found " + software_text() + "; NCCL 2.28 or later is needed"};
  std::string reason;
  const int count = device_count(&reason);
  const int count_needed = devices_for(rank_count);
  if (count < count_needed) {
    return Error{ErrorCode::Unsupported, "world_size",
                 std::to_string(rank_count) + " ranks need " +
                     (count_needed == rank_count ? "as many" : std::to_string(count_needed)) +
                     " CUDA devices and this machine has " + std::to_string(count) +
                     (reason.empty() ? "" : " (" + reason + ")")};
  }
  for (int from = 0; from < count_needed; ++from) {
    for (int to = 0; to < count_needed; ++to) {
      int can_access = 1;
      if (from != to) MC2_CUDA(cudaDeviceCanAccessPeer(&can_access, from, to));
      if (can_access != 0) continue;
      return Error{ErrorCode::Unsupported, "world_size",
                   "device " + std::to_string(from) + " cannot reach the memory of device " + std::to_string(to) +
                       "; every pair of ranks needs peer access"};
    }
  }
  return {};
}

Result<void> check_native_communicators(std::span<void* const> communicators, std::span<const LocalRank> ranks,
                                        int world_size) {
  if (communicators.empty()) return {};
  const auto refuse = [](const std::string& text) {
    return Error{ErrorCode::InvalidSpec, "native_communicators", text};
  };
  if (communicators.size() != ranks.size())
    return refuse(std::to_string(communicators.size()) + " communicators for " + std::to_string(ranks.size()) +
                  " ranks");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto [rank, own_device] = ranks[i];
    auto* communicator = static_cast<ncclComm_t>(communicators[i]);
    const std::string name = "the communicator of " + rank_text(rank);
    if (communicator == nullptr) return refuse(name + " is null");
    int rank_count = 0;
    int own_rank = 0;
    int device = 0;
    MC2_CUDA(ncclCommCount(communicator, &rank_count));
    MC2_CUDA(ncclCommUserRank(communicator, &own_rank));
    MC2_CUDA(ncclCommCuDevice(communicator, &device));
    if (rank_count == world_size && own_rank == rank && device == own_device) continue;
    return refuse(name + " is of " + rank_text(own_rank) + " of " + std::to_string(rank_count) + " on device " +
                  std::to_string(device) + "; it must be of " + rank_text(rank) + " of " + std::to_string(world_size) +
                  " on device " + std::to_string(own_device));
  }
  return {};
}

std::int64_t exchange_bytes(const planner::OpSpec& op) noexcept {
  const std::int64_t columns = planner::traits_of(op.kind).first_lane == planner::Lane::Communication ? op.k : op.n;
  return op.m * columns * planner::size_bytes(planner::exchange_type(op));
}

std::int64_t staging_bytes(const planner::OpSpec& op) noexcept {
  if (planner::cut_axis(op) == planner::CutAxis::Columns) return exchange_bytes(op); // staging holds a block's sum
  return rank_share_bytes(exchange_bytes(op), op.world_size) * (op.world_size - 1);
}

std::vector<std::int64_t> prepared_sizes(const planner::OpSpec& op, bool stages_pieces, bool allow_independent) {
  std::vector<std::int64_t> sizes{exchange_bytes(op)};
  if (allow_independent) sizes.push_back(exchange_bytes(op));
  if (stages_pieces) sizes.push_back(staging_bytes(op));
  if (op.dtype == planner::DType::F8E4m3) sizes.push_back(op.n * op.k); // B transposed
  return sizes;
}

Result<void> check_memory(LocalRank rank, std::int64_t needed_bytes, std::int64_t reusable_bytes) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const OnDevice on_device(rank.device);
  MC2_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  const std::int64_t available = static_cast<std::int64_t>(free_bytes) + reusable_bytes;
  if (needed_bytes <= available) return {};
  return Error{ErrorCode::Unsupported, "m",
               rank_text(rank.number) + " needs " + bytes_text(needed_bytes) + " of device memory and its device has " +
                   bytes_text(available) + " available"};
}

namespace {

/// Checks that ranks that share a device do not share a stream: one would wait for work of the other that is queued
/// behind its own. Errors: InvalidSpec.
Result<void> check_own_streams(std::span<void* const> streams, std::span<const LocalRank> ranks) {
  const auto stream_of = [&](std::size_t i) { return streams[i] == cudaStreamLegacy ? nullptr : streams[i]; };
  for (std::size_t i = 0; i < ranks.size(); ++i)
    for (std::size_t before = 0; before < i; ++before)
      if (ranks[i].device == ranks[before].device && stream_of(i) == stream_of(before))
        return Error{ErrorCode::InvalidSpec, "streams",
                     "ranks " + std::to_string(ranks[before].number) + " and " + std::to_string(ranks[i].number) +
                         " share device " + std::to_string(ranks[i].device) +
                         " and have one stream; give each a stream that cudaStreamCreate makes"};
  return {};
}

} // namespace

Result<void> check_streams(std::span<void* const> streams, std::span<const LocalRank> ranks) {
  if (streams.size() != ranks.size()) {
    return Error{ErrorCode::InvalidSpec, "streams",
                 std::to_string(streams.size()) + " streams for " + std::to_string(ranks.size()) + " ranks"};
  }
  MC2_TRY(check_own_streams(streams, ranks));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto [rank, own_device] = ranks[i];
    const auto stream = static_cast<cudaStream_t>(streams[i]);
    if (stream == cudaStreamPerThread) {
      return Error{ErrorCode::InvalidSpec, "streams",
                   "the stream of " + rank_text(rank) +
                       " is cudaStreamPerThread, which is another one in each thread; it must be one that "
                       "cudaStreamCreate makes, or the default one"};
    }
    // The default stream belongs to whatever device is current.
    if (stream == nullptr || stream == cudaStreamLegacy) continue;
    if (is_capturing(stream)) continue; // a captured stream tells no device, and a wrong one makes the capture fail
    int device = 0;
    MC2_CUDA(cudaStreamGetDevice(stream, &device));
    if (device == own_device) continue;
    return Error{ErrorCode::InvalidSpec, "streams",
                 "the stream of " + rank_text(rank) + " is of device " + std::to_string(device) +
                     "; it must be of device " + std::to_string(own_device)};
  }
  return {};
}

Result<void> check_window_memory(const planner::OpSpec& op, std::span<const RankBuffers> buffers) {
  const bool is_sent = planner::traits_of(op.kind).first_lane == planner::Lane::Communication;
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    const std::byte* address = is_sent ? buffers[rank].a.data() : buffers[rank].c.data();
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(address) % NCCL_WIN_REQUIRED_ALIGNMENT == 0;
    if (is_aligned && has_allocation_handle(address)) continue;
    return Error{ErrorCode::Unsupported, "buffers",
                 rank_text(rank) + " " + (is_sent ? "A" : "C") +
                     (is_aligned ? " is not memory that NCCL can share as a window; allocate it with ncclMemAlloc"
                                 : " is not aligned to " + std::to_string(NCCL_WIN_REQUIRED_ALIGNMENT) +
                                       " bytes, as NCCL's windows must be")};
  }
  return {};
}

/// Checks operators whose pieces are put down row by row: the pitch of a 2D copy has 31 bits. Errors: Unsupported (n).
Result<void> check_pitch(const planner::OpSpec& op) {
  const bool is_side_by_side = planner::traits_of(op.kind).lands_side_by_side;
  if (!is_side_by_side && planner::cut_axis(op) != planner::CutAxis::Columns) return {};
  const std::int64_t row_bytes =
      (is_side_by_side ? op.world_size : 1) * op.n * planner::size_bytes(planner::product_type(op));
  if (row_bytes <= std::numeric_limits<std::int32_t>::max()) return {};
  return Error{ErrorCode::Unsupported, "n",
               "rows of C have " + std::to_string(row_bytes) +
                   " bytes; the devices' copies reach to the next row below 2^31 bytes only"};
}

Result<void> check_carries(const StageList& stages, const CudaVariant& variant, bool has_row_runs) {
  MC2_TRY(check_pitch(stages.op));
  if (has_row_runs && variant.takes_no_sm)
    return Error{ErrorCode::Unsupported, "variant",
                 "nccl_copy_engine exchanges equal pieces of one expert a rank; choose copy_engine, direct or nccl"};
  if (has_row_runs && stages.op.dtype == planner::DType::F8E4m3)
    return Error{ErrorCode::Unsupported, "counts",
                 "of f8e4m3 are for the host backend; leave send_counts and receive_counts out, or use bf16 or f16"};
  const bool is_exchanged = planner::collective_of(stages.op.kind) == planner::Collective::AllToAll;
  if (!variant.takes_no_sm || !is_exchanged || stages.stages.size() == 1) return {};
  return Error{ErrorCode::Unsupported, "variant",
               "nccl_copy_engine carries " + std::string(to_string(stages.op.kind)) +
                   " uncut only, because NCCL's all-to-all takes pieces that touch; choose copy_engine for blocks"};
}

Result<void> check_tile_places(const planner::OpSpec& op, const CudaVariant& variant, std::span<const int> ranks,
                               std::span<const RankBuffers> buffers) {
  if (!variant.stores_tiles && !op.experts) return {};
  const std::string who = (op.experts ? std::string(to_string(op.kind)) : "tile_store") + " needs";
  constexpr std::uint32_t kNeeded = 16;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (const auto& [name, address] : {std::pair<const char*, const void*>{"A", buffers[i].a.data()},
                                        {"B", buffers[i].b.data()},
                                        {"C", buffers[i].c.data()}}) {
      MC2_TRY(check_alignment(ranks[i], name, address, kNeeded, who));
    }
  }
  return {};
}

namespace {

std::array<const void*, 5> addresses_of_matrices(const RankBuffers& buffers) {
  return {buffers.a.data(), buffers.b.data(), buffers.c.data(), buffers.bias.data(), buffers.residual.data()};
}

} // namespace

Result<void> check_grouped(const planner::OpSpec& op, const CudaVariant& variant, LocalRank rank,
                           const RankBuffers& buffers) {
  constexpr std::uint32_t kNeeded = 16;
  const auto refuse = [](const std::string& text) {
    return Error{ErrorCode::Unsupported, "experts", "one kernel for all of a rank needs " + text};
  };
  if (compute_capability(rank.device) != kHopper)
    return refuse("compute capability 9.0; device " + std::to_string(rank.device) + " has " +
                  capability_text(compute_capability(rank.device)));
  if (op.dtype != planner::DType::Bf16 && op.dtype != planner::DType::F16)
    return refuse("bf16 or f16, not " + std::string(to_string(op.dtype)));
  if (const auto shape = check_tile_shape(op); !shape)
    return refuse("n and k that are multiples of 8, not " + std::to_string(op.n) + " and " + std::to_string(op.k));
  if (variant.gemm_tile != 0) return refuse("a variant without a setting tile");
  for (const void* address : addresses_of_matrices(buffers))
    if (alignment_of(address) < kNeeded)
      return refuse("matrices aligned to 16 bytes; those of " + rank_text(rank.number) + " are not");
  return {};
}

Result<void> check_device_counts(const planner::OpSpec& op, const CudaVariant& variant,
                                 std::span<const LocalRank> ranks, std::span<const RankBuffers> buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].device_send_counts.empty() == buffers.front().device_send_counts.empty()) continue;
    return Error{ErrorCode::InvalidSpec, "counts",
                 rank_text(ranks[i].number) + " has " +
                     (buffers[i].device_send_counts.empty() ? "no counts" : "counts") + " in device memory, unlike " +
                     rank_text(ranks.front().number)};
  }
  if (buffers.front().device_send_counts.empty()) return {};
  const auto refuse = [](const std::string& text) { return Error{ErrorCode::Unsupported, "counts", text}; };
  if (variant.transport != CudaVariant::Transport::Direct)
    return refuse("in device memory are for variant direct; the host must know those of others");
  if (op.experts_per_rank > kMaxRoutedExperts || op.world_size * op.experts_per_rank > kMaxAllRoutedExperts)
    return refuse("in device memory are of at most " + std::to_string(kMaxRoutedExperts) + " experts a rank and " +
                  std::to_string(kMaxAllRoutedExperts) + " in all; these ranks have " +
                  std::to_string(op.experts_per_rank));
  if (!result_epilogue(op).is_empty())
    return refuse("in device memory are for combines without a residual, whose rows the host must know");
  for (std::size_t i = 0; i < buffers.size(); ++i) MC2_TRY(check_grouped(op, variant, ranks[i], buffers[i]));
  return {};
}

Result<void> check_reach(const CudaVariant& variant, const CommunicatorOptions& options) {
  using Transport = CudaVariant::Transport;
  const auto refuse = [](const std::string& text) { return Error{ErrorCode::Unsupported, "variant", text}; };
  const bool crosses_hosts = spans_hosts(options);
  if (ranks_per_device() > 1 && variant.transport == Transport::Nccl)
    return refuse("is NCCL's, which takes a device only once, and here ranks share one; choose another variant");
  if (variant.transport == Transport::Hierarchical) {
    if (crosses_hosts && ranks_here(options) > 1 && ranks_here(options) < options.world_size) return {};
    return refuse("hierarchical is for several hosts with several ranks each; choose another variant");
  }
  if (crosses_hosts && (variant.transport != Transport::Nccl || variant.takes_no_sm))
    return refuse(
        "reaches into all other devices' memory, which those of other hosts have not; choose nccl or hierarchical");
  if (options.process && variant.has_windows)
    return refuse("NCCL's windows are for worlds in one process; choose another variant");
  return {};
}

Result<void> check_shareable(int rank, const RankBuffers& buffers, const PeerReach& reach) {
  const OnDevice on_device(device_for(rank));
  const auto is_shared = [](std::span<const std::byte> matrix) { // a rank may have no rows
    return matrix.empty() || is_shareable(matrix.data());
  };
  const bool is_a_shared = !reach.a || is_shared(buffers.a);
  if (is_a_shared && (!reach.c || is_shared(buffers.c))) return {};
  return Error{ErrorCode::Unsupported, "buffers",
               rank_text(rank) + " " + (is_a_shared ? "C" : "A") +
                   " is memory that other processes cannot map; it must come from cudaMalloc (PyTorch: without "
                   "expandable segments)"};
}

Result<void> check_peer_access(std::span<const int> ranks, std::span<const RankBuffers> buffers,
                               const PeerReach& reach) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const OnDevice on_device(device_for(ranks[i]));
    if (reach.a) {
      MC2_TRY(check_access(ranks[i], "A", buffers[i].a, CU_MEM_ACCESS_FLAGS_PROT_READ, ranks));
    }
    if (reach.c) {
      MC2_TRY(check_access(ranks[i], "C", buffers[i].c, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, ranks));
    }
  }
  return {};
}

Result<void> check_places(std::span<const LocalRank> ranks, std::span<const RankBuffers> buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    MC2_TRY(check_place(ranks[i], "counts", buffers[i].device_send_counts));
    MC2_TRY(try_operands(buffers[i], [&](std::span<const std::byte> bytes, const char* name) {
      return check_place(ranks[i], name, bytes);
    }));
  }
  return {};
}

namespace {

std::vector<std::byte> fetched(std::span<const std::byte> there) {
  std::vector<std::byte> here(there.size());
  MC2_CUDA(cudaMemcpy(here.data(), there.data(), there.size(), cudaMemcpyDeviceToHost));
  return here;
}

} // namespace

Result<std::int64_t> resident_choice_digest(const planner::OpSpec& op, int rank, const RankBuffers& buffers) {
  const auto experts = fetched(buffers.choices.experts), weights = fetched(buffers.choices.weights);
  RankBuffers here;
  here.choices = {experts, weights, buffers.choices.type};
  MC2_TRY(check_choices(op, std::span(&rank, 1), std::span(&here, 1)));
  return choice_digest(op, here);
}

Result<void> check_resident_bags(const planner::OpSpec& op, int rank, const RankBuffers& buffers) {
  if (!op.tables) return {};
  const auto offsets = fetched(buffers.bags.offsets);
  const auto indices = fetched(buffers.bags.indices);
  RankBuffers here;
  here.bags = {offsets, indices, buffers.bags.type};
  return check_bags(op, std::span(&rank, 1), std::span(&here, 1));
}

namespace {

/// Checks that no matrix is aligned worse than the one before. Errors: InvalidSpec naming the matrix.
Result<void> check_alignments(int rank, const RankBuffers& now, const RankBuffers& next) {
  using Bytes = std::span<const std::byte>;
  const auto is_worse = [](Bytes before, Bytes after) {
    return !after.empty() && alignment_of(after.data()) < alignment_of(before.data());
  };
  for (const auto& [name, before, after] : {std::tuple<const char*, Bytes, Bytes>{"A", now.a, next.a},
                                            {"B", now.b, next.b},
                                            {"C", now.c, next.c},
                                            {"bias", now.bias, next.bias},
                                            {"residual", now.residual, next.residual}}) {
    if (!is_worse(before, after) || (before.data() == now.b.data() && !now.bags.offsets.empty())) continue;
    return Error{ErrorCode::InvalidSpec, "buffers",
                 rank_text(rank) + " " + name + " is aligned to " + std::to_string(alignment_of(after.data())) +
                     " bytes; the plan was prepared for " + std::to_string(alignment_of(before.data()))};
  }
  return {};
}

} // namespace

Result<void> check_replacement(int rank, const RankBuffers& now, const RankBuffers& next, const PeerReach& reach) {
  const auto refuse = [&](const char* matrix, const std::string& why) {
    return Error{ErrorCode::InvalidSpec, "buffers", rank_text(rank) + " " + matrix + " " + why};
  };
  const char* const must_stay = "is reached by its peers and must stay where the plan was prepared with it";
  const auto has_moved = [](std::span<const std::byte> before, std::span<const std::byte> after) {
    return before.data() != after.data() && !after.empty(); // a rank may have no rows
  };
  if (reach.a && has_moved(now.a, next.a)) return refuse("A", must_stay);
  if (reach.c && has_moved(now.c, next.c)) return refuse("C", must_stay);
  if (now.b_is_transposed != next.b_is_transposed)
    return refuse("B", "is stored the other way round than the plan was prepared for");
  // Scales are part of a matmul's description, and prepare() has transposed a B of f8e4m3 that is [k, n].
  if (now.a_scales.data() != next.a_scales.data() || now.b_scales.data() != next.b_scales.data())
    return refuse("scales", "must stay where the plan was prepared with them");
  if (!now.b_scales.empty() && !now.b_is_transposed && now.b.data() != next.b.data())
    return refuse("B", "was packed by prepare(); bring it as [n, k], or prepare the plan for another");
  if (now.choices.type != next.choices.type) // a parameter of captured kernels
    return refuse("chosen experts", "must be numbers of as many bits as the plan was prepared with");
  if (!now.normed.empty() && now.norm_epsilon != next.norm_epsilon) // a parameter of captured kernels
    return refuse("norm_epsilon", "must stay what the plan was prepared with");
  return check_alignments(rank, now, next);
}

/// Checks the alignment of biases: the matmul's kernels read a bias 16 bytes at a time. Errors: InvalidSpec naming the
/// rank.
Result<void> check_added_bias(const planner::OpSpec& op, std::span<const int> ranks,
                              std::span<const RankBuffers> buffers) {
  for (std::size_t i = 0; i < buffers.size() && matmul_epilogue(op).has_bias; ++i)
    MC2_TRY(check_alignment(ranks[i], "bias", buffers[i].bias.data(), kBiasBytes, "cuBLASLt needs"));
  return {};
}

Result<void> check_request(const StageList& stages, int world_size, std::span<const LocalRank> local_ranks,
                           std::span<const RankBuffers> buffers) {
  const std::vector<int> ranks = numbers_of(local_ranks);
  MC2_TRY(check_operator(stages.op));
  MC2_TRY(check_world(stages, world_size));
  MC2_TRY(check_buffers(stages.op, ranks, buffers));
  MC2_TRY(check_places(local_ranks, buffers));
  MC2_TRY(check_f8(stages, ranks, buffers));
  MC2_TRY(check_added_bias(stages.op, ranks, buffers));
  for (std::size_t i = 0; i < ranks.size(); ++i) MC2_TRY(check_resident_bags(stages.op, ranks[i], buffers[i]));
  return {};
}

} // namespace mc2::executor::cuda
