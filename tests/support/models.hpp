#pragma once

#include <cstdint>

#include "mc2/planner/cost_model.hpp"

namespace mc2::testing {

inline planner::CostCurve affine(planner::CurveAxis axis, double alpha_us, double beta_us_per_x, double max_x = 1e12) {
  planner::CostCurve curve;
  curve.axis = axis;
  curve.shape = planner::AffineCurve{alpha_us, beta_us_per_x};
  curve.valid_max_x = max_x;
  return curve;
}

/// The published all-reduce fit of the worked example: x in MiB, us (docs/cost_model.md §2).
inline planner::CostCurve published_all_reduce() {
  planner::CostCurve curve;
  curve.axis = planner::CurveAxis::Bytes;
  curve.shape =
      planner::PiecewiseCurve{8 * 1048576.0, 1048576.0, -0.9698202, 27.0622573, 14.769, 13.58491263, 61.508333};
  curve.valid_min_x = 1;
  curve.valid_max_x = 1e12;
  return curve;
}

inline planner::OpSpec all_reduce_op(std::int64_t m, std::int64_t n, std::int64_t k, planner::DType dtype, int ranks) {
  return {planner::OpKind::MatmulAllReduce, m, n, k, dtype, ranks};
}

/// A model with one variant "direct".
inline planner::CostModel model_of(const planner::OpSpec& op, planner::CostCurve compute,
                                   planner::CostCurve communication, double compute_slowdown = 1,
                                   double communication_slowdown = 1) {
  planner::CostModel model;
  model.op = op;
  model.fingerprint.fields = {{"backend", "host"}, {"cpu_model", "test"}};
  model.source = "test";
  model.variants.push_back({{"direct", {}},
                            {std::move(compute), 0, compute_slowdown},
                            {std::move(communication), 0, communication_slowdown}});
  return model;
}

/// 4 ranks gather 4 x 256 rows of 1 KiB. The matmul of the own shard takes 50 us. A row of the cut axis costs 0.5 us of
/// matmul, for the three rows of the other ranks, and 1 us on the link, for 4 KiB.
inline planner::CostModel all_gather_model() {
  planner::CostModel model =
      model_of({planner::OpKind::AllGatherMatmul, 1024, 256, 512, planner::DType::F16, 4},
               affine(planner::CurveAxis::Rows, 0, 0.5), affine(planner::CurveAxis::Bytes, 0, 1.0 / 4096));
  model.variants.front().local_compute = affine(planner::CurveAxis::Rows, 0, 50.0 / 256);
  return model;
}

/// The published worked example: m=4096 k=3072 n=8192 half on 8 ranks, matmul 803 us uncut.
inline planner::CostModel worked_example_model() {
  return model_of(all_reduce_op(4096, 8192, 3072, planner::DType::F16, 8),
                  affine(planner::CurveAxis::Rows, 0, 803.0 / 4096), published_all_reduce());
}

} // namespace mc2::testing
