#include <vector>

#include "backends/host/compute_device.hpp"
#include "backends/host/gemm.hpp"

namespace mc2::executor::host {
namespace {

std::vector<std::int64_t> lengths_of(const StageList& list) {
  std::vector<std::int64_t> lengths;
  lengths.reserve(list.stages.size());
  for (const Stage& stage : list.stages) lengths.push_back(stage.row_count);
  return lengths;
}

class MatmulDevice final : public ComputeDevice {
 public:
  MatmulDevice(const StageList& list, int rank, const RankBuffers& buffers, std::span<std::byte> partial)
      : gemm_(list.op, rank, buffers.b, lengths_of(list)),
        a_(buffers.a.data()),
        partial_(partial.data()),
        a_row_bytes_(list.op.k * planner::size_bytes(list.op.dtype)),
        product_row_bytes_(list.op.n * planner::size_bytes(list.op.dtype)) {}

  ComputeTimes run_stage(const Stage& stage, const RunControl& control) override {
    control.throw_if_aborted();
    const auto start = Clock::now();
    gemm_.multiply(a_ + stage.first_row * a_row_bytes_, partial_ + stage.first_row * product_row_bytes_,
                   stage.row_count);
    return {start, Clock::now()};
  }

 private:
  Gemm gemm_;
  const std::byte* a_;
  std::byte* partial_;
  std::int64_t a_row_bytes_;
  std::int64_t product_row_bytes_;
};

} // namespace

std::unique_ptr<ComputeDevice> make_matmul_device(const StageList& list, int rank, const RankBuffers& buffers,
                                                  std::span<std::byte> partial) {
  return std::make_unique<MatmulDevice>(list, rank, buffers, partial);
}

} // namespace mc2::executor::host
