// Times the library's matmul, as mc2 calls it, over a grid of shapes on one GPU: data/gpu/matmuls_h100.csv, to which
// matmul_rates.py fits the rates of planner/src/gpu_matmul.cpp.
//   mc2-matmul-grid ROUNDS > FILE
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <random>
#include <vector>

#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/runtime/gemm.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::executor::cuda {
namespace {

/// n and k of layers of public models, and others between them; the rates are fitted to the first 40.
constexpr std::array<std::array<std::int64_t, 2>, 60> kWeights{
    {{1024, 4096},  {1536, 8960},  {2048, 2048},  {2560, 4096},  {3072, 3072},  {4096, 1024},  {4096, 4096},
     {4096, 5504},  {4096, 14336}, {5120, 3584},  {5120, 5120},  {5504, 4096},  {6144, 4096},  {6144, 12288},
     {7168, 2048},  {7168, 8192},  {8192, 1024},  {8192, 4096},  {8192, 8192},  {8192, 14336}, {8960, 1536},
     {10240, 8192}, {11008, 4096}, {12288, 3072}, {13824, 5120}, {14336, 4096}, {14336, 8192}, {16384, 6144},
     {18432, 7168}, {28672, 4096}, {3584, 9472},  {9472, 3584},  {4608, 18432}, {2304, 7168},  {1792, 14336},
     {3456, 5120},  {1280, 8192},  {7168, 16384}, {24576, 1536}, {2816, 2816},  {1408, 2048},  {2048, 5632},
     {3200, 8640},  {6656, 6656},  {17920, 6656}, {5376, 21504}, {4480, 7680},  {8704, 2176},  {12800, 5120},
     {2688, 3840},  {20480, 5120}, {5120, 27648}, {1664, 6656},  {9216, 9216},  {7680, 7680},  {22016, 4096},
     {3840, 11264}, {6400, 3200},  {11520, 2560}, {15360, 8960}}};
constexpr std::array<std::int64_t, 28> kRows{16,   24,   48,   64,   80,   100,  128,  160,  192,  256,
                                             320,  384,  448,  512,  640,  768,  896,  1000, 1024, 1280,
                                             1536, 1800, 2048, 2560, 3072, 4096, 6144, 8192};
/// What a matmul may count on; 0 for all SMs. Fewer at some rows only.
constexpr std::array kSmCounts{0, 116, 100};
constexpr std::array<std::int64_t, 3> kRowsOnFewerSms{512, 1280, 4096};
constexpr std::size_t kMatrixBytes = std::size_t{512} << 20U; ///< of the largest
constexpr int kTimedAtOnce = 8;

struct Timed {
  GemmShape shape;
  GraphExec matmuls; ///< kTimedAtOnce, one after the other
  std::vector<double> us;
};

/// Random numbers: the power that multiplying takes depends on the bits.
void fill(DeviceMemory& matrix) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::byte> bits(matrix.bytes().size());
  for (std::size_t i = 0; i + 1 < bits.size(); i += 2) {
    const auto word = __builtin_bit_cast(std::uint32_t, normal(random));
    bits[i] = static_cast<std::byte>(word >> 16U);
    bits[i + 1] = static_cast<std::byte>(word >> 24U);
  }
  matrix.upload(bits);
}

/// As one graph: the short ones take less time than their launches.
GraphExec capture(const Gemm& gemm, cudaStream_t stream) {
  gemm.enqueue(stream);
  StreamCapture capture(stream);
  for (int i = 0; i < kTimedAtOnce; ++i) gemm.enqueue(stream);
  return instantiate(capture.end());
}

std::vector<Timed> prepare(GemmContext& context, const GemmOperands& operands, cudaStream_t stream) {
  std::vector<Timed> all;
  for (const auto& [n, k] : kWeights)
    for (const std::int64_t rows : kRows)
      for (const int sm_count : kSmCounts) {
        if (sm_count != 0 && std::ranges::find(kRowsOnFewerSms, rows) == kRowsOnFewerSms.end()) continue;
        const GemmShape shape{.rows = rows, .n = n, .k = k, .sm_count = sm_count};
        all.push_back({shape, capture(Gemm(context, shape, operands), stream), {}});
      }
  return all;
}

double time_us(const GraphExec& matmuls, cudaStream_t stream, cudaEvent_t start, cudaEvent_t end) {
  MC2_CUDA(cudaGraphLaunch(matmuls.get(), stream)); // warms up
  MC2_CUDA(cudaEventRecord(start, stream));
  MC2_CUDA(cudaGraphLaunch(matmuls.get(), stream));
  MC2_CUDA(cudaEventRecord(end, stream));
  MC2_CUDA(cudaEventSynchronize(end));
  float ms = 0;
  MC2_CUDA(cudaEventElapsedTime(&ms, start, end));
  return ms * 1000.0 / kTimedAtOnce;
}

void run(int round_count) {
  DevicePool pool(0, DevicePool::Source::Cuda);
  GemmContext context(pool);
  DeviceMemory a(pool, kMatrixBytes), b(pool, kMatrixBytes), c(pool, kMatrixBytes);
  fill(a);
  fill(b);
  const Stream stream = make_stream(false);
  const Event start = make_event(true), end = make_event(true);
  auto all = prepare(context, {a.bytes().data(), b.bytes().data(), c.bytes().data()}, stream.get());
  std::vector<Timed*> order;
  for (auto& one : all) order.push_back(&one);
  std::mt19937 random(7);
  for (int round = 0; round <= round_count; ++round) { // the first warms up
    std::shuffle(order.begin(), order.end(), random);
    for (Timed* one : order) {
      const double us = time_us(one->matmuls, stream.get(), start.get(), end.get());
      if (round > 0) one->us.push_back(us);
    }
  }
  std::puts("m,n,k,sm_count,median_us,low_us,high_us");
  for (const auto& [shape, matmuls, us] : all)
    std::printf("%ld,%ld,%ld,%d,%.2f,%.2f,%.2f\n", static_cast<long>(shape.rows), static_cast<long>(shape.n),
                static_cast<long>(shape.k), shape.sm_count, profiler::quantile(us, 0.5), profiler::quantile(us, 0.25),
                profiler::quantile(us, 0.75));
}

} // namespace
} // namespace mc2::executor::cuda

int main(int argc, char** argv) {
  const int round_count = argc == 2 ? std::atoi(argv[1]) : 0;
  if (round_count < 1 || round_count > 1000) {
    std::fputs("usage: mc2-matmul-grid ROUNDS (1 to 1000; 15 take three minutes)\n", stderr);
    return 2;
  }
  try {
    mc2::executor::cuda::run(round_count);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mc2-matmul-grid: %s\n", error.what());
    return 1;
  }
  return 0;
}
