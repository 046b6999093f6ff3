#include "render.hpp"

#include <vector>

#include "mc2/planner/text.hpp"

namespace mc2::cli {

std::string sweep_page(const profiler::SweepSummary& summary) {
  std::vector<std::vector<std::string>> rows{
      {"case", "samples", "low quantile", "median", "p95", "noise", "outliers", "stopped because"}};
  for (const auto& c : summary.cases)
    rows.push_back({c.name, std::to_string(c.sample_count), time_text(c.low_quantile_us), time_text(c.median_us),
                    time_text(c.p95_us), percent_text(c.noise_ratio), std::to_string(c.outlier_count), c.stop_reason});
  return table(rows) + "\n  " + std::to_string(summary.round_count) + " rounds; " + summary.termination + "\n";
}

} // namespace mc2::cli
