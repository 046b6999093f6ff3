#pragma once

#include <chrono>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::mpi {

/// How a block is exchanged and which thread drives it: a planner::Variant whose settings have been read.
struct MpiVariant {
  enum class Algorithm : std::uint8_t {
    Direct,       ///< "direct": each rank reads or writes the others' memory; on one node
    TwoShot,      ///< "two_shot": "direct" in two steps; on one node, all_reduce on 3 ranks or more
    Ring,         ///< "ring": our own ring of Isend and Irecv; not for all-to-all; field: sleep_us
    SlicedRing,   ///< "sliced_ring": "ring" with long pieces cut in slices; field: sleep_us
    Pairwise,     ///< "pairwise": our own Isend and Irecv between pairs of ranks, for all-to-all; field: sleep_us
    Blocking,     ///< "blocking": the library's blocking collective, which spins
    Hierarchical, ///< "hierarchical": memory inside a node, messages between nodes; field: sleep_us
    Nonblocking,  ///< "nonblocking": the library's nonblocking collective, tested now and then; field: sleep_us
  };
  Algorithm algorithm = Algorithm::Ring;
  std::chrono::microseconds sleep{0}; ///< interval between two looks while a matmul runs; 0: yields the core instead

  /// Whether the variant uses memory that the ranks of a node share.
  [[nodiscard]] bool shares_memory() const noexcept {
    return algorithm == Algorithm::Direct || algorithm == Algorithm::TwoShot || algorithm == Algorithm::Hierarchical;
  }
};

/// Every variant that runs an operator on this world, in order of preference; the first is the best known default.
[[nodiscard]] std::vector<planner::Variant> mpi_variants(const planner::OpSpec& op);

/// Errors: UnknownName (no such variant, or it does not run the operator here), InvalidSpec (a setting is missing,
/// unknown, not a number or out of range).
[[nodiscard]] Result<MpiVariant> read_variant(const planner::OpSpec& op, const planner::Variant& variant);

} // namespace mc2::executor::mpi
