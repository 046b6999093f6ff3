#pragma once

#include "mc2/planner/planner.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// FlashOverlap's choice, as a baseline to compare with: the product's waves are grouped, a group is sent when its last
/// wave is done, and the grouping with the shortest predicted latency wins.
///   predictor  end of communication of group i = max(end of its waves, end of communication of group i-1) + comm_i;
///              every wave takes the same share of the uncut matmul; comm_i = bytes / bandwidth, linearly interpolated
///              between sampled sizes (here: powers of two); no contention, no cost of a cut.
///   search     every composition of the waves into groups of at least a tenth of them.
/// A wave is one step of the alignment. The makespan of the answer is mc2's own prediction of that cut.
/// Source: Hong et al., "FlashOverlap", arXiv:2504.19519, §4; github.com/infinigence/FlashOverlap, tune/search.py.
/// Errors: Infeasible for kinds that communicate first, which FlashOverlap does not cover.
[[nodiscard]] Result<Plan> plan_by_wave_groups(const Problem& problem);

} // namespace mc2::planner::strategies
