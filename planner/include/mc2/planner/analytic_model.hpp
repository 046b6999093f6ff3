#pragma once

#include <optional>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/topology.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// Checks that a topology's ComputeRate says how long the operator's compute lane takes.
/// Errors: Infeasible for pooling and grouped matmuls, for element types with scales, and for a matmul of at most
/// kFewRows rows (per expert), whose time memory sets.
[[nodiscard]] Result<void> check_topology_tells(const OpSpec& op);

/// The fingerprint of the models that analytic_model() makes.
[[nodiscard]] Fingerprint analytic_fingerprint(const Topology& topology, int world_size);

/// The matmul curve of a measured model, for an operator that differs from the model's in m and ranks at most. The
/// curve is that of the variant that multiplies the whole operator fastest, because other variants keep a part of the
/// device back for communication. Errors: OutOfRange (model) when the operators differ in anything else.
[[nodiscard]] Result<CostCurve> measured_matmul(const CostModel& model, const OpSpec& op);

/// A cost model of `op` on a cluster that nobody can measure. It has a variant for each algorithm that the topology
/// offers for the operator's collective. A communication curve joins samples of collective_times() by straight lines;
/// it is analytic, and its interval is collective_interval() at 1024 rows, about a block of a cut. The matmul curve is
/// `compute`, which keeps its own provenance, or follows from the topology's ComputeRate.
/// @param compute  cost of the matmul over compute_axis(op), e.g. measured_matmul() of one such device
/// Errors: InvalidSpec (op, topology, ranks that the topology does not have, a curve over another axis), Infeasible
/// (no algorithm does the collective; without `compute` also as check_topology_tells).
[[nodiscard]] Result<CostModel> analytic_model(const Topology& topology, const OpSpec& op,
                                               const std::optional<CostCurve>& compute = std::nullopt);

} // namespace mc2::planner

#pragma GCC visibility pop
