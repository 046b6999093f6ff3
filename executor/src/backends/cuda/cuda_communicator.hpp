#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/device_pool.hpp"
#include "backends/cuda/gemm.hpp"
#include "backends/cuda/handles.hpp"
#include "backends/cuda/rank_workers.hpp"
#include "backends/cuda/transport.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::cuda {

/// What a rank's runs share: rank r works on device r.
struct RankDevice {
  std::unique_ptr<DevicePool> pool; ///< first: what follows lies in it
  Stream compute;
  Stream second_compute; ///< of plans whose matmuls take turns on two streams
  Stream communication; ///< urgent: a collective holds up all ranks, a matmul only its own
  Stream announcements; ///< of blocks, to kernels that wait for them
  std::unique_ptr<GemmContext> gemm;
  std::unique_ptr<GemmContext> second_gemm; ///< for second_compute, opened when first needed
  std::unique_ptr<DeviceMemory> signals;
  std::unique_ptr<DeviceMemory> mail;
};

/// All ranks of a world in this process, one thread and one GPU each.
class CudaCommunicator final : public Communicator {
 public:
  /// Options are valid and the devices are there. Throws SystemError.
  CudaCommunicator(const CommunicatorOptions& options, planner::Fingerprint fingerprint);
  ~CudaCommunicator() override;

  [[nodiscard]] int world_size() const noexcept override { return options_.world_size; }
  [[nodiscard]] std::span<const int> local_ranks() const noexcept override { return ranks_; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept override { return fingerprint_; }
  [[nodiscard]] bool uses_host_memory() const noexcept override { return false; }
  [[nodiscard]] std::unique_ptr<RankMemory> allocate(int rank, std::size_t byte_count) override;
  [[nodiscard]] planner::Result<std::unique_ptr<Prepared>> prepare(const StageList& stages,
                                                                   const planner::Variant& variant,
                                                                   std::span<const RankBuffers> buffers,
                                                                   const PrepareOptions& options) override;

  [[nodiscard]] RankDevice& device(int rank) noexcept { return devices_[static_cast<std::size_t>(rank)]; }
  /// Called on the rank's own thread.
  [[nodiscard]] GemmContext& second_gemm(int rank);
  [[nodiscard]] SignalMemory signals_of(int rank) const noexcept;
  [[nodiscard]] std::unique_ptr<Transport> make_transport(const planner::OpSpec& op, const CudaVariant& variant);

  /// Runs `work(rank)` on every rank's thread. The first failure stops every waiting kernel, and every later call
  /// throws. Throws SystemError.
  void run(const std::function<void(int)>& work);
  /// Waits until `rank`'s `stream` is idle. Throws SystemError naming the rank after the deadline.
  void wait(int rank, cudaStream_t stream) const;

 private:
  void open_device(int rank);
  void abort() noexcept;
  /// What an NCCL communicator is opened with.
  struct NcclSettings {
    int cta_count = 0; ///< 0: NCCL's choice
    bool takes_no_sm = false;
    auto operator<=>(const NcclSettings&) const = default;
  };

  /// By rank: the caller's where it need not be opened specially, else our own, opened when first needed.
  [[nodiscard]] std::vector<ncclComm_t> nccl(const CudaVariant& variant);
  [[nodiscard]] static NcclCommunicator open_nccl(const ncclUniqueId& id, int rank, int world_size,
                                                  const NcclSettings& settings);
  /// Errors: Unsupported when a rank's device and pool have less to give.
  [[nodiscard]] planner::Result<void> check_free_memory(std::int64_t bytes_per_rank);

  CommunicatorOptions options_;
  planner::Fingerprint fingerprint_;
  std::vector<int> ranks_;
  RankWorkers workers_;
  MappedWord abort_word_;
  std::vector<RankDevice> devices_;                   ///< by rank
  std::vector<SignalMemory> signals_;                 ///< by rank
  std::map<NcclSettings, std::vector<NcclCommunicator>> nccl_; ///< by settings, then by rank
  std::optional<std::string> failure_;
};

} // namespace mc2::executor::cuda
