#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lanes/gemm.hpp"
#include "lanes/run_control.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::lanes {

/// One matmul: contiguous rows of A times contiguous columns of B give a dense product [shape.rows, shape.columns].
/// Where bags are pooled there is no A, and rows of the product are samples. Where rows choose experts, shape.rows
/// counts tokens, and either A or the product has top_k rows for each.
struct MatmulRun {
  const std::byte* a = nullptr;
  std::byte* product = nullptr;
  GemmShape shape = {};
  std::int64_t first_row = 0;          ///< number of the first row in the whole product
  const std::byte* residual = nullptr; ///< shaped as the product; null if the matmul adds none
  const std::byte* a_scale = nullptr;  ///< i8: the f32 scale of these rows of A
  int expert = 0;                      ///< the rank's expert whose B is used
};

/// The matmuls of one stage, or of the local part.
struct MatmulWork {
  std::vector<MatmulRun> runs;
  double flop_count = 0; ///< total of all runs
};

/// The shapes of all runs, by expert.
using ExpertShapes = std::vector<std::vector<GemmShape>>;
/// The shapes of the runs of a rank with `expert_count` experts.
[[nodiscard]] ExpertShapes shapes_of(std::int64_t expert_count, const MatmulWork& local,
                                     std::span<const MatmulWork> stages);

/// When one block occupied the compute lane.
struct ComputeTimes {
  Clock::time_point start;
  Clock::time_point end;
};

/// Does the work of one rank's compute lane. Only the lane's thread uses it; begin_run() is called while that thread
/// sleeps.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  virtual void begin_run(Clock::time_point /*start*/) noexcept {}
  /// Computes the products of `work`. Its rows of A became ready at `ready`. Throws RunAborted, and SystemError naming
  /// the rank.
  virtual ComputeTimes multiply(const MatmulWork& work, Clock::time_point ready, const RunControl& control) = 0;
};

/// A device that pools embedding bags on the lane's own thread. Sums are made in f32 in the order of the bag. Every run
/// reads the buffers; an illegal bag fails the run.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_pooling_device(const planner::OpSpec& op, int rank,
                                                                 const RankBuffers& buffers);

/// A device that multiplies each row of A by the matrices of its chosen experts, expert after expert. It gathers up to
/// 256 rows at once, multiplies them with oneDNN, and scatters the products or adds them up, weighted, in f32. Every
/// run reads the choices; an illegal choice fails the run. Throws SystemError.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_grouped_device(const planner::OpSpec& op, int rank,
                                                                 const RankBuffers& buffers);
/// The bytes that a grouped device allocates in addition to the packed copies of B.
[[nodiscard]] std::int64_t grouped_scratch_bytes(const planner::OpSpec& op) noexcept;

/// The device for an operator on a rank with these buffers: one of those above, or one that multiplies with oneDNN,
/// which reads B only in this call. `shapes` must have the shapes of all later runs. Call it on the compute lane's
/// thread. Throws SystemError.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_device(const planner::OpSpec& op, int rank,
                                                         const RankBuffers& buffers, const ExpertShapes& shapes);

} // namespace mc2::executor::lanes
