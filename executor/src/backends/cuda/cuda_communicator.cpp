#include "backends/cuda/cuda_communicator.hpp"

#include <cerrno>
#include <cstdio>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "backends/cuda/cuda_checks.hpp"
#include "backends/cuda/cuda_prepared.hpp"
#include "backends/cuda/machine.hpp"
#include "checks.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::SystemError;

ncclUniqueId new_nccl_id() {
  ncclUniqueId id;
  MC2_CUDA(ncclGetUniqueId(&id));
  return id;
}

} // namespace

CudaCommunicator::CudaCommunicator(const CommunicatorOptions& options, planner::Fingerprint fingerprint)
    : options_(options),
      fingerprint_(std::move(fingerprint)),
      ranks_(static_cast<std::size_t>(options.world_size)),
      workers_(options.world_size),
      devices_(ranks_.size()),
      signals_(ranks_.size()) {
  std::iota(ranks_.begin(), ranks_.end(), 0);
  workers_.run([this](int rank) { open_device(rank); });
  for (const int rank : ranks_) {
    SignalMemory& own = signals_[static_cast<std::size_t>(rank)];
    own.abort = abort_word_.device();
    own.rank = rank;
    own.world_size = options_.world_size;
    for (std::size_t peer = 0; peer < devices_.size(); ++peer) {
      own.words[peer] = reinterpret_cast<std::uint32_t*>(devices_[peer].signals->bytes().data());
      own.mail[peer] = reinterpret_cast<uint4*>(devices_[peer].mail->bytes().data());
    }
  }
}

CudaCommunicator::~CudaCommunicator() {
  try {
    workers_.run([this](int rank) {
      for (auto& [settings, communicators] : nccl_) communicators[static_cast<std::size_t>(rank)] = {};
      RankDevice& device = devices_[static_cast<std::size_t>(rank)];
      device.mail.reset();
      device.signals.reset();
      device.second_gemm.reset();
      device.gemm.reset();
      device.pool.reset();
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mc2: level=error text=\"closing devices: %s\"\n", error.what());
  }
}

void CudaCommunicator::open_device(int rank) {
  check(cudaSetDevice(rank), "cudaSetDevice", rank);
  for (const int peer : ranks_) {
    if (peer == rank) continue;
    const cudaError_t code = cudaDeviceEnablePeerAccess(peer, 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError(); // clears it
      continue;
    }
    check(code, "cudaDeviceEnablePeerAccess", rank);
  }
  RankDevice& device = devices_[static_cast<std::size_t>(rank)];
  device.pool = std::make_unique<DevicePool>(rank);
  device.compute = make_stream(false);
  device.second_compute = make_stream(false);
  device.communication = make_stream(true);
  device.announcements = make_stream(true);
  device.gemm = std::make_unique<GemmContext>(*device.pool, rank);
  device.signals = std::make_unique<DeviceMemory>(*device.pool, rank, kSignalWords * sizeof(std::uint32_t));
  device.mail = std::make_unique<DeviceMemory>(*device.pool, rank, kMailBytes);
  for (DeviceMemory* memory : {device.signals.get(), device.mail.get()})
    MC2_CUDA(cudaMemset(memory->bytes().data(), 0, memory->bytes().size()));
  MC2_CUDA(cudaDeviceSynchronize());
}

std::unique_ptr<RankMemory> CudaCommunicator::allocate(int rank, std::size_t byte_count) {
  return std::make_unique<DeviceMemory>(*device(rank).pool, rank, byte_count);
}

GemmContext& CudaCommunicator::second_gemm(int rank) {
  RankDevice& own = device(rank);
  if (!own.second_gemm) own.second_gemm = std::make_unique<GemmContext>(*own.pool, rank);
  return *own.second_gemm;
}

SignalMemory CudaCommunicator::signals_of(int rank) const noexcept { return signals_[static_cast<std::size_t>(rank)]; }

std::unique_ptr<Transport> CudaCommunicator::make_transport(const planner::OpSpec& op, const CudaVariant& variant) {
  switch (variant.transport) {
    case CudaVariant::Transport::Direct: return make_direct_transport(op, variant, signals_);
    case CudaVariant::Transport::Persistent: return make_persistent_transport(op, variant, signals_);
    case CudaVariant::Transport::Nccl: return make_nccl_transport(op, variant, nccl(variant));
    case CudaVariant::Transport::CopyEngine: return make_copy_transport(op, variant, signals_, sm_count());
  }
  return nullptr;
}

NcclCommunicator CudaCommunicator::open_nccl(const ncclUniqueId& id, int rank, int world_size,
                                             const NcclSettings& settings) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (settings.cta_count > 0) config.minCTAs = config.maxCTAs = settings.cta_count;
  if (settings.takes_no_sm) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  ncclComm_t communicator = nullptr;
  check(ncclCommInitRankConfig(&communicator, world_size, id, rank, &config), "ncclCommInitRankConfig", rank);
  return NcclCommunicator(communicator);
}

std::vector<ncclComm_t> CudaCommunicator::nccl(const CudaVariant& variant) {
  const NcclSettings settings{variant.cta_count, variant.takes_no_sm};
  std::vector<ncclComm_t> handles;
  if (settings == NcclSettings{}) {
    for (void* native : options_.native_communicators) handles.push_back(static_cast<ncclComm_t>(native));
    if (!handles.empty()) return handles;
  }
  auto [found, is_new] = nccl_.try_emplace(settings);
  if (is_new) {
    found->second.resize(ranks_.size());
    const ncclUniqueId id = new_nccl_id();
    run([&](int rank) {
      found->second[static_cast<std::size_t>(rank)] = open_nccl(id, rank, options_.world_size, settings);
    });
  }
  for (const NcclCommunicator& communicator : found->second) handles.push_back(communicator.get());
  return handles;
}

planner::Result<std::unique_ptr<Prepared>> CudaCommunicator::prepare(const StageList& stages,
                                                                     const planner::Variant& variant,
                                                                     std::span<const RankBuffers> buffers,
                                                                     const PrepareOptions& options) {
  if (auto legal = check_request(stages, options_.world_size, buffers); !legal) return legal.error();
  const auto read = read_variant(stages.op, variant, sm_count());
  if (!read) return read.error();
  if (read.value().has_windows) {
    if (auto legal = check_window_memory(stages.op, buffers); !legal) return legal.error();
  }
  auto transport = make_transport(stages.op, read.value());
  const std::int64_t needed_bytes = prepared_bytes(stages.op, transport->stages_pieces(), options.allow_independent);
  if (auto legal = check_free_memory(needed_bytes); !legal) return legal.error();
  const StageList rows = in_rows(stages, "cuda").value();
  return std::unique_ptr<Prepared>(
      std::make_unique<CudaPrepared>(*this, rows, read.value(), std::move(transport), buffers, options));
}

planner::Result<void> CudaCommunicator::check_free_memory(std::int64_t bytes_per_rank) {
  for (const int rank : ranks_) {
    const auto idle = static_cast<std::int64_t>(device(rank).pool->idle_bytes());
    if (auto legal = check_memory(rank, bytes_per_rank, idle); !legal) return legal.error();
  }
  return {};
}

void CudaCommunicator::run(const std::function<void(int)>& work) {
  if (failure_) throw SystemError("communicator", ECANCELED, "aborted by an earlier failure: " + *failure_);
  try {
    workers_.run(work, [this] { abort(); });
  } catch (const std::exception& error) {
    failure_ = error.what();
    throw;
  }
}

void CudaCommunicator::abort() noexcept {
  abort_word_.set(1);
  for (auto& [settings, communicators] : nccl_) {
    for (NcclCommunicator& communicator : communicators) communicator = NcclCommunicator();
  }
}

void CudaCommunicator::wait(int rank, cudaStream_t stream) const {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto deadline = start + options_.deadline;
  constexpr std::chrono::milliseconds kSpin{5}; // most runs end sooner, and a sleep would cost more than it saves
  for (;;) {
    const cudaError_t code = cudaStreamQuery(stream);
    if (code == cudaSuccess) return;
    if (code != cudaErrorNotReady) check(code, "cudaStreamQuery", rank);
    const auto now = Clock::now();
    if (now > deadline) {
      throw SystemError("run", ETIMEDOUT,
                        "rank " + std::to_string(rank) + " did not finish within " +
                            std::to_string(options_.deadline.count()) + " ms");
    }
    if (now - start > kSpin) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

} // namespace mc2::executor::cuda
