// mc2's grouped matmul by itself, for a program that times it beside others: torch_grouped_matmul.py.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cuda/runtime/device_pool.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "backends/cuda/tiles/grouped_matmul.hpp"

using namespace mc2::executor::cuda;

namespace {

struct Bound {
  GroupedMatmul matmul;
  std::unique_ptr<DeviceMemory> memory;
};

std::vector<ExpertRun> runs_of(const std::int64_t* rows, int expert_count) {
  std::vector<ExpertRun> runs;
  std::int64_t first = 0;
  for (int expert = 0; expert < expert_count; first += rows[expert++])
    if (rows[expert] > 0) runs.push_back({expert, {first, first, rows[expert]}});
  return runs;
}

} // namespace

extern "C" {

struct GroupedArguments {
  const std::int64_t* rows; ///< of each expert
  std::int64_t expert_count, n, k;
  int b_is_transposed;
  const void *a, *b;
  void* c;
};

/// Of bf16 on device 0, for ever. Ends the process where a call fails.
__attribute__((visibility("default"))) void* mc2_make_grouped(const GroupedArguments* arguments) {
  static DevicePool pool(0, DevicePool::Source::Cuda);
  const auto expert_count = static_cast<int>(arguments->expert_count);
  const auto runs = runs_of(arguments->rows, expert_count);
  const std::int64_t row_count = runs.empty() ? 0 : runs.back().rows.from_row + runs.back().rows.row_count;
  const GroupedShape shape{.a_rows = row_count,
                           .c_rows = row_count,
                           .n = arguments->n,
                           .k = arguments->k,
                           .expert_count = expert_count,
                           .b_is_transposed = arguments->b_is_transposed != 0,
                           .cta_count = sm_count()};
  auto bound = std::make_unique<Bound>(Bound{GroupedMatmul(shape, runs), nullptr});
  GroupedMatmul* const all[] = {&bound->matmul};
  bound->memory = upload_tiles(all, pool);
  bound->matmul.set_operands({.a = static_cast<const std::byte*>(arguments->a),
                              .b = static_cast<const std::byte*>(arguments->b),
                              .c = static_cast<std::byte*>(arguments->c)});
  return bound.release();
}

__attribute__((visibility("default"))) void mc2_run_grouped(const void* bound, void* stream) {
  static_cast<const Bound*>(bound)->matmul.enqueue(static_cast<cudaStream_t>(stream));
}
}
