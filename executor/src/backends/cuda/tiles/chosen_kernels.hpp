#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/tiles/grouped_kernel.hpp"

namespace mc2::executor::cuda {

/// Most experts whose choices the kernels sort.
inline constexpr int kMaxSortedExperts = 1024;

/// What is wrong with a choice. Written last, over BeingTold.
enum class ChoiceFault : std::uint32_t { None, Illegal, BeingTold };
/// A ChoiceFault, the lower and the upper half of the choice's place, those of its expert, and the weight's bits.
inline constexpr std::size_t kChoiceFaultWords = 6;

/// ExpertChoices in memory of a rank's device.
struct DeviceChoices {
  const std::byte* experts = nullptr;
  const float* weights = nullptr; ///< null for kinds that do not sum
  int index_bytes = 8;            ///< of an expert's number, 4 or 8
  int expert_count = 0;
  std::uint32_t* fault = nullptr; ///< kChoiceFaultWords that the host sees, too: of the first illegal choice
};

/// Tokens that lie one below the other, wherever they are.
struct TokenRun {
  std::int32_t first_token = 0;
  std::int32_t a_token = 0; ///< where the first is in A, in tokens
  std::int32_t c_token = 0; ///< likewise in the products, which have a row for every choice
  std::int32_t token_count = 0;
};

/// Tokens that are multiplied at a time.
struct ChosenTokens {
  std::array<TokenRun, kMaxCudaRanks> runs{};
  int run_count = 0;
  std::int32_t token_count = 0; ///< of all runs
  std::int32_t top_k = 1;
  bool is_wide = false; ///< A has a row for every choice, else one for every token
};

/// What sorting makes of them, in memory of the device.
struct SortedChoices {
  ChosenTokens tokens{};
  ChosenRow* rows = nullptr;         ///< [token_count top_k]: by expert; the illegal ones are the last
  std::int32_t* places = nullptr;    ///< by row of the products, where it is among those; null: nobody asks
  std::int32_t* row_count = nullptr; ///< those that are legal
  GroupedTile* tiles = nullptr;
  std::int32_t* tile_count = nullptr;
  int tile_columns = 0;
  std::int32_t column_tiles = 0; ///< n in tiles
};

/// In memory of the device.
struct ChoiceLists {
  const SortedChoices* first = nullptr;
  int count = 0;
};

/// Rows of A by the experts that they chose.
struct GatheredRows {
  const ChosenRow* rows = nullptr;
  const std::int32_t* row_count = nullptr;
  std::int32_t most_rows = 0;
  const std::byte* a = nullptr;
  std::byte* gathered = nullptr;
  std::int64_t a_row_bytes = 0;  ///< a multiple of 16, as addresses are
  std::byte* products = nullptr; ///< of whose rows those of illegal choices become NaN
  std::int64_t product_row_bytes = 0;
  bool keeps_order = false; ///< products lie as the gathered rows do
};

/// Products of f16 or bf16, in the order of the gathered rows, weighted and added up.
struct WeightedSums {
  ChosenTokens tokens{};
  const std::int32_t* places = nullptr; ///< SortedChoices::places
  const float* weights = nullptr;       ///< of all tokens: [m, top_k]
  const std::byte* products = nullptr;
  std::byte* sums = nullptr; ///< [token_count, columns]
  std::int64_t columns = 0;  ///< a multiple of 8
  bool is_half = false;      ///< else bf16
};

/// Enqueues the sorting of all lists. Throws SystemError.
void enqueue_sorting(const DeviceChoices& choices, const ChoiceLists& lists, cudaStream_t stream);

/// Enqueues, by as many thread blocks as `sm_count` SMs hold, the copies. Throws SystemError.
void enqueue_gathering(const GatheredRows& rows, int sm_count, cudaStream_t stream);

/// Enqueues, likewise, the sums: in f32, in the order of a token's choices, rounded once. Throws SystemError.
void enqueue_weighted_sums(const WeightedSums& sums, int sm_count, cudaStream_t stream);

} // namespace mc2::executor::cuda
