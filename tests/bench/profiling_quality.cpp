#include "profiling_quality.hpp"

#include "mc2/planner/text.hpp"
#include "mc2/profiler/statistics.hpp"
#include "pages/render.hpp"

namespace mc2::cli {

double Method::quantile_at(int count, double q) const {
  std::vector<double> regrets;
  for (const Course& course : courses) regrets.push_back(course.at(count));
  return profiler::quantile(regrets, q);
}

int Method::reached() const {
  int result = 0;
  for (auto count = kMeasurementCounts.rbegin(); count != kMeasurementCounts.rend(); ++count) {
    if (quantile_at(*count, 0.5) > kMedianGoal || quantile_at(*count, 1) > kWorstGoal) break;
    result = *count;
  }
  return result;
}

std::string quality_table(const std::vector<Method>& methods) {
  std::vector<std::vector<std::string>> rows{{"measurements"}};
  for (const Method& method : methods) rows.front().push_back(method.name + ": median / p95 / worst");
  for (const int count : kMeasurementCounts) {
    rows.push_back({std::to_string(count)});
    for (const Method& method : methods)
      rows.back().push_back(percent_text(method.quantile_at(count, 0.5)) + " / " +
                            percent_text(method.quantile_at(count, 0.95)) + " / " +
                            percent_text(method.quantile_at(count, 1)));
  }
  std::string text = render::table(rows, render::kAnyWidth);
  for (const Method& method : methods) {
    const int count = method.reached();
    text += "  " + method.name + ": median <= 2 % and worst <= 5 % " +
            (count > 0 ? "from " + std::to_string(count) + " measurements on" : "never") + "\n";
  }
  return text;
}

} // namespace mc2::cli
