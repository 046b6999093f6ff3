// A C interface to mc2's grouped matmuls for programs that compare them with others: torch_grouped_matmul.py and
// torch_chosen_matmul.py.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "backends/cuda/runtime/device_pool.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "backends/cuda/tiles/chosen_matmul.hpp"
#include "expert_runs.hpp"

using namespace mc2::executor::cuda;

namespace {

struct Bound {
  GroupedMatmul matmul;
  std::unique_ptr<DeviceMemory> memory;
};

DevicePool& pool() {
  static DevicePool of_device(0, DevicePool::Source::Cuda);
  return of_device;
}

struct Chosen {
  ChosenMatmul matmul;
  std::unique_ptr<DeviceMemory> tiles{}, scratch{};
  std::unique_ptr<ChoiceSorter> sorter{};
  mc2::executor::ExpertChoices choices{};
};

} // namespace

extern "C" {

struct GroupedArguments {
  const std::int64_t* rows; ///< number of rows of each expert
  std::int64_t expert_count, n, k;
  int b_is_transposed;
  const void *a, *b;
  void* c;
};

/// Makes a matmul of bf16 on device 0, which is never freed. Ends the process where a call fails.
__attribute__((visibility("default"))) void* mc2_make_grouped(const GroupedArguments* arguments) {
  const auto expert_count = static_cast<int>(arguments->expert_count);
  const auto runs = mc2::bench::runs_of(std::span(arguments->rows, static_cast<std::size_t>(expert_count)));
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
  bound->memory = upload_tiles(all, pool());
  bound->matmul.set_operands({.a = static_cast<const std::byte*>(arguments->a),
                              .b = static_cast<const std::byte*>(arguments->b),
                              .c = static_cast<std::byte*>(arguments->c)});
  return bound.release();
}

__attribute__((visibility("default"))) void mc2_run_grouped(const void* bound, void* stream) {
  static_cast<const Bound*>(bound)->matmul.enqueue(static_cast<cudaStream_t>(stream));
}

struct ChosenArguments {
  std::int64_t token_count, top_k, expert_count, n, k;
  int b_is_transposed;
  int adds_up;         ///< not 0: sums the weighted products of a token, and A has a row for every choice
  const void* experts; ///< [token_count, top_k], integers of 64 bits
  const void* weights; ///< [token_count, top_k], f32
  const void *a, *b, *bias;
  void* c;
};

/// Makes a matmul of bf16 on device 0, which is never freed. Ends the process where a call fails.
__attribute__((visibility("default"))) void* mc2_make_chosen(const ChosenArguments* arguments) {
  const auto count = static_cast<std::int32_t>(arguments->token_count);
  const bool adds_up = arguments->adds_up != 0;
  ChosenTokens tokens{
      .run_count = 1, .token_count = count, .top_k = static_cast<std::int32_t>(arguments->top_k), .is_wide = adds_up};
  tokens.runs[0].token_count = count;
  const GroupedShape shape{.c_rows = arguments->token_count * arguments->top_k,
                           .n = arguments->n,
                           .k = arguments->k,
                           .expert_count = arguments->expert_count,
                           .b_is_transposed = arguments->b_is_transposed != 0,
                           .cta_count = sm_count()};
  const GemmOperands operands{.a = static_cast<const std::byte*>(arguments->a),
                              .b = static_cast<const std::byte*>(arguments->b),
                              .c = static_cast<std::byte*>(arguments->c),
                              .bias = static_cast<const std::byte*>(arguments->bias)};
  auto bound = std::make_unique<Chosen>(Chosen{.matmul = ChosenMatmul(shape, tokens, adds_up, operands)});
  GroupedMatmul* const grouped[] = {&bound->matmul.grouped()};
  bound->tiles = upload_tiles(grouped, pool());
  const std::int64_t bytes =
      ChosenMatmul::scratch_bytes(bound->matmul.row_count(), arguments->n, arguments->k, adds_up);
  bound->scratch = std::make_unique<DeviceMemory>(pool(), static_cast<std::size_t>(bytes));
  bound->matmul.set_scratch(bound->scratch->bytes().data());
  bound->matmul.set_weights(static_cast<const std::byte*>(arguments->weights));
  ChosenMatmul* const all[] = {&bound->matmul};
  bound->sorter = std::make_unique<ChoiceSorter>(
      all, 0, mc2::planner::ChosenExperts{arguments->expert_count, arguments->top_k}, pool());
  const auto numbers = static_cast<std::size_t>(arguments->token_count * arguments->top_k);
  bound->choices.experts = {static_cast<const std::byte*>(arguments->experts), numbers * sizeof(std::int64_t)};
  if (arguments->weights != nullptr)
    bound->choices.weights = {static_cast<const std::byte*>(arguments->weights), numbers * sizeof(float)};
  return bound.release();
}

__attribute__((visibility("default"))) void mc2_run_chosen(const void* bound, void* stream) {
  const auto& chosen = *static_cast<const Chosen*>(bound);
  chosen.sorter->enqueue(chosen.choices, static_cast<cudaStream_t>(stream));
  chosen.matmul.enqueue(static_cast<cudaStream_t>(stream));
}

/// 0 when all choices of the runs that have ended were legal; else 1, with the fault in `text`.
__attribute__((visibility("default"))) int mc2_chosen_fault(const void* bound, char* text, std::size_t size) {
  try {
    static_cast<const Chosen*>(bound)->sorter->require_legal();
    return 0;
  } catch (const std::exception& error) {
    std::snprintf(text, size, "%s", error.what());
    return 1;
  }
}
}
