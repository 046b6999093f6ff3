#pragma once

#include <span>
#include <string>
#include <vector>

#include "peer_race.hpp"

namespace mc2::cli {

/// Command, machine and results of a run of `mc2-bench peers`.
struct PeerRun {
  std::string command; ///< the command line of the run
  planner::Fingerprint fingerprint;
  std::map<std::string, std::string> software; ///< versions that PyTorch reports
  std::string torch_reason;                    ///< why PyTorch is missing, or ""
  std::string started_at;                      ///< UTC, ISO 8601
  std::vector<PeerRace> shapes;
  std::vector<planner::OpSpec> left_out; ///< shapes left out because of the time limit or an interrupt
};

/// Figures over shapes; a geometric mean is 0 when no shape has the number.
struct PeerSummary {
  int shape_count = 0;
  int promising_count = 0;       ///< ideal benefit >= kPromisingBenefit
  double speedup_geomean = 0;    ///< serial / mc2 over the promising shapes
  double efficiency_geomean = 0; ///< over the promising shapes; efficiencies below 0.01 count as 0.01
  double worst_speedup = 0;      ///< over all shapes
  int predicted_count = 0;
  double prediction_error_median = 0, prediction_error_worst = 0; ///< |error| over all shapes with a model, anchored
  double tuned_error_median = 0, tuned_error_worst = 0;           ///< |error| of the predictions that are not anchored
  int torch_count = 0;
  double torch_geomean = 0; ///< PeerTimes::peer() / mc2, over all shapes that PyTorch ran
  double torch_worst = 0;
};

/// Shapes with a smaller ideal benefit have little to win, and rounding decides.
inline constexpr double kPromisingBenefit = 0.15;

/// Summary of the shapes that finished their turn.
[[nodiscard]] PeerSummary summarize(std::span<const PeerRace> shapes);

/// One table per operator kind with its summary, then what failed and what was left out.
[[nodiscard]] std::string peer_page(const PeerRun& run);

/// All results, including every time of every pair, as a JSON document for scripts.
[[nodiscard]] std::string peer_document(const PeerRun& run);

} // namespace mc2::cli
