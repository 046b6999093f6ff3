#include "backends/cuda/cuda_communicator.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "after_deadline.hpp"
#include "backends/cuda/cuda_checks.hpp"
#include "backends/cuda/cuda_prepared.hpp"
#include "backends/cuda/rank_matmuls.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "checks.hpp"
#include "choices.hpp"
#include "mc2/executor/failure_log.hpp"
#include "mc2/planner/error.hpp"
#include "run_turn.hpp"
#include "texts.hpp"
#include "time_numbers.hpp"

namespace mc2::executor::cuda {
namespace {

ncclUniqueId new_nccl_id() {
  ncclUniqueId id;
  MC2_CUDA(ncclGetUniqueId(&id));
  return id;
}

/// Part of the call text: ranks must agree on whether counts are in device memory.
const char* counts_text(std::span<const RankBuffers> buffers) {
  return reads_device_counts(buffers) ? ", counts on the devices" : "";
}

} // namespace

template <typename Work>
auto CudaCommunicator::together(const Work& work) {
  // Another process's failure has ended this process's kernels, too, and what they have written is no result.
  if (!failure_ && group_ && abort_word_ && abort_word_->get() != 0) {
    failure_ = group_->failure().value_or("a rank has failed");
    abort(); // NCCL's kernels do not look at the word
  }
  if (failure_) throw SystemError("communicator", ECANCELED, "aborted by an earlier failure: " + *failure_);
  try {
    return work();
  } catch (const std::exception& error) {
    fail(error.what());
    throw;
  }
}

CudaCommunicator::CudaCommunicator(const CommunicatorOptions& options, planner::Fingerprint fingerprint,
                                   std::unique_ptr<ProcessGroup> group)
    : options_(options),
      fingerprint_(std::move(fingerprint)),
      group_(std::move(group)),
      local_ranks_(local_ranks_of(options)),
      ranks_(numbers_of(local_ranks_)),
      workers_(ranks_),
      devices_(static_cast<std::size_t>(options.world_size)),
      signals_(devices_.size()) {
  // Selects the process's only device: page-locked memory is opened on the current device.
  if (group_) check(cudaSetDevice(local_ranks_.front().device), "cudaSetDevice", group_->rank());
  run([this](int rank) { open_device(rank); });
  if (group_)
    abort_word_.emplace(group_->abort_word(), ProcessGroup::kAbortPageBytes);
  else
    abort_word_.emplace();
  share_signals();
  least_sm_count_ = static_cast<int>(-maximum(-sm_count()));
  if (crosses_hosts()) meetings_ = nccl({});
}

bool CudaCommunicator::crosses_hosts() const noexcept { return spans_hosts(options_); }

bool CudaCommunicator::is_on_this_host(int rank) const noexcept {
  const int here = ranks_here(options_);
  return rank / here == ranks_.front() / here;
}

HostsPlace CudaCommunicator::hosts_place() {
  const int rank = ranks_.front(), here = ranks_here(options_);
  HostsPlace place{.host_count = options_.world_size / here,
                   .ranks_per_host = here,
                   .inside = signals_of(rank),
                   .rail = nccl({.is_rail = true})[static_cast<std::size_t>(rank)]};
  place.inside.rank = rank % here;
  place.inside.world_size = here;
  for (int local = 0; local < here; ++local) {
    const auto from = static_cast<std::size_t>(rank - rank % here + local), to = static_cast<std::size_t>(local);
    place.inside.words[to] = signals_of(rank).words[from];
    place.inside.mail[to] = signals_of(rank).mail[from];
  }
  return place;
}

void CudaCommunicator::enqueue_meeting(int rank, cudaStream_t stream) {
  if (!crosses_hosts()) return cuda::enqueue_meeting(signals_of(rank), stream);
  auto* const word = reinterpret_cast<float*>(device(rank).mail->bytes().data()); // no variant uses mail between hosts
  check(ncclAllReduce(word, word, 1, ncclFloat32, ncclSum, meetings_[static_cast<std::size_t>(rank)], stream),
        "ncclAllReduce", rank);
}

void CudaCommunicator::share_signals() {
  std::vector<std::vector<std::byte*>> own;
  for (const int rank : ranks_)
    own.push_back({device(rank).signals->bytes().data(), device(rank).mail->bytes().data()});
  signal_addresses_ = share(own);
  for (std::size_t rank = 0; rank < signals_.size(); ++rank) {
    SignalMemory& signals = signals_[rank];
    signals.abort = abort_word_->device();
    signals.rank = static_cast<int>(rank);
    signals.world_size = options_.world_size;
    for (std::size_t peer = 0; peer < signals_.size(); ++peer) {
      signals.words[peer] = reinterpret_cast<std::uint32_t*>(signal_addresses_.of_rank[peer][0]);
      signals.mail[peer] = reinterpret_cast<uint4*>(signal_addresses_.of_rank[peer][1]);
    }
  }
}

CudaCommunicator::~CudaCommunicator() {
  watch_ = {};
  const auto synchronize = [](int /*rank*/) { log_failure(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); };
  try {
    { // kernels may still read other ranks' memory; kernels that wait for runs that never come end when aborted
      const AfterDeadline guard(options_.deadline,
                                [this] { fail("closed while runs were under way that other ranks have not joined"); });
      workers_.run(synchronize);
    }
    meet_before_closing();
    close_nccl();
    const bool is_closed = closing_.wait(options_.deadline);
    if (!is_closed) {
      executor::log_failure(
          "text=\"closing devices: a graph that was captured holds runs of NCCL; destroy it before "
          "its communicator is closed. Memory stays allocated\"");
    }
    workers_.run([&](int rank) {
      RankDevice& device = devices_[static_cast<std::size_t>(rank)];
      device.mail.reset();
      device.signals.reset();
      device.second_gemm.reset();
      device.gemm.reset();
      if (!is_closed) (void)device.pool.release(); // memory that such a graph uses
      device.pool.reset();
    });
  } catch (const std::exception& error) {
    executor::log_failure("text=\"closing devices: " + std::string(error.what()) + "\"");
  }
}

/// Waits for the other processes before NCCL is closed: its helper threads may still be sending data that this rank's
/// kernels have handed to them, and closing ends the threads.
void CudaCommunicator::meet_before_closing() noexcept {
  if (!crosses_hosts() || failure_ || group_->failure() || group_->departure()) return;
  try {
    group_->leave();
  } catch (const std::exception&) { // e.g. out of memory
  }
}

void CudaCommunicator::open_device(int rank) {
  const int own_device = device_number(rank);
  check(cudaSetDevice(own_device), "cudaSetDevice", rank);
  for (const int peer : ranks_) { // of this process only; memory of other processes is mapped when it is shared
    const int device = device_number(peer);
    if (device == own_device) continue;
    const cudaError_t code = cudaDeviceEnablePeerAccess(device, 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError(); // clears it
      continue;
    }
    check(code, "cudaDeviceEnablePeerAccess", rank);
  }
  RankDevice& device = devices_[static_cast<std::size_t>(rank)];
  device.pool = std::make_unique<DevicePool>(own_device, group_ ? DevicePool::Source::Cuda : DevicePool::Source::Nccl);
  device.compute = make_stream(false);
  device.communication = make_stream(true);
  device.gemm = std::make_unique<GemmContext>(*device.pool);
  device.signals = std::make_unique<DeviceMemory>(*device.pool, kSignalWords * sizeof(std::uint32_t));
  device.mail = std::make_unique<DeviceMemory>(*device.pool, kMailBytes);
  for (DeviceMemory* memory : {device.signals.get(), device.mail.get()})
    MC2_CUDA(cudaMemset(memory->bytes().data(), 0, memory->bytes().size()));
  MC2_CUDA(cudaDeviceSynchronize());
}

std::unique_ptr<RankMemory> CudaCommunicator::allocate(int rank, std::size_t byte_count) {
  return std::make_unique<DeviceMemory>(*device(rank).pool, byte_count);
}

void CudaCommunicator::open_second_compute(int rank) {
  RankDevice& own = device(rank);
  if (own.second_gemm) return;
  own.second_compute = make_stream(false);
  own.second_gemm = std::make_unique<GemmContext>(*own.pool);
}

void CudaCommunicator::open_announcements(int rank) {
  RankDevice& own = device(rank);
  if (!own.announcements) own.announcements = make_stream(true);
}

std::unique_lock<std::timed_mutex> CudaCommunicator::launch_turn(int rank) const {
  if (ranks_per_device() == 1) return {};
  static std::timed_mutex mutex;
  std::unique_lock turn(mutex, options_.deadline);
  if (!turn)
    throw SystemError("run", ETIMEDOUT,
                      rank_text(rank) + " could not launch, because another rank's launch did not end");
  return turn;
}

bool CudaCommunicator::may_launch_graphs() {
  constexpr int kMostThatLaunchGraphs = 4;
  return ranks_per_device() <= kMostThatLaunchGraphs;
}

SignalMemory CudaCommunicator::signals_of(int rank) const noexcept { return signals_[static_cast<std::size_t>(rank)]; }

std::unique_ptr<Transport> CudaCommunicator::make_transport(const planner::OpSpec& op, const CudaVariant& variant) {
  switch (variant.transport) {
    case CudaVariant::Transport::Direct: return make_direct_transport(op, variant, signals_, least_sm_count_);
    case CudaVariant::Transport::Persistent: return make_persistent_transport(op, variant, signals_, least_sm_count_);
    case CudaVariant::Transport::Nccl:
      return make_nccl_transport(op, variant, nccl({variant.cta_count, variant.takes_no_sm}));
    case CudaVariant::Transport::Hierarchical: return make_hierarchical_transport(op, variant, hosts_place());
    case CudaVariant::Transport::CopyEngine: return make_copy_transport(op, variant, signals_, sm_count());
  }
  return nullptr;
}

NcclCommunicator CudaCommunicator::open_nccl_between_hosts(const ncclUniqueId& id, int rank, int world_size,
                                                           const NcclSettings& settings) {
  struct Opening {
    std::mutex mutex;
    std::condition_variable changed;
    NcclCommunicator opened;
    std::string error;
    bool is_over = false;
  };
  const auto opening = std::make_shared<Opening>();
  // NCCL waits for the other ranks without limit and cannot be stopped, so a detached thread makes the call.
  std::thread([opening, id, rank, world_size, settings, device = local_ranks_.front().device, named = group_->rank()] {
    NcclCommunicator opened;
    std::string error;
    try {
      MC2_CUDA(cudaSetDevice(device));
      opened = open_nccl(id, rank, world_size, settings, named);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    const std::lock_guard lock(opening->mutex);
    opening->opened = std::move(opened);
    opening->error = error;
    opening->is_over = true;
    opening->changed.notify_all();
  }).detach();
  constexpr std::chrono::milliseconds kBetweenLooks{100};
  const auto end = std::chrono::steady_clock::now() + options_.deadline;
  std::unique_lock lock(opening->mutex);
  while (!opening->changed.wait_for(lock, kBetweenLooks, [&] { return opening->is_over; })) {
    if (const auto failure = group_->failure()) throw SystemError("ncclCommInitRankConfig", ECANCELED, *failure);
    if (std::chrono::steady_clock::now() > end)
      throw SystemError("ncclCommInitRankConfig", ETIMEDOUT,
                        rank_text(group_->rank()) + ": NCCL did not connect the hosts within " +
                            std::to_string(options_.deadline.count()) +
                            " ms; it uses ports of its own choice, on the network that NCCL_SOCKET_IFNAME names");
  }
  if (!opening->error.empty()) throw SystemError("ncclCommInitRankConfig", EIO, opening->error);
  return std::move(opening->opened);
}

NcclCommunicator CudaCommunicator::open_nccl(const ncclUniqueId& id, int rank, int world_size,
                                             const NcclSettings& settings, int named_rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (settings.cta_count > 0) config.minCTAs = config.maxCTAs = settings.cta_count;
  if (settings.takes_no_sm) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  ncclComm_t communicator = nullptr;
  check(ncclCommInitRankConfig(&communicator, world_size, id, rank, &config), "ncclCommInitRankConfig", named_rank);
  return NcclCommunicator(communicator);
}

ncclUniqueId CudaCommunicator::agree_on_nccl_id(bool is_rail) {
  if (!group_) return new_nccl_id();
  return together([&] {
    const int maker = is_rail ? group_->rank() % ranks_here(options_) : 0;
    ncclUniqueId id{};
    if (group_->rank() == maker) id = new_nccl_id();
    const std::string chosen =
        group_->all_gather({reinterpret_cast<const char*>(&id), sizeof id})[static_cast<std::size_t>(maker)];
    std::memcpy(&id, chosen.data(), sizeof id);
    return id;
  });
}

std::vector<ncclComm_t> CudaCommunicator::nccl(const NcclSettings& settings) {
  std::vector<ncclComm_t> handles(devices_.size());
  if (settings == NcclSettings{} && !options_.native_communicators.empty()) {
    for (const int rank : ranks_)
      handles[static_cast<std::size_t>(rank)] =
          static_cast<ncclComm_t>(options_.native_communicators[local_index(rank)]);
    return handles;
  }
  if (!nccl_.contains(settings)) { // needs no lock: no other thread inserts
    std::vector<NcclCommunicator> opened(devices_.size());
    const ncclUniqueId id = agree_on_nccl_id(settings.is_rail);
    const int here = ranks_here(options_);
    run([&](int rank) {
      const int place = settings.is_rail ? rank / here : rank;
      const int size = settings.is_rail ? options_.world_size / here : options_.world_size;
      opened[static_cast<std::size_t>(rank)] = crosses_hosts() ? open_nccl_between_hosts(id, place, size, settings)
                                                               : open_nccl(id, place, size, settings, rank);
    });
    const std::lock_guard lock(nccl_mutex_);
    nccl_.emplace(settings, std::move(opened));
  }
  if (group_ && !watch_.joinable()) watch_for_nccl();
  const std::lock_guard lock(nccl_mutex_);
  std::ranges::transform(nccl_.at(settings), handles.begin(), &NcclCommunicator::get);
  return handles;
}

std::string CudaCommunicator::nccl_fault() {
  const std::lock_guard lock(nccl_mutex_);
  for (const auto& [settings, communicators] : nccl_) {
    for (const NcclCommunicator& one : communicators) {
      ncclResult_t state = ncclSuccess;
      if (!one || ncclCommGetAsyncError(one.get(), &state) != ncclSuccess) continue;
      if (state != ncclSuccess && state != ncclInProgress) return std::string("NCCL: ") + ncclGetErrorString(state);
    }
  }
  return {};
}

void CudaCommunicator::watch_for_nccl() {
  watch_ = std::jthread([this](const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kBetweenLooks{100};
    constexpr int kLooksAfterFailure = 10; // gives the rank's own thread time to notice, so that it is not inside NCCL
    std::mutex mutex;
    std::condition_variable_any never;
    int looks = 0, looks_after_departure = 0;
    for (std::unique_lock lock(mutex); !stop.stop_requested() && looks < kLooksAfterFailure;) {
      never.wait_for(lock, stop, kBetweenLooks, [] { return false; });
      const auto departure = group_->departure();
      if (departure && ++looks_after_departure == kLooksAfterFailure) group_->fail(*departure);
      if (const std::string fault = nccl_fault(); !fault.empty()) group_->fail(fault);
      looks += group_->failure() ? 1 : 0;
    }
    if (!stop.stop_requested()) close_nccl();
  });
}

Result<void> CudaCommunicator::share_error(const Result<void>& own) {
  return group_ ? together([&] { return group_->share_error(own); }) : own;
}

std::int64_t CudaCommunicator::maximum(std::int64_t own) {
  return group_ ? together([&] { return group_->maximum(own); }) : own;
}

void CudaCommunicator::gather_times(std::vector<RankTimes>& ranks) {
  if (!group_) return;
  std::vector<std::int64_t> own;
  pack_times(ranks[static_cast<std::size_t>(group_->rank())], own);
  const auto all = together([&] { return group_->gather(own); });
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    unpack_times(std::span(all).subspan(rank * own.size(), own.size()), ranks[rank]);
}

SharedAddresses CudaCommunicator::share(const std::vector<std::vector<std::byte*>>& own) {
  if (!group_) return {own, {}};
  return together([&] {
    const OnDevice on_device(local_ranks_.front().device);
    std::string offers;
    const std::string nothing(kOfferBytes, '\0');
    for (const std::byte* address : own.front()) offers += address == nullptr ? nothing : offer_of(address);
    const auto all = group_->all_gather(offers);
    SharedAddresses shared{.of_rank = std::vector<std::vector<std::byte*>>(all.size()), .mappings = {}};
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      auto& addresses = shared.of_rank[rank];
      if (static_cast<int>(rank) == group_->rank()) addresses = own.front();
      for (std::size_t at = 0; at < all[rank].size() && addresses.size() < own.front().size(); at += kOfferBytes) {
        const std::string_view offer = std::string_view(all[rank]).substr(at, kOfferBytes);
        const bool is_reached = offer != nothing && is_on_this_host(static_cast<int>(rank));
        if (is_reached) shared.mappings.push_back(peer_memory_.open(offer));
        addresses.push_back(is_reached ? shared.mappings.back().get() : nullptr);
      }
    }
    return shared;
  });
}

Result<void> CudaCommunicator::check_stages(const StageList& stages, const Result<CudaVariant>& variant,
                                            std::span<const RankBuffers> buffers) {
  MC2_TRY(check_request(stages, options_.world_size, local_ranks_, buffers));
  if (!variant) return variant.error();
  MC2_TRY(check_device_types(stages.op, devices_for(ranks_here(options_))));
  MC2_TRY(check_carries(stages, variant.value(), has_row_runs(stages.op, buffers)));
  MC2_TRY(check_device_counts(stages.op, variant.value(), local_ranks_, buffers));
  MC2_TRY(check_tile_places(stages.op, variant.value(), ranks_, buffers));
  if (std::ranges::any_of(ranks_, [this](int rank) { return is_in_capture(rank); }))
    return Error{ErrorCode::Unsupported, "streams", kInCapture};
  MC2_TRY(check_reach(variant.value(), options_));
  return variant.value().has_windows ? check_window_memory(stages.op, buffers) : Result<void>{};
}

Result<std::unique_ptr<Prepared>> CudaCommunicator::prepare_stages(const StageList& stages,
                                                                   const planner::Variant& variant,
                                                                   std::span<const RankBuffers> buffers,
                                                                   const PrepareOptions& options) {
  const RunTurn turn(turn_);
  const auto read = read_variant(stages.op, variant, gpu_traits());
  MC2_TRY(share_error(together([&] { return check_stages(stages, read, buffers); })));
  if (group_) {
    MC2_TRY(together(
        [&] { return group_->agree("prepare " + call_text(stages, variant, options) + counts_text(buffers)); }));
  }
  MC2_TRY(agree_on_choices(stages.op, buffers));
  MC2_ASSIGN(auto row_runs, agree_on_rows(stages.op, buffers));
  auto sizes = sizes_of(stages, read.value(), options);
  if (row_runs) std::ranges::copy(row_run_bytes(stages), std::back_inserter(sizes));
  if (reads_device_counts(buffers)) std::ranges::copy(device_routing_bytes(stages.op), std::back_inserter(sizes));
  std::ranges::copy(chosen_bytes(stages, read.value()), std::back_inserter(sizes));
  MC2_TRY(share_error(together([&] { return check_free_memory(sizes); })));
  auto transport = make_transport(exchanged_as(stages.op), read.value());
  const PeerReach reach = reach_of(*transport, stages.first_lane);
  const auto is_reached = [&] {
    if (crosses_hosts()) return Result<void>{}; // peers reach no matrix of the caller
    return group_ ? check_shareable(group_->rank(), buffers.front(), reach) : check_peer_access(ranks_, buffers, reach);
  };
  MC2_TRY(share_error(together(is_reached)));
  auto prepared =
      std::make_unique<CudaPrepared>(*this, stages, read.value(), std::move(transport), buffers, std::move(row_runs));
  MC2_TRY(prepared->make_ready(options));
  return std::unique_ptr<Prepared>(std::move(prepared));
}

Result<void> CudaCommunicator::agree_on_choices(const planner::OpSpec& op, std::span<const RankBuffers> buffers) {
  if (!op.experts) return {};
  std::vector<std::int64_t> digests;
  const auto read_own = [&]() -> Result<void> {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      MC2_ASSIGN(const std::int64_t digest, resident_choice_digest(op, ranks_[i], buffers[i]));
      digests.push_back(digest);
    }
    return {};
  };
  MC2_TRY(share_error(together(read_own)));
  if (group_) digests = together([&] { return group_->gather(digests); });
  return check_choices_agree(digests);
}

Result<std::optional<RowRuns>> CudaCommunicator::agree_on_rows(const planner::OpSpec& op,
                                                               std::span<const RankBuffers> buffers) {
  if (!planner::traits_of(op.kind).takes_counts) return std::optional<RowRuns>{};
  if (reads_device_counts(buffers)) return std::optional(RowRuns(op, RowSplits(op)));
  std::vector<std::int64_t> counts;
  for (const RankBuffers& own : buffers) std::ranges::copy(counts_of(op, own), std::back_inserter(counts));
  if (group_) counts = together([&] { return group_->gather(counts); });
  MC2_ASSIGN(auto splits, agreed_splits(op, counts));
  if (!splits && op.experts_per_rank == 1) return std::optional<RowRuns>{};
  return std::optional(RowRuns(op, splits ? std::move(*splits) : RowSplits(op)));
}

std::vector<std::int64_t> CudaCommunicator::sizes_of(const StageList& stages, const CudaVariant& variant,
                                                     const PrepareOptions& options) {
  auto sizes = prepared_sizes(stages.op, stages_pieces(stages.op, variant), options.allow_independent);
  if (variant.stores_tiles) {
    sizes.push_back(tile_memory_bytes(stages, variant.tile_columns));
    sizes.push_back(tile_list_bytes(stages, variant.tile_columns));
  }
  if (uses_two_streams(stages, variant) && !device(ranks_.front()).second_gemm) sizes.push_back(kGemmScratchBytes);
  return sizes;
}

Result<void> CudaCommunicator::check_free_memory(std::span<const std::int64_t> sizes_per_rank) {
  std::int64_t needed_bytes = 0;
  for (const std::int64_t size : sizes_per_rank) needed_bytes += DevicePool::block_bytes(size);
  for (const LocalRank& rank : local_ranks_)
    MC2_TRY(check_memory(rank, needed_bytes, device(rank.number).pool->reusable_bytes(sizes_per_rank)));
  return {};
}

void CudaCommunicator::run_while_connecting(const std::function<void(int)>& work) {
  std::optional<AfterDeadline> guard;
  if (crosses_hosts()) { // NCCL connects ranks at their first exchange and waits without limit
    guard.emplace(options_.deadline, [this] {
      fail(
          "did not end within the deadline; where NCCL cannot connect the hosts, NCCL_SOCKET_IFNAME and NCCL_IB_HCA "
          "name the networks that it may use");
    });
  }
  run(work);
}

void CudaCommunicator::run(const std::function<void(int)>& work) {
  together([&] {
    try {
      workers_.run(work, [this] { abort(); });
    } catch (...) {
      settle();
      throw;
    }
  });
}

Result<void> CudaCommunicator::attempt(const std::function<void(int)>& work) {
  std::vector<std::string> failures(ranks_.size());
  const auto tried = [&]() -> Result<void> {
    workers_.run([&](int rank) {
      try {
        work(rank);
      } catch (const SystemError& error) {
        failures[local_index(rank)] = error.what();
        (void)cudaGetLastError(); // clears the error, which has nothing to do with this thread's next launch
      }
    });
    for (const int rank : ranks_) {
      const std::string& failure = failures[local_index(rank)];
      if (!failure.empty()) return Error{ErrorCode::Unsupported, group_ ? "prepare" : rank_text(rank), failure};
    }
    return {};
  };
  return share_error(together(tried));
}

void CudaCommunicator::fail(const std::string& why) noexcept {
  if (!failure_) failure_ = why;
  if (group_) group_->fail(why);
  abort();
}

void CudaCommunicator::settle() noexcept {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds{1}; // aborted kernels end within milliseconds
  for (const int rank : ranks_) {
    const OnDevice on_device(device_number(rank));
    const RankDevice& own = device(rank);
    for (const Stream* stream : {&own.compute, &own.second_compute, &own.communication, &own.announcements}) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      if (!*stream || cudaStreamIsCapturing(stream->get(), &status) != cudaSuccess ||
          status != cudaStreamCaptureStatusNone)
        continue;
      while (cudaStreamQuery(stream->get()) == cudaErrorNotReady && Clock::now() < end)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    (void)cudaGetLastError(); // the failure has been reported already
  }
}

/// Ends NCCL's kernels at once. NCCL's communicators are destroyed in the background, since that waits for graphs of
/// plans that the caller destroys only after it has got the error.
void CudaCommunicator::abort() noexcept {
  if (abort_word_) abort_word_->set(1);
  close_nccl();
}

void CudaCommunicator::close_nccl() noexcept {
  std::vector<NcclCommunicator> taken;
  {
    const std::lock_guard lock(nccl_mutex_);
    for (auto& [settings, communicators] : nccl_)
      for (NcclCommunicator& communicator : communicators)
        if (communicator) taken.push_back(std::exchange(communicator, {}));
  }
  for (NcclCommunicator& communicator : taken) closing_.start(std::move(communicator));
}

bool CudaCommunicator::is_in_capture(int rank) {
  const OnDevice on_device(device_number(rank));
  return capture_status(device(rank).compute.get()) != cudaStreamCaptureStatusNone;
}

void CudaCommunicator::wait(int rank, cudaStream_t stream) const {
  wait_until(rank, "cudaStreamQuery", [stream] { return cudaStreamQuery(stream); });
}

void CudaCommunicator::wait(int rank, const Event& event) const {
  wait_until(rank, "cudaEventQuery", [&event] { return cudaEventQuery(event.get()); });
}

void CudaCommunicator::wait_until(int rank, const char* call, const std::function<cudaError_t()>& query) const {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto deadline = start + options_.deadline;
  constexpr std::chrono::milliseconds kSpin{5}; // most runs end sooner, and a sleep would cost more than it saves
  constexpr std::chrono::milliseconds kBetweenLooks{20}; // between looks at the other processes
  constexpr std::chrono::seconds kWithoutPeers{1};
  auto next_look = start + kBetweenLooks;
  auto last_with_all = start;
  for (;;) {
    const cudaError_t code = query();
    if (code == cudaSuccess) return;
    if (code != cudaErrorNotReady) check(code, call, rank);
    const auto now = Clock::now();
    if (now > deadline) {
      throw SystemError(
          "run", ETIMEDOUT,
          rank_text(rank) + " did not finish within " + std::to_string(options_.deadline.count()) + " ms");
    }
    if (group_ && now > next_look) {
      if (const auto failure = group_->failure()) throw SystemError("run", ECANCELED, *failure);
      const auto departure = group_->departure();
      if (!departure) last_with_all = now;
      // A process that leaves has waited for its runs, so all ranks have met in them and what is left of them is short.
      if (now - last_with_all > kWithoutPeers) throw SystemError("run", ECANCELED, *departure);
      next_look = now + kBetweenLooks;
    }
    if (now - start > kSpin) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

} // namespace mc2::executor::cuda
