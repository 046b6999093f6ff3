#pragma once

#include <span>
#include <string>
#include <vector>

#include "peer_race.hpp"

namespace mc2::cli {

/// What a run of `mc2-bench peers` was.
struct PeerRun {
  std::string command; ///< as it was typed
  planner::Fingerprint fingerprint;
  std::map<std::string, std::string> software; ///< PyTorch's
  std::string torch_reason;                    ///< why PyTorch is missing, or ""
  std::string started_at;                      ///< UTC, ISO 8601
  std::vector<PeerRace> shapes;
  std::vector<planner::OpSpec> left_out; ///< by the time limit or an interrupt
};

/// Figures over shapes; a geometric mean is 0 when no shape has the number.
struct PeerSummary {
  int shape_count = 0;
  int promising_count = 0;       ///< ideal benefit >= kPromisingBenefit
  double speedup_geomean = 0;    ///< serial / mc2 over the promising
  double efficiency_geomean = 0; ///< over the promising; efficiencies below 0.01 count as that
  double worst_speedup = 0;      ///< over all
  int predicted_count = 0;
  double prediction_error_median = 0, prediction_error_worst = 0; ///< of the size, over all that have a model
  double tuned_error_median = 0, tuned_error_worst = 0;           ///< the same, not anchored
  int torch_count = 0;
  double torch_geomean = 0; ///< PeerTimes::peer() / mc2, over all that PyTorch ran
  double torch_worst = 0;
};

/// Below this share of serial there is little to win and rounding decides.
inline constexpr double kPromisingBenefit = 0.15;

/// Of the shapes that finished their turn.
[[nodiscard]] PeerSummary summarize(std::span<const PeerRace> shapes);

/// One table per operator kind with its summary, then what failed and what was left out.
[[nodiscard]] std::string peer_page(const PeerRun& run);

/// Everything, every time of every pair included, as a JSON document for scripts.
[[nodiscard]] std::string peer_document(const PeerRun& run);

} // namespace mc2::cli
