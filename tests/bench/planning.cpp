#include <chrono>
#include <iostream>

#include "benches.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "support.hpp"
#include "support/models.hpp"

namespace mc2::cli {
namespace {

/// The published worked example as a model (docs/cost_model.md), for m = 16384.
planner::CostModel published_model() {
  return testing::model_of(testing::all_reduce_op(16384, 8192, 3072, planner::DType::F16, 8),
                           testing::affine(planner::CurveAxis::Rows, 0, 803.0 / 4096), testing::published_all_reduce(),
                           1.05, 1.15);
}

} // namespace

Result<ExitCode> bench_planning() {
  const planner::CostModel model = published_model();
  struct Question {
    const char* strategy;
    std::int64_t alignment;
    int repeat_count;
  };
  std::vector<std::vector<std::string>> rows{{"strategy", "alignment", "candidates", "simulated", "median", "p99"}};
  for (const auto& [strategy, alignment, repeat_count] : {Question{"search", 128, 3000},
                                                          {"search", 64, 3000},
                                                          {"search", 32, 3000},
                                                          {"free", 128, 300},
                                                          {"free", 64, 300}}) {
    planner::PlanOptions options;
    options.strategy = strategy;
    options.alignment = alignment;
    std::vector<double> times_us;
    planner::Certificate certificate;
    for (int i = 0; i < repeat_count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const auto plan = planner::make_plan(model.op, model, options);
      times_us.push_back(to_us(std::chrono::steady_clock::now() - start));
      if (!plan) return plan.error();
      certificate = plan.value().certificate.value();
    }
    rows.push_back({strategy, std::to_string(alignment), std::to_string(certificate.candidate_count),
                    std::to_string(certificate.simulated_count), time_text(median(times_us)),
                    time_text(profiler::quantile(times_us, 0.99))});
  }
  std::cout << "Planning time, m = 16384, from a loaded model, one variant\n"
            << render::table(rows, render::kAnyWidth) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
