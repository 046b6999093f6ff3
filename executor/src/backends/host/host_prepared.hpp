#pragma once

#include <memory>
#include <vector>

#include "backends/host/host_communicator.hpp"
#include "backends/host/mechanisms/variants.hpp"
#include "lanes/lane_prepared.hpp"
#include "lanes/symmetric_heap.hpp"

namespace mc2::executor::host {

/// A stage list bound to the buffers of all ranks. A symmetric heap holds what passes between the lanes. In kinds that
/// compute first each communication lane reads every rank's product there and writes its own C. In kinds that
/// communicate first it reads the other ranks' A and writes the rows of A that its own rank multiplies to the heap, or
/// to the caller's gathered_a if there is one.
class HostPrepared final : public lanes::LanePrepared {
 public:
  /// The arguments have been checked; `communicator` and the buffers outlive *this. Throws SystemError.
  HostPrepared(HostCommunicator& communicator, const StageList& stages, const HostVariant& variant,
               std::span<const RankBuffers> buffers, const PrepareOptions& options);

  using Prepared::run;
  const RunRecord& run(RunMode mode, RunDetail detail) override;
  [[nodiscard]] std::span<const std::span<const std::byte>> intermediates() const noexcept override {
    return intermediates_;
  }

 private:
  void allocate(std::span<const RankBuffers> buffers, bool allow_independent);
  void build(int rank);
  [[nodiscard]] lanes::ExchangeTimes exchange(const lanes::BlockExchange& block) override;
  void begin_stage(int rank, planner::Lane lane, std::size_t stage) override;
  void fail(int rank, planner::Lane lane) noexcept override;

  HostCommunicator& communicator_;
  std::unique_ptr<Transport> mechanism_; ///< null when the communicator's transport carries the blocks
  Transport& transport_;
  std::unique_ptr<lanes::SymmetricHeap> heap_;
  std::vector<std::vector<std::byte>> staging_; ///< by rank
  std::vector<std::span<const std::byte>> intermediates_;
};

} // namespace mc2::executor::host
