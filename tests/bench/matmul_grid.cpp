// Times matmuls over a grid of shapes on one GPU: the library's, as mc2 calls it; every algorithm that the library
// offers for them ("offered"), also where B is stored as [n, k] ("transposed"); or mc2's own matmul of several experts
// ("grouped"). The results are matmuls_h100.csv, matmuls_h200.csv, library_matmuls_h200.csv,
// library_matmuls_transposed_h200.csv and grouped_matmuls_h200.csv in data/gpu. matmul_rates.py reads them and fits the
// rates of planner/src/gpu_matmul.cpp to what is "offered" and "grouped".
//   mc2-matmul-grid ROUNDS [offered | transposed | grouped] > FILE
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/runtime/gemm.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "expert_runs.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::executor::cuda {
namespace {

/// n and k of layers of public models, and values between them. The rates are fitted to the first 40.
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
/// Numbers of SMs that a matmul may use; 0 for all. Fewer SMs are timed only with kRowsOnFewerSms.
constexpr std::array kSmCounts{0, 116, 100};
constexpr std::array<std::int64_t, 3> kRowsOnFewerSms{512, 1280, 4096};
/// Rows of each of kBatchCount products that one call multiplies by the same matrix, as for the shards of ranks.
constexpr std::array<std::int64_t, 5> kRowsOfBatches{64, 128, 256, 512, 1024};
constexpr int kBatchCount = 4;
constexpr std::size_t kMatrixBytes = std::size_t{512} << 20U; ///< bytes of the largest matrix
/// n and k of one expert in public models, whole or sharded. The rates are fitted to the first 24.
constexpr std::array<std::array<std::int64_t, 2>, 36> kExpertWeights{
    {{4096, 7168}, {7168, 2048}, {28672, 4096}, {4096, 14336}, {3072, 4096}, {4096, 1536}, {1536, 2048}, {2048, 768},
     {512, 7168},  {7168, 256},  {1024, 4096},  {4096, 512},   {768, 2048},  {2048, 384},  {1408, 2048}, {2048, 1408},
     {5632, 2048}, {3072, 5120}, {5120, 1536},  {14336, 4096}, {1792, 6144}, {6144, 896},  {8192, 3072}, {2560, 2560},
     {2048, 7168}, {7168, 1024}, {7168, 4096},  {4096, 3584},  {1536, 4096}, {2816, 2048}, {2048, 2816}, {384, 2048},
     {6144, 5120}, {5120, 768},  {3584, 6144},  {1280, 3200}}};
constexpr std::array<std::int64_t, 7> kExpertCounts{2, 4, 8, 16, 32, 64, 128};
constexpr std::array<std::int64_t, 12> kRowsPerExpert{1, 3, 10, 24, 60, 100, 130, 200, 256, 400, 700, 1500};
constexpr std::array kShares{"equal", "zipf", "random"};
constexpr std::size_t kExpertMatrixBytes = std::size_t{2} << 30U; ///< for all experts' matrices, and for the rows
constexpr double kMostFlops = 3e12;                               ///< takes about 5 ms
constexpr int kGroupedPerWeights = 30;
constexpr int kTimedAtOnce = 8;

struct Timed {
  std::string shape; ///< the shape's columns of the output
  GraphExec matmuls; ///< kTimedAtOnce, one after the other
  std::vector<double> us;
};

/// The timed matmuls, and the objects that matmuls of several experts need.
struct Grid {
  const char* columns;
  std::vector<Timed> timed{};
  std::vector<std::unique_ptr<GroupedMatmul>> grouped{};
  std::unique_ptr<DeviceMemory> tiles{};
};

/// Fills with random numbers, because the power that a multiplication takes depends on the bits.
void fill(DeviceMemory& matrix) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::byte> bits(matrix.bytes().size());
  const std::size_t drawn = std::min(bits.size(), std::size_t{64} << 20U); // more would take minutes
  for (std::size_t i = 0; i + 1 < drawn; i += 2) {
    const auto word = __builtin_bit_cast(std::uint32_t, normal(random));
    bits[i] = static_cast<std::byte>(word >> 16U);
    bits[i + 1] = static_cast<std::byte>(word >> 24U);
  }
  for (std::size_t i = drawn; i < bits.size(); ++i) bits[i] = bits[i - drawn];
  matrix.upload(bits);
}

GemmOperands operands_of(DeviceMemory& a, DeviceMemory& b, DeviceMemory& c) {
  return {a.bytes().data(), b.bytes().data(), c.bytes().data()};
}

/// Captures kTimedAtOnce matmuls as one graph, because a short matmul takes less time than its launch.
template <class Matmul>
GraphExec capture(const Matmul& matmul, cudaStream_t stream) {
  matmul.enqueue(stream);
  StreamCapture capture(stream);
  for (int i = 0; i < kTimedAtOnce; ++i) matmul.enqueue(stream);
  return instantiate(capture.end());
}

std::string columns(std::initializer_list<std::int64_t> numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

/// The shapes of the library's grids.
std::vector<GemmShape> library_shapes() {
  std::vector<GemmShape> shapes;
  for (const auto& [n, k] : kWeights) {
    for (const std::int64_t rows : kRows)
      for (const int sm_count : kSmCounts)
        if (sm_count == 0 || std::ranges::find(kRowsOnFewerSms, rows) != kRowsOnFewerSms.end())
          shapes.push_back({.rows = rows, .n = n, .k = k, .sm_count = sm_count});
    for (const std::int64_t rows : kRowsOfBatches)
      shapes.push_back(
          {.rows = rows, .n = n, .k = k, .batch_count = kBatchCount, .a_stride = rows * k, .c_stride = rows * n});
  }
  return shapes;
}

std::string columns_of(const GemmShape& shape) {
  return columns({shape.rows, shape.n, shape.k, shape.batch_count, shape.sm_count});
}

Grid library_grid(GemmContext& context, const GemmOperands& operands, cudaStream_t stream) {
  Grid grid{"m,n,k,batch,sm_count"};
  const planner::Fingerprint machine{{{"gpu_model", device_name()}, {"sm_count", std::to_string(sm_count())}}};
  for (const GemmShape& shape : library_shapes()) {
    const planner::MatmulCall call{shape.rows, shape.batch_count, shape.sm_count};
    const planner::OpSpec op{planner::OpKind::MatmulAllReduce, 4096, shape.n, shape.k, shape.dtype, 2};
    const Gemm matmul(context, shape, operands, [&](std::span<const planner::MatmulTile> offered) {
      return planner::choose_tile(machine, op, call, offered);
    });
    grid.timed.push_back({columns_of(shape), capture(matmul, stream), {}});
  }
  return grid;
}

/// Every algorithm that the library offers, its own choice first. Algorithms alike in tile and parts of k count once.
Grid offered_grid(GemmContext& context, const GemmOperands& operands, bool b_is_transposed, cudaStream_t stream) {
  Grid grid{"m,n,k,batch,sm_count,tile,k_parts"};
  for (GemmShape shape : library_shapes()) {
    shape.b_is_transposed = b_is_transposed;
    std::set<std::string> known;
    std::size_t offered_count = 1;
    for (std::size_t i = 0; i < offered_count; ++i) {
      std::string name;
      const Gemm matmul(context, shape, operands, [&](std::span<const planner::MatmulTile> offered) {
        offered_count = offered.size();
        const auto& [rows, tile_columns, k_parts] = offered[i];
        name = (rows == 0 ? "other" : std::to_string(tile_columns) + 'x' + std::to_string(rows)) + ',' +
               std::to_string(k_parts);
        return i;
      });
      if (i > 0 && (name.starts_with("other") || known.contains(name))) continue;
      known.insert(name);
      grid.timed.push_back({columns_of(shape) + ',' + name, capture(matmul, stream), {}});
    }
  }
  return grid;
}

/// Rows of each expert. "equal": the same number; "zipf": the e-th has 1/e of the first's rows; "random": by chance,
/// about a third of the experts without any.
std::vector<std::int64_t> shared_out(std::string_view share, std::int64_t experts, std::int64_t mean,
                                     std::mt19937& random) {
  std::vector<std::int64_t> rows;
  double harmonic = 0;
  for (std::int64_t expert = 1; expert <= experts; ++expert) harmonic += 1.0 / static_cast<double>(expert);
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const double of_first = static_cast<double>(mean * experts) / harmonic;
    if (share == "equal") rows.push_back(mean);
    if (share == "zipf") rows.push_back(std::llround(of_first / static_cast<double>(expert + 1)));
    if (share == "random") rows.push_back(random() % 3 == 0 ? 0 : 1 + static_cast<std::int64_t>(random()) % (3 * mean));
  }
  rows.front() = std::max<std::int64_t>(rows.front(), 1);
  std::shuffle(rows.begin(), rows.end(), random);
  return rows;
}

void add_grouped(Grid& grid, std::span<const std::int64_t> rows_of, const std::array<std::int64_t, 2>& weights,
                 const char* share) {
  const auto& [n, k] = weights;
  const auto runs = bench::runs_of(rows_of);
  std::int64_t row_count = 0, row_tiles = 0;
  for (const ExpertRun& run : runs) {
    row_count += run.rows.row_count;
    row_tiles += planner::ceil_div(run.rows.row_count, kTileRows);
  }
  const auto expert_count = static_cast<std::int64_t>(rows_of.size());
  grid.grouped.push_back(std::make_unique<GroupedMatmul>(GroupedShape{.a_rows = row_count,
                                                                      .c_rows = row_count,
                                                                      .n = n,
                                                                      .k = k,
                                                                      .expert_count = expert_count,
                                                                      .cta_count = sm_count()},
                                                         runs));
  const std::string numbers = columns({expert_count, std::ssize(runs), row_count, row_tiles, n, k});
  grid.timed.push_back({std::string(share) + ',' + numbers, GraphExec{}, {}});
}

Grid grouped_grid(const GemmOperands& operands, DevicePool& pool, cudaStream_t stream) {
  Grid grid{"rows_are,experts,experts_with_rows,rows,row_tiles,n,k"};
  std::mt19937 random(11);
  for (const auto& weights : kExpertWeights) {
    const std::int64_t elements = weights[0] * weights[1];
    std::set<std::string> known;
    for (int tries = 0; tries < 1000 && std::ssize(known) < kGroupedPerWeights; ++tries) {
      const std::int64_t experts = kExpertCounts[random() % kExpertCounts.size()];
      const std::int64_t mean = kRowsPerExpert[random() % kRowsPerExpert.size()];
      const char* share = kShares[random() % kShares.size()];
      const auto most_elements = static_cast<std::int64_t>(kExpertMatrixBytes / 2);
      const std::int64_t most_rows = 3 * mean * experts;
      if (experts * elements > most_elements || most_rows * std::max(weights[0], weights[1]) > most_elements) continue;
      if (2.0 * static_cast<double>(experts * mean * elements) > kMostFlops) continue;
      if (known.insert(share + columns({experts, mean})).second)
        add_grouped(grid, shared_out(share, experts, mean, random), weights, share);
    }
  }
  std::vector<GroupedMatmul*> all;
  for (const auto& matmul : grid.grouped) all.push_back(matmul.get());
  grid.tiles = upload_tiles(all, pool);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->set_operands(operands);
    grid.timed[i].matmuls = capture(*all[i], stream);
  }
  return grid;
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

void run(int round_count, std::string_view what) {
  const bool is_grouped = what == "grouped";
  DevicePool pool(0, DevicePool::Source::Cuda);
  GemmContext context(pool);
  const std::size_t bytes = is_grouped ? kExpertMatrixBytes : kMatrixBytes;
  DeviceMemory a(pool, bytes), b(pool, bytes), c(pool, bytes);
  fill(a);
  fill(b);
  const Stream stream = make_stream(false);
  const Event start = make_event(true), end = make_event(true);
  const GemmOperands operands = operands_of(a, b, c);
  auto grid = is_grouped     ? grouped_grid(operands, pool, stream.get())
              : what.empty() ? library_grid(context, operands, stream.get())
                             : offered_grid(context, operands, what == "transposed", stream.get());
  std::vector<Timed*> order;
  for (auto& one : grid.timed) order.push_back(&one);
  std::mt19937 random(7);
  for (int round = 0; round <= round_count; ++round) { // the first warms up
    std::shuffle(order.begin(), order.end(), random);
    for (Timed* one : order) {
      const double us = time_us(one->matmuls, stream.get(), start.get(), end.get());
      if (round > 0) one->us.push_back(us);
    }
  }
  std::printf("%s,median_us,low_us,high_us\n", grid.columns);
  for (const auto& [shape, matmuls, us] : grid.timed)
    std::printf("%s,%.2f,%.2f,%.2f\n", shape.c_str(), profiler::quantile(us, 0.5), profiler::quantile(us, 0.25),
                profiler::quantile(us, 0.75));
}

} // namespace
} // namespace mc2::executor::cuda

int main(int argc, char** argv) {
  const int round_count = argc >= 2 ? std::atoi(argv[1]) : 0;
  constexpr std::array<std::string_view, 3> kKinds{"offered", "transposed", "grouped"};
  const std::string_view what = argc == 3 ? argv[2] : "";
  const bool is_known = argc <= 2 || (argc == 3 && std::ranges::find(kKinds, what) != kKinds.end());
  if (round_count < 1 || round_count > 1000 || !is_known) {
    std::fputs("usage: mc2-matmul-grid ROUNDS [offered | transposed | grouped] (1 to 1000; 15 take three minutes)\n",
               stderr);
    return 2;
  }
  try {
    mc2::executor::cuda::run(round_count, what);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mc2-matmul-grid: %s\n", error.what());
    return 1;
  }
  return 0;
}
