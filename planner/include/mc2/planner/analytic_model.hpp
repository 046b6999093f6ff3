#pragma once

#include <optional>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/topology.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// Whether a topology's ComputeRate tells the time of the operator's compute lane. Errors: Infeasible for pooling, for
/// a matmul of at most kFewRows rows (of an expert), which waits for memory, and for types with scales.
[[nodiscard]] Result<void> check_topology_tells(const OpSpec& op);

/// Of the models that analytic_model() makes.
[[nodiscard]] Fingerprint analytic_fingerprint(const Topology& topology, int world_size);

/// The matmul of a model that was made for other ranks or another m, but for the same matmul otherwise: of the variant
/// that multiplies the whole operator fastest, since others keep back a part of the device for communication.
/// Errors: OutOfRange (model).
[[nodiscard]] Result<CostCurve> measured_matmul(const CostModel& model, const OpSpec& op);

/// A cost model of `op` on a cluster that nobody can measure: a variant for each algorithm of the topology that does
/// the operator's collective, the collective's time sampled from collective_times() and joined by straight lines, and
/// the matmul from `compute` or, without one, from the topology's ComputeRate. Communication curves are analytic, with
/// the interval that collective_interval() tells for 1024 rows, about a block of a cut; `compute` keeps its own
/// provenance.
/// @param compute  cost of the matmul over compute_axis(op), e.g. measured_matmul() of one such device
/// Errors: InvalidSpec (op, topology, ranks that the topology does not have, a curve over another axis),
/// Infeasible (no algorithm does the collective; without a measured matmul as check_topology_tells).
[[nodiscard]] Result<CostModel> analytic_model(const Topology& topology, const OpSpec& op,
                                               const std::optional<CostCurve>& compute = std::nullopt);

} // namespace mc2::planner

#pragma GCC visibility pop
