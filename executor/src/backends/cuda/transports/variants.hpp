#pragma once

#include <vector>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "backends/cuda/tiles/tile_reduction.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::cuda {

/// How blocks are exchanged, and how many SMs the matmul may count on meanwhile: a planner::Variant whose settings have
/// been read.
struct CudaVariant {
  enum class Transport : std::uint8_t {
    Direct,     ///< "direct", "low_latency": our kernels access peers' memory; field: ctas
    Persistent, ///< "persistent": one such kernel for all blocks, in kinds whose collective sums; field: ctas
    Nccl,       ///< NCCL: "nccl" and "nccl_window" (field: ctas), "nccl_copy_engine" (no such field)
    /// "copy_engine": peer copies, which take no SM; in a matmul_all_reduce only for "tile_store"; field: slices
    CopyEngine,
    /// "hierarchical": our kernels and copies inside a host, NCCL between hosts; field, in kinds that sum: ctas
    Hierarchical,
  };
  /// The parts of a block that the lanes hand over at a time.
  enum class Slicing : std::uint8_t {
    Whole,
    ByRank,   ///< the rows of one rank; if the matmul comes first, the own rows are a slice, too
    Doubling, ///< the rows of 1, 2, 4, ... peers
  };
  Transport transport = Transport::Direct;
  /// "tile_store": TileReduction carries out fused runs and all matmuls; the transport only carries collectives by
  /// themselves
  bool stores_tiles = false;
  int tile_columns = kWideTile; ///< width of the tiles of stores_tiles ("tile")
  bool has_windows = false;     ///< Nccl: memory is registered as symmetric windows ("nccl_window", "nccl_copy_engine")
  bool takes_no_sm = false; ///< Nccl: CTA policy zero ("nccl_copy_engine"), for all-gather, and all-to-all kinds uncut
  bool is_low_latency = false;      ///< Direct all-reduce: small pieces go by mail, which crosses the links once
  int cta_count = 0;                ///< thread blocks of the collective, each on an SM; 0: NCCL's own choice, or none
  int gemm_sm_count = 0;            ///< SMs that the matmul counts on; 0: all
  int gemm_tile = 0;                ///< the matmul's tile, see GemmShape::tile ("tile")
  Slicing slicing = Slicing::Whole; ///< CopyEngine ("slices")
};

/// Every variant of an operator that is proposed on such devices, in order of preference; the first is the best known
/// default.
/// @param crosses_hosts  only NCCL reaches all ranks then, so more numbers of its thread blocks are proposed
[[nodiscard]] std::vector<planner::Variant> cuda_variants(const planner::OpSpec& op, const GpuTraits& gpu,
                                                          bool crosses_hosts = false);

/// Errors: UnknownName (no such variant for the operator), InvalidSpec (a setting is missing, unknown, not a number or
/// out of range), Unsupported (the transport cannot carry this operator or needs other devices).
[[nodiscard]] Result<CudaVariant> read_variant(const planner::OpSpec& op, const planner::Variant& variant,
                                               const GpuTraits& gpu);

} // namespace mc2::executor::cuda
