#pragma once

#include "backends/cuda/kernels/epilogue.hpp"
#include "backends/cuda/kernels/kernels.cuh"

// The epilogue on rows of C that are whole, shared by the kernels that carry it out.
namespace mc2::executor::cuda {

inline constexpr int kMostThreads = 1024; ///< most threads of a thread block

/// One row of each operand, in packs.
template <typename P>
struct Row {
  P* c;
  const P* bias;
  const P* residual;
  const P* norm_weight;
  P* normed;
};

template <typename P>
__device__ Row<P> row_of(const RowEpilogue& epilogue, std::int64_t index) {
  const std::int64_t first = index * (epilogue.columns / P::kElements);
  const auto at = [&](auto* bytes) { return bytes == nullptr ? nullptr : packs<P>(bytes) + first; };
  return {at(epilogue.c), packs<P>(epilogue.bias), at(epilogue.residual), packs<P>(epilogue.norm_weight),
          at(epilogue.normed)};
}

/// Sums `value`, the row's bias and `residual`, rounds the sum and stores it in `value` and in C. If there is nothing
/// to add and C holds `value` already (`is_in_c`), nothing is stored. Returns the sum of the squares.
template <typename P>
__device__ float add(const Row<P>& row, std::int64_t i, P& value, const P& residual, bool is_in_c) {
  float elements[P::kElements] = {};
  value.add_to(elements);
  if (row.bias != nullptr) row.bias[i].add_to(elements);
  if (row.residual != nullptr) residual.add_to(elements);
  if (!is_in_c || row.bias != nullptr || row.residual != nullptr) row.c[i] = value = P::rounded(elements);
  float rounded[P::kElements] = {}, squares = 0;
  value.add_to(rounded);
#pragma unroll
  for (int e = 0; e < P::kElements; ++e) squares += rounded[e] * rounded[e];
  return squares;
}

/// Waits for the kThreadCount threads that share a row: the whole thread block, or a part of it.
template <int kThreadCount>
__device__ void wait_for_row() {
  asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.x / kThreadCount + 1), "n"(kThreadCount) : "memory");
}

/// The factor of a row's norm, 1/sqrt(mean of squares + epsilon). All threads of the row call it, each with the squares
/// of its own elements, and all get the same factor.
template <int kThreadCount>
__device__ float norm_factor(float squares, const RowEpilogue& epilogue) {
  constexpr int kWarp = 32, kRowWarps = kThreadCount / kWarp;
  __shared__ float sums[kMostThreads / kWarp]; // by warp
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) squares += __shfl_xor_sync(~0U, squares, distance);
  const float* row_sums = sums + threadIdx.x / kThreadCount * kRowWarps;
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = squares;
  wait_for_row<kThreadCount>();
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kRowWarps; ++warp) sum += row_sums[warp];
  wait_for_row<kThreadCount>(); // before `sums` is used for the next row
  return 1.0F / sqrtf(sum / static_cast<float>(epilogue.columns) + epilogue.norm_epsilon);
}

template <typename P>
__device__ P normalised(const P& value, const P& weight, float factor) {
  float elements[P::kElements] = {}, weights[P::kElements] = {};
  value.add_to(elements);
  weight.add_to(weights);
#pragma unroll
  for (int e = 0; e < P::kElements; ++e) elements[e] = elements[e] * factor * weights[e];
  return P::rounded(elements);
}

/// The epilogue of one row by kThreadCount threads. Each thread holds up to kHeldCount packs in registers until the
/// row's squares are known, and reads further packs twice. The constructor reads the residual, so that this overlaps
/// with waiting for the sum. kReadsWeightToo: it reads the weight, too, which takes more registers.
template <typename P, int kThreadCount, int kHeldCount, bool kReadsWeightToo>
class RowPass {
 public:
  __device__ RowPass(const RowEpilogue& epilogue, std::int64_t index)
      : row_(row_of<P>(epilogue, index)), pack_count_(static_cast<int>(epilogue.columns / P::kElements)) {
#pragma unroll
    for (int u = 0; u < kHeldCount; ++u) {
      if (place(u) >= pack_count_) continue;
      if (row_.residual != nullptr) residual_[u] = row_.residual[place(u)];
      if (kReadsWeightToo && row_.normed != nullptr) weight(u) = row_.norm_weight[place(u)];
    }
  }

  /// @param sum_at  sum_at(i) is pack i before anything is added to it
  /// @param is_in_c whether C holds these packs
  template <typename Sum>
  __device__ void finish(const RowEpilogue& epilogue, const Sum& sum_at, bool is_in_c) {
    P held[kHeldCount]; // all loads come before the first store, which may be to the same memory
#pragma unroll
    for (int u = 0; u < kHeldCount; ++u)
      if (place(u) < pack_count_) held[u] = sum_at(place(u));
    float squares = 0;
#pragma unroll
    for (int u = 0; u < kHeldCount; ++u) {
      if (place(u) >= pack_count_) continue;
      squares += add(row_, place(u), held[u], residual_[u], is_in_c);
      if (!kReadsWeightToo && row_.normed != nullptr) weight(u) = row_.norm_weight[place(u)];
    }
    for (int i = place(kHeldCount); i < pack_count_; i += kThreadCount) {
      P value = sum_at(i), residual{};
      if (row_.residual != nullptr) residual = row_.residual[i];
      squares += add(row_, i, value, residual, is_in_c);
    }
    if (row_.normed == nullptr) return;
    const float factor = norm_factor<kThreadCount>(squares, epilogue);
#pragma unroll
    for (int u = 0; u < kHeldCount; ++u)
      if (place(u) < pack_count_) row_.normed[place(u)] = normalised(held[u], weight(u), factor);
    for (int i = place(kHeldCount); i < pack_count_; i += kThreadCount)
      row_.normed[i] = normalised(row_.c[i], row_.norm_weight[i], factor);
  }

  /// Finishes the row that C holds.
  __device__ void finish(const RowEpilogue& epilogue) {
    finish(
        epilogue, [&](int i) { return row_.c[i]; }, true);
  }

 private:
  /// Where the weight is read after the residual has been added, it takes the residual's registers.
  __device__ P& weight(int u) { return kReadsWeightToo ? weight_[u] : residual_[u]; }
  __device__ static int place(int u) { return u * kThreadCount + static_cast<int>(threadIdx.x) % kThreadCount; }

  Row<P> row_;
  int pack_count_;
  P residual_[kHeldCount];
  P weight_[kReadsWeightToo ? kHeldCount : 1];
};

/// Whether all matrices start at a multiple of `unit_bytes` and their rows are a multiple of `unit_bytes` long.
inline bool is_in_whole(std::int64_t unit_bytes, const RowEpilogue& epilogue) {
  const auto begins_at_one = [&](const std::byte* address) {
    return reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(unit_bytes) == 0;
  };
  return epilogue.columns * planner::size_bytes(epilogue.dtype) % unit_bytes == 0 && begins_at_one(epilogue.c) &&
         begins_at_one(epilogue.bias) && begins_at_one(epilogue.residual) && begins_at_one(epilogue.norm_weight) &&
         begins_at_one(epilogue.normed);
}

} // namespace mc2::executor::cuda
