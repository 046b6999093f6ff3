#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::testing {

/// Element `index` of a packed matrix as a double. Written independently of the library's own conversions.
double element(planner::DType dtype, std::span<const std::byte> bytes, std::int64_t index);

std::vector<double> elements(planner::DType dtype, std::span<const std::byte> bytes);

/// Like std::ranges::equal, but fast even without optimisation.
bool are_same_bytes(std::span<const std::byte> one, std::span<const std::byte> other);

/// The correct gathered A: the A of all ranks.
std::vector<std::byte> everybodys_a(std::span<const executor::RankBuffers> buffers);

/// Extras that ask for the gathered A where the kind has one.
executor::ProblemExtras with_gathered_a(const planner::OpSpec& op);

/// The definition: result[i, j] = sum over ranks r and l of A_r[i, l] B_r[l, j], row-major, in double.
std::vector<double> naive_matmul_all_reduce(const planner::OpSpec& op, std::span<const executor::RankBuffers> buffers);

/// The correct C of each rank: the plain result + bias + residual. In all-to-all kinds, a row gets the bias of the rank
/// that multiplied it.
std::vector<std::vector<double>> naive_results(const planner::OpSpec& op,
                                               std::span<const executor::RankBuffers> buffers);

/// How far one element may be from the oracle for numbers in [-1, 1). This is a wide bound: each of the R k additions
/// loses at most half a unit of a sum that is at most R k. Short types round R partial products and the sum. Bias and
/// residual are two more terms. i8 elements times random scales stay below 128 * 3/256 = 1.5, so products below 2.25.
double allowed_error(const planner::OpSpec& op);

/// The error of a rank's normalised rows against their definition on `c`, its row-major C, divided by the largest error
/// that an error of `allowed` in every element of C can cause. At most 1 where all is well; NaN where an element was
/// not written; 0 without a norm.
double norm_error_ratio(const planner::OpSpec& op, const executor::RankBuffers& rank, std::span<const double> c,
                        double allowed);

} // namespace mc2::testing
