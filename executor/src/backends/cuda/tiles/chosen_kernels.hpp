#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/tiles/grouped_kernel.hpp"

namespace mc2::executor::cuda {

/// Most experts for which the kernels sort choices.
inline constexpr int kMaxSortedExperts = 1024;

/// What is wrong with a choice. BeingTold is written first and replaced once the other words are there.
enum class ChoiceFault : std::uint32_t { None, Illegal, BeingTold };
/// The words of a fault: a ChoiceFault, the lower and upper half of the choice's place, those of its expert, and the
/// weight's bits.
inline constexpr std::size_t kChoiceFaultWords = 6;

/// ExpertChoices in memory of a rank's device.
struct DeviceChoices {
  const std::byte* experts = nullptr;
  const float* weights = nullptr; ///< null in kinds that do not sum
  int index_bytes = 8;            ///< bytes of an expert's number: 4 or 8
  int expert_count = 0;
  std::uint32_t* fault = nullptr; ///< kChoiceFaultWords that the host sees, too: the first illegal choice
};

/// Consecutive tokens, which are also consecutive in A and in the products.
struct TokenRun {
  std::int32_t first_token = 0;
  std::int32_t a_token = 0; ///< place of the first token in A, in tokens
  std::int32_t c_token = 0; ///< its place in the products, in tokens; products have a row for every choice
  std::int32_t token_count = 0;
};

/// The tokens of one matmul.
struct ChosenTokens {
  std::array<TokenRun, kMaxCudaRanks> runs{};
  int run_count = 0;
  std::int32_t token_count = 0; ///< tokens of all runs
  std::int32_t top_k = 1;
  bool is_wide = false; ///< A has a row for every choice; false: for every token
};

/// A list that sorting makes of the choices of some tokens; arrays are in memory of the device.
struct SortedChoices {
  ChosenTokens tokens{};
  ChosenRow* rows = nullptr;         ///< [token_count top_k], by expert; illegal choices come last
  std::int32_t* places = nullptr;    ///< by row of the products: its place in `rows`; null: not needed
  std::int32_t* row_count = nullptr; ///< number of legal choices
  GroupedTile* tiles = nullptr;
  std::int32_t* tile_count = nullptr;
  int tile_columns = 0;
  std::int32_t column_tiles = 0; ///< n counted in tiles
};

/// An array in memory of the device.
struct ChoiceLists {
  const SortedChoices* first = nullptr;
  int count = 0;
};

/// A copy of rows of A, sorted by the experts that they chose.
struct GatheredRows {
  const ChosenRow* rows = nullptr;
  const std::int32_t* row_count = nullptr;
  std::int32_t most_rows = 0;
  const std::byte* a = nullptr;
  std::byte* gathered = nullptr;
  std::int64_t a_row_bytes = 0;  ///< a multiple of 16, as all addresses are
  std::byte* products = nullptr; ///< rows of illegal choices become NaN here
  std::int64_t product_row_bytes = 0;
  bool keeps_order = false; ///< products are in the order of the gathered rows
};

/// The sums of each token's products, multiplied by their weights. Products are f16 or bf16, in the order of the
/// gathered rows.
struct WeightedSums {
  ChosenTokens tokens{};
  const std::int32_t* places = nullptr; ///< SortedChoices::places
  const float* weights = nullptr;       ///< weights of all tokens: [m, top_k]
  const std::byte* products = nullptr;
  std::byte* sums = nullptr; ///< [token_count, columns]
  std::int64_t columns = 0;  ///< a multiple of 8
  bool is_half = false;      ///< else bf16
};

/// Enqueues the sorting of all lists. Throws SystemError.
void enqueue_sorting(const DeviceChoices& choices, const ChoiceLists& lists, cudaStream_t stream);

/// Enqueues the copies, by as many thread blocks as `sm_count` SMs hold. Throws SystemError.
void enqueue_gathering(const GatheredRows& rows, int sm_count, cudaStream_t stream);

/// Enqueues the sums, by as many thread blocks as `sm_count` SMs hold. Sums are taken in f32 in the order of a token's
/// choices and rounded once. Throws SystemError.
void enqueue_weighted_sums(const WeightedSums& sums, int sm_count, cudaStream_t stream);

} // namespace mc2::executor::cuda
