#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backends/host/run_control.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/executor/buffer.hpp"
#include "mc2/executor/stage.hpp"

namespace mc2::executor::host {

/// When one block occupied the compute lane.
struct ComputeTimes {
  Clock::time_point start;
  Clock::time_point end;
};

/// What one rank's compute lane works with. Used by that lane's thread only, begin_run() while it sleeps.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  virtual void begin_run(Clock::time_point /*start*/) noexcept {}
  /// Completes the stage's rows of the partial product. Throws RunAborted, and SystemError naming the rank.
  virtual ComputeTimes run_stage(const Stage& stage, const RunControl& control) = 0;
};

/// Multiplies with oneDNN. Build it on the compute lane's thread. `buffers.a` is read by every stage, `buffers.b`
/// only here. Throws SystemError.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_matmul_device(const StageList& list, int rank,
                                                                const RankBuffers& buffers,
                                                                std::span<std::byte> partial);

/// Sleeps for the modelled time on an absolute schedule that starts with the run: a stage ends at the end of the one
/// before it plus its modelled time, however late the lane wakes up. Leaves the partial product alone.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_virtual_device(const planner::OpSpec& op, int rank,
                                                                 const VirtualCompute& model);

} // namespace mc2::executor::host
