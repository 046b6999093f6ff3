#include "pages/render.hpp"

#include "mc2/planner/text.hpp"
#include "pages/terminal.hpp"
#include "pages/text.hpp"

namespace mc2::cli {

std::string table(const std::vector<std::vector<std::string>>& rows) { return render::table(rows, terminal_width()); }

std::string notes_text(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += render::hanging("  note: ", note, terminal_width());
  return text;
}

std::string sweep_page(const profiler::SweepSummary& summary, bool is_full) {
  std::vector<std::vector<std::string>> rows{{"case", "samples", "median", "p95", "noise"}};
  if (is_full) rows.front().insert(rows.front().end(), {"low quantile", "outliers", "stopped because"});
  for (const auto& c : summary.cases) {
    const bool has_noise = c.sample_count - c.outlier_count > 1;
    rows.push_back({c.name, std::to_string(c.sample_count), time_text(c.median_us), time_text(c.p95_us),
                    has_noise ? percent_text(c.noise_ratio) : "-"});
    if (is_full)
      rows.back().insert(rows.back().end(),
                         {time_text(c.low_quantile_us), std::to_string(c.outlier_count), c.stop_reason});
  }
  return table(rows) + "\n" +
         remark(std::to_string(summary.round_count) + " rounds; " + summary.termination, terminal_width());
}

} // namespace mc2::cli
