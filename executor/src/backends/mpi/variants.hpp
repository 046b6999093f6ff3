#pragma once

#include <chrono>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::mpi {

/// How a block is exchanged, and who drives it: a planner::Variant, read.
struct MpiVariant {
  enum class Algorithm : std::uint8_t {
    Direct,       ///< each rank reads or writes the others' memory ("direct"), on one node
    TwoShot,      ///< the same in two steps ("two_shot"), on one node, all_reduce on 3 ranks or more
    Ring,         ///< our own ring of Isend and Irecv ("ring"), not for all-to-all; fields: sleep_us
    SlicedRing,   ///< the same with long pieces in slices ("sliced_ring"); fields: sleep_us
    Pairwise,     ///< our own Isend and Irecv from rank to rank ("pairwise"), for all-to-all; fields: sleep_us
    Blocking,     ///< the library's blocking collective, which spins ("blocking")
    Hierarchical, ///< inside the nodes by memory, between them by messages ("hierarchical"); fields: sleep_us
    Nonblocking,  ///< the library's nonblocking collective, tested now and then ("nonblocking"); fields: sleep_us
  };
  Algorithm algorithm = Algorithm::Ring;
  std::chrono::microseconds sleep{0}; ///< between two looks beside a matmul; 0 yields the core instead

  /// Of its node's ranks.
  [[nodiscard]] bool shares_memory() const noexcept {
    return algorithm == Algorithm::Direct || algorithm == Algorithm::TwoShot || algorithm == Algorithm::Hierarchical;
  }
};

/// Every variant that runs an operator on this world, best known default first.
[[nodiscard]] std::vector<planner::Variant> mpi_variants(const planner::OpSpec& op);

/// Errors: UnknownName (a variant that does not run the operator here), InvalidSpec (a setting that is missing,
/// unknown, not a number or out of range).
[[nodiscard]] Result<MpiVariant> read_variant(const planner::OpSpec& op, const planner::Variant& variant);

} // namespace mc2::executor::mpi
