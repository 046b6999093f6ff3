#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

// Hopper's own instructions (target sm_90a): barriers in shared memory, bulk copies, and matrix products of a
// warpgroup. Names and layouts are those of NVIDIA's PTX ISA: "mbarrier", "cp.async.bulk", "Asynchronous Warpgroup
// Level Matrix Multiply-Accumulate". Shared memory is given by its 32-bit address.
namespace mc2::executor::cuda::hopper {

inline constexpr int kWarpgroup = 128; ///< threads

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// A barrier completes a phase when all arrivals have come and all announced bytes have been copied. Phases are counted
// modulo 2.
__device__ inline void init_barrier(std::uint32_t barrier, int arrival_count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrival_count));
}
__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void arrive_expecting(std::uint32_t barrier, int byte_count) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(byte_count) : "memory");
}
__device__ inline void wait(std::uint32_t barrier, std::uint32_t phase) {
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}

/// Prefetches a tensor's description, or global memory.
__device__ inline void prefetch(const CUtensorMap* tensor) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(tensor) : "memory");
}
__device__ inline void prefetch(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}

/// Copies a tensor's box that starts at (column, row) into shared memory; called by one thread. Elements outside the
/// tensor become zero.
__device__ inline void load_box(std::uint32_t to, const CUtensorMap* tensor, int column, int row,
                                std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(to),
      "l"(tensor), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
/// Copies a box of one of several matrices.
__device__ inline void load_box(std::uint32_t to, const CUtensorMap* tensor, int column, int row, int matrix,
                                std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(to),
      "l"(tensor), "r"(column), "r"(row), "r"(matrix), "r"(barrier)
      : "memory");
}
/// Stores a box to one of several matrices; elements outside the matrix are not stored.
__device__ inline void store_box(const CUtensorMap* tensor, int column, int row, int matrix, std::uint32_t from) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(tensor),
               "r"(column), "r"(row), "r"(matrix), "r"(from)
               : "memory");
}
__device__ inline void load_bytes(std::uint32_t to, const void* from, int byte_count, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(byte_count), "r"(barrier)
               : "memory");
}
__device__ inline void store_bytes(void* to, std::uint32_t from, int byte_count) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(byte_count)
               : "memory");
}
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// The two waits: until the thread's stores have read shared memory, and until they have been written.
__device__ inline void wait_until_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ inline void wait_until_stored() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/// Orders a thread's own accesses and bulk copies or matrix products of the same memory.
__device__ inline void order_with_bulk_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ inline void order_shared_with_bulk_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Four 8 x 8 matrices of 2-byte elements, stored or loaded by a warp ("stmatrix", "ldmatrix"). Thread t passes the
// address of row t % 8 of matrix t / 8, 16 bytes long. As pairs[i] it holds columns 2 (t % 4) and 2 (t % 4) + 1 of row
// t / 4 of matrix i.
__device__ inline void store_matrices(std::uint32_t row, const std::uint32_t (&pairs)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(pairs[0]),
               "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
               : "memory");
}
__device__ inline void load_matrices(std::uint32_t row, std::uint32_t (&pairs)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
               : "r"(row)
               : "memory");
}

/// Loads 16 bytes.
__device__ inline uint4 load_vector(std::uint32_t from) {
  uint4 vector;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
               : "r"(from)
               : "memory");
  return vector;
}

template <int kCount>
__device__ void give_registers_up() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Describes to wgmma how a matrix of 2-byte elements lies in shared memory: rows of 128 bytes, swizzled, in groups of
/// 8.
/// @param next_128_bytes distance to the following 64 elements of a row; only for matrices that are contiguous along m
/// or n
__device__ inline std::uint64_t matrix_descriptor(std::uint32_t address, std::uint32_t next_128_bytes) {
  constexpr std::uint64_t kSwizzled128 = 1;
  constexpr std::uint64_t kNext8Rows = 1024;
  return (address >> 4U & 0x3FFFU) | std::uint64_t{next_128_bytes >> 4U} << 16U | (kNext8Rows >> 4U) << 32U |
         kSwizzled128 << 62U;
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most kCount groups of products that have been begun and ended are under way.
template <int kCount>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kCount) : "memory");
}

#define MC2_4(i) "+f"(sum[i]), "+f"(sum[(i) + 1]), "+f"(sum[(i) + 2]), "+f"(sum[(i) + 3])
#define MC2_16(i) MC2_4(i), MC2_4((i) + 4), MC2_4((i) + 8), MC2_4((i) + 12)
#define MC2_WGMMA_64X256X16(type)                                                                                    \
  asm volatile(                                                                                                      \
      "{.reg .pred adds;\nsetp.ne.b32 adds, %130, 0;\n"                                                              \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type                                                   \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28," \
      "%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55," \
      "%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82," \
      "%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107," \
      "%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127},"        \
      " %128, %129, adds, 1, 1, 0, %131;\n}"                                                                         \
      : MC2_16(0), MC2_16(16), MC2_16(32), MC2_16(48), MC2_16(64), MC2_16(80), MC2_16(96), MC2_16(112)               \
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)), "n"(kIsBContiguousAlongN ? 1 : 0))

#define MC2_WGMMA_64X128X16(type)                                                                                    \
  asm volatile(                                                                                                      \
      "{.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                                   \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28," \
      "%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55," \
      "%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, adds, 1, 1, 0, %67;\n}"                                           \
      : MC2_16(0), MC2_16(16), MC2_16(32), MC2_16(48)                                                                \
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)), "n"(kIsBContiguousAlongN ? 1 : 0))

/// Starts sum = A B, or sum += A B if `adds`, of 64 x 16 by 16 x 256 or 16 x 128, by a warpgroup. In thread t,
///   sum[4 j + 2 h + i] is row 16 (t / 32) + t % 32 / 4 + 8 h and column 8 j + 2 (t % 4) + i
template <typename T, bool kIsBContiguousAlongN, int kSums>
__device__ inline void add_product(float (&sum)[kSums], std::uint64_t a, std::uint64_t b, bool adds) {
  static_assert(kSums == 128 || kSums == 64);
  constexpr bool kIsHalf = std::is_same_v<T, __half>;
  if constexpr (kSums == 128 && kIsHalf) {
    MC2_WGMMA_64X256X16("f16");
  } else if constexpr (kSums == 128) {
    MC2_WGMMA_64X256X16("bf16");
  } else if constexpr (kIsHalf) {
    MC2_WGMMA_64X128X16("f16");
  } else {
    MC2_WGMMA_64X128X16("bf16");
  }
}
#undef MC2_WGMMA_64X128X16
#undef MC2_WGMMA_64X256X16
#undef MC2_16
#undef MC2_4

} // namespace mc2::executor::cuda::hopper
