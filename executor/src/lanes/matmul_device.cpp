#include "lanes/block_layout.hpp"
#include "lanes/compute_device.hpp"
#include "lanes/gemm.hpp"

namespace mc2::executor::lanes {
namespace {

class MatmulDevice final : public ComputeDevice {
 public:
  MatmulDevice(const planner::OpSpec& op, int rank, const RankBuffers& buffers, const ExpertShapes& shapes) {
    for (std::size_t expert = 0; expert < shapes.size(); ++expert)
      gemms_.push_back(std::make_unique<Gemm>(op, rank, gemm_weights(op, buffers, static_cast<int>(expert)),
                                              shapes[expert], gemms_.empty() ? nullptr : gemms_.front().get()));
  }

  ComputeTimes multiply(const MatmulWork& work, Clock::time_point /*ready*/, const RunControl& control) override {
    control.throw_if_aborted();
    const auto start = Clock::now();
    for (const MatmulRun& run : work.runs)
      gemms_[static_cast<std::size_t>(run.expert)]->multiply({run.a, run.product, run.residual, run.a_scale},
                                                             run.shape);
    return {start, Clock::now()};
  }

 private:
  std::vector<std::unique_ptr<Gemm>> gemms_; ///< by expert
};

} // namespace

ExpertShapes shapes_of(std::int64_t expert_count, const MatmulWork& local, std::span<const MatmulWork> stages) {
  ExpertShapes shapes(static_cast<std::size_t>(expert_count));
  const auto add = [&](const MatmulWork& work) {
    for (const MatmulRun& run : work.runs) shapes[static_cast<std::size_t>(run.expert)].push_back(run.shape);
  };
  add(local);
  for (const MatmulWork& work : stages) add(work);
  return shapes;
}

std::unique_ptr<ComputeDevice> make_device(const planner::OpSpec& op, int rank, const RankBuffers& buffers,
                                           const ExpertShapes& shapes) {
  if (op.tables) return make_pooling_device(op, rank, buffers);
  if (op.experts) return make_grouped_device(op, rank, buffers);
  return std::make_unique<MatmulDevice>(op, rank, buffers, shapes);
}

} // namespace mc2::executor::lanes
