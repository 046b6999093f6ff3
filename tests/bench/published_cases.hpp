#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"

namespace mc2::cli {

/// One layer on a published device: its cost model, the cut of another planner (the peer), and that planner's times.
struct PublishedCase {
  planner::CostModel model;
  planner::Cut peer_cut;
  double peer_us = 0; ///< time of peer_cut
  double uncut_us = 0;
  double best_us = 0; ///< time of the best short/long cut: long blocks multiples of 128, none below 128, at most 16
};

/// Reads cases in the format of data/ascend_910b_cases.csv (data/README.md). Each case states the matmul's time per
/// row, where fewer than 128 rows cost as much as 128, and the factor that divides the published communication curve.
/// Errors: as read_csv; Malformed naming file, line and column: a number that cannot be read, a length of the cut
/// axis that is not the operator's, or an operator that is not legal.
[[nodiscard]] Result<std::vector<PublishedCase>> parse_published_cases(std::string_view text, const std::string& file);

} // namespace mc2::cli
