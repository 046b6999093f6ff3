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

/// Element `index` of a packed matrix as a double. Written apart from the library's own conversions, on purpose.
double element(planner::DType dtype, std::span<const std::byte> bytes, std::int64_t index);

std::vector<double> elements(planner::DType dtype, std::span<const std::byte> bytes);

/// As std::ranges::equal, and fast without optimisation too.
bool are_same_bytes(std::span<const std::byte> one, std::span<const std::byte> other);

/// What the gathered A must be.
std::vector<std::byte> everybodys_a(std::span<const executor::RankBuffers> buffers);

/// Asks for the gathered A where the kind has one.
executor::ProblemExtras with_gathered_a(const planner::OpSpec& op);

/// The definition: result[i, j] = sum over ranks r and l of A_r[i, l] B_r[l, j], row-major, in double.
std::vector<double> naive_matmul_all_reduce(const planner::OpSpec& op, std::span<const executor::RankBuffers> buffers);

/// C of each rank: naive_plain_results() + bias + residual. All-to-all kinds: a row's bias is that of who multiplied
/// it.
std::vector<std::vector<double>> naive_results(const planner::OpSpec& op,
                                               std::span<const executor::RankBuffers> buffers);

/// How far one element may be from the oracle for numbers in [-1, 1): every one of the R k additions loses at most
/// half a unit of a sum that is at most R k, a wide bound; short types round R partial products and the sum. Bias and
/// residual are two terms more; i8 elements times random scales stay below 128 * 3/256 = 1.5, so products below 2.25.
double allowed_error(const planner::OpSpec& op);

/// How far a rank's normalised rows are from their definition on `c`, its C row-major, over what an error of `allowed`
/// in every element of C can make of them: at most 1 where all is well, NaN where an element was not written, 0 without
/// a norm.
double norm_error_ratio(const planner::OpSpec& op, const executor::RankBuffers& rank, std::span<const double> c,
                        double allowed);

} // namespace mc2::testing
