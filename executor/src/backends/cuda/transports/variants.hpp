#pragma once

#include <vector>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "backends/cuda/tiles/tile_reduction.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::cuda {

/// How blocks are exchanged, and which SMs the matmul may count on meanwhile: a planner::Variant, read.
struct CudaVariant {
  enum class Transport : std::uint8_t {
    Direct,     ///< our kernels reach into peers' memory ("direct", "low_latency"); fields: ctas
    Persistent, ///< one such kernel for all blocks ("persistent"), of kinds whose collective sums; fields: ctas
    Nccl,       ///< NCCL with a budget of thread blocks ("nccl", "nccl_window", "nccl_copy_engine"); fields: ctas
    /// peer copies that take no SM ("copy_engine"), of matmul_all_reduce only for "tile_store"; fields: slices
    CopyEngine,
    /// our kernels and copies inside a host, NCCL between hosts ("hierarchical"); fields: ctas where it sums
    Hierarchical,
  };
  /// What of a block the lanes hand over at a time.
  enum class Slicing : std::uint8_t {
    Whole,
    ByRank,   ///< a rank's rows; where the matmul comes first the own ones, too
    Doubling, ///< the rows of 1, 2, 4, ... peers
  };
  Transport transport = Transport::Direct;
  /// fused runs and all matmuls are TileReduction's ("tile_store"); the transport carries the collective alone
  bool stores_tiles = false;
  int tile_columns = kWideTile; ///< of those ("tile")
  bool has_windows = false;     ///< Nccl: memory registered as symmetric windows ("nccl_window", "nccl_copy_engine")
  bool takes_no_sm = false;     ///< Nccl: CTA policy zero ("nccl_copy_engine"), all-gather, and all-to-all kinds uncut
  bool is_low_latency = false;  ///< Direct all-reduce: small pieces by mail, which crosses the links once
  int cta_count = 0;            ///< thread blocks of the collective, each on an SM; 0: NCCL's own choice, or none
  int gemm_sm_count = 0;        ///< SMs that the matmul counts on; 0 for all
  int gemm_tile = 0;            ///< the matmul's tile, as GemmShape::tile ("tile")
  Slicing slicing = Slicing::Whole; ///< CopyEngine ("slices")
};

/// Every variant of an operator that is proposed on such devices, best known default first.
/// @param crosses_hosts  only NCCL reaches all ranks, so its thread blocks are worth choosing
[[nodiscard]] std::vector<planner::Variant> cuda_variants(const planner::OpSpec& op, const GpuTraits& gpu,
                                                          bool crosses_hosts = false);

/// Errors: UnknownName (variant), InvalidSpec (a setting that is missing, unknown, not a number or out of range),
/// Unsupported (a transport that cannot carry this operator, or that such devices have not).
[[nodiscard]] Result<CudaVariant> read_variant(const planner::OpSpec& op, const planner::Variant& variant,
                                               const GpuTraits& gpu);

} // namespace mc2::executor::cuda
