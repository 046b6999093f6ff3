#include "lanes/block_layout.hpp"
#include "lanes/compute_device.hpp"
#include "lanes/gemm.hpp"

namespace mc2::executor::lanes {
namespace {

class MatmulDevice final : public ComputeDevice {
 public:
  MatmulDevice(const planner::OpSpec& op, int rank, const GemmWeights& weights, std::span<const GemmShape> shapes)
      : gemm_(op, rank, weights, shapes) {}

  ComputeTimes multiply(const MatmulWork& work, Clock::time_point /*ready*/, const RunControl& control) override {
    control.throw_if_aborted();
    const auto start = Clock::now();
    for (const MatmulRun& run : work.runs) gemm_.multiply({run.a, run.product, run.residual, run.a_scale}, run.shape);
    return {start, Clock::now()};
  }

 private:
  Gemm gemm_;
};

} // namespace

std::vector<GemmShape> shapes_of(const MatmulWork& local, std::span<const MatmulWork> stages) {
  std::vector<GemmShape> shapes;
  for (const MatmulRun& run : local.runs) shapes.push_back(run.shape);
  for (const MatmulWork& work : stages) {
    for (const MatmulRun& run : work.runs) shapes.push_back(run.shape);
  }
  return shapes;
}

std::unique_ptr<ComputeDevice> make_matmul_device(const planner::OpSpec& op, int rank, const GemmWeights& weights,
                                                  std::span<const GemmShape> shapes) {
  return std::make_unique<MatmulDevice>(op, rank, weights, shapes);
}

std::unique_ptr<ComputeDevice> make_device(const planner::OpSpec& op, int rank, const RankBuffers& buffers,
                                           std::span<const GemmShape> shapes) {
  if (op.tables) return make_pooling_device(op, rank, buffers);
  return make_matmul_device(op, rank, gemm_weights(op, buffers), shapes);
}

} // namespace mc2::executor::lanes
