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

/// Neighbouring rows of A times neighbouring columns of B make a dense product [shape.rows, shape.columns]. Where
/// bags are pooled there is no A, and rows of the product are samples. Rows that choose experts are tokens: A or the
/// product has top_k rows for each.
struct MatmulRun {
  const std::byte* a = nullptr;
  std::byte* product = nullptr;
  GemmShape shape = {};
  std::int64_t first_row = 0;          ///< of the product
  const std::byte* residual = nullptr; ///< of the product's shape, where the matmul adds it
  const std::byte* a_scale = nullptr;  ///< i8: the f32 scale of these rows of A
  int expert = 0;                      ///< whose B it is, of those that the rank has
};

/// What one stage, or the local part, computes.
struct MatmulWork {
  std::vector<MatmulRun> runs;
  double flop_count = 0; ///< of all runs together
};

/// The shapes of all runs, by expert.
using ExpertShapes = std::vector<std::vector<GemmShape>>;
/// Those of the runs that a rank with so many experts is given.
[[nodiscard]] ExpertShapes shapes_of(std::int64_t expert_count, const MatmulWork& local,
                                     std::span<const MatmulWork> stages);

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
  /// Completes the product of `work`, whose rows of A were there at `ready`. Throws RunAborted, and SystemError
  /// naming the rank.
  virtual ComputeTimes multiply(const MatmulWork& work, Clock::time_point ready, const RunControl& control) = 0;
};

/// Pools embedding bags on the lane's own thread, each sum in f32 in the order of the bag. The buffers are read by
/// every run. A bag that is no longer legal fails the run.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_pooling_device(const planner::OpSpec& op, int rank,
                                                                 const RankBuffers& buffers);

/// Multiplies each row of A by the matrices of the experts that it chose, expert after expert: rows are gathered, up to
/// 256 at once, multiplied with oneDNN, and scattered, or weighted and added up in f32. Choices are read by every run;
/// one that is no longer legal fails it. Throws SystemError.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_grouped_device(const planner::OpSpec& op, int rank,
                                                                 const RankBuffers& buffers);
/// Bytes that it keeps beside the packed copies of B.
[[nodiscard]] std::int64_t grouped_scratch_bytes(const planner::OpSpec& op) noexcept;

/// What an operator needs, of a rank that holds `buffers`: one of those above, or one that multiplies with oneDNN. That
/// reads B only here; `shapes` are those of all runs that will be asked for. Build it on the compute lane's thread.
/// Throws SystemError.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_device(const planner::OpSpec& op, int rank,
                                                         const RankBuffers& buffers, const ExpertShapes& shapes);

} // namespace mc2::executor::lanes
