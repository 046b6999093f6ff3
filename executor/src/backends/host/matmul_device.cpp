#include "backends/host/compute_device.hpp"
#include "backends/host/gemm.hpp"

namespace mc2::executor::host {
namespace {

class MatmulDevice final : public ComputeDevice {
 public:
  MatmulDevice(const planner::OpSpec& op, int rank, std::span<const std::byte> b,
               std::span<const std::int64_t> run_lengths)
      : gemm_(op, rank, b, run_lengths) {}

  ComputeTimes multiply(const MatmulWork& work, Clock::time_point /*ready*/, const RunControl& control) override {
    control.throw_if_aborted();
    const auto start = Clock::now();
    for (const MatmulRun& run : work.runs) gemm_.multiply(run.a, run.product, run.rows);
    return {start, Clock::now()};
  }

 private:
  Gemm gemm_;
};

} // namespace

std::unique_ptr<ComputeDevice> make_matmul_device(const planner::OpSpec& op, int rank, std::span<const std::byte> b,
                                                  std::span<const std::int64_t> run_lengths) {
  return std::make_unique<MatmulDevice>(op, rank, b, run_lengths);
}

} // namespace mc2::executor::host
