#include "benches.hpp"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>

#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "plan_grid.hpp"
#include "support.hpp"
#include "support/models.hpp"

namespace mc2::cli {
namespace {

constexpr std::int64_t kPlanCount = 10'000;
constexpr std::int64_t kLargestM = 16'384;
constexpr int kRepeatCount = 5;

/// A model from two rates.
finder::FoundModel model_of_rates(const planner::OpSpec& op) {
  constexpr double kFlopPerUs = 400e6, kBytesPerUs = 150e3, kLatencyUs = 12, kLaunchUs = 4;
  const auto& traits = planner::traits_of(op.kind);
  const double us_per_row = op.flop_count() / static_cast<double>(traits.cut_axis_length(op)) / kFlopPerUs;
  finder::FoundModel found;
  found.model.op = op;
  found.model.variants.push_back({{"direct", {}},
                                  {testing::affine(planner::CurveAxis::Rows, kLaunchUs, us_per_row), 0, 1.05},
                                  {testing::affine(planner::CurveAxis::Bytes, kLatencyUs, 1 / kBytesPerUs), 0, 1.15}});
  return found;
}

/// A place that takes no time to find a model, so that the sweep's own time is measured.
FindPlaces planning_by_rates(const store::PlanRequest& asked) {
  return [asked](const OpFamily& family) -> std::vector<finder::PlanSource> {
    const finder::AnswerOverM model{family.all_m.front(), planner::kMaxSize, model_of_rates(family.op)};
    return {planner_with("rates", {model}, asked, [](const auto&) { return "two rates"; })};
  };
}

/// The grid with enough values of m for at least kPlanCount plans.
Result<PlanGrid> make_grid() {
  PlanGrid grid;
  MC2_ASSIGN(grid.layers, built_in_layers());
  grid.ranks = {2, 4, 8};
  for (const auto& traits : planner::op_registry()) grid.kinds.push_back(traits.kind);
  std::int64_t plans_per_m = 0;
  grid.all_m = {kLargestM};
  for (const OpFamily& family : grid.families()) plans_per_m += std::ssize(family.all_m);
  const std::int64_t m_count = planner::ceil_div(kPlanCount, plans_per_m);
  grid.all_m.clear();
  // Multiples of 8, which every number of ranks divides.
  for (std::int64_t i = 1; i <= m_count; ++i) grid.all_m.push_back(planner::align_down(kLargestM * i / m_count, 8));
  return grid;
}

struct Timing {
  double seconds;
  PlanCounts counts;
  std::uintmax_t bytes;
};

/// Times the way from a grid to its table in a file.
Result<Timing> time_sweep(const PlanGrid& grid, const GridRun& run) {
  const auto start = std::chrono::steady_clock::now();
  MC2_ASSIGN(auto planned, plan_grid(grid, planning_by_rates(run.asked), run));
  const PlanCounts counts = planned.counts;
  const auto table = make_table(run.format, run.asked, std::move(planned.rows), counts);
  const std::filesystem::path file = std::filesystem::temp_directory_path() / ("mc2-bench-" + std::to_string(getpid()));
  write_file(file, table);
  const double seconds = seconds_since(start);
  const auto bytes = std::filesystem::file_size(file);
  std::filesystem::remove(file);
  return Timing{seconds, counts, bytes};
}

} // namespace

Result<ExitCode> bench_sweep() {
  MC2_ASSIGN(const auto grid, make_grid());
  std::vector<std::vector<std::string>> rows{
      {"format", "threads", "plans", "of them cut", "refused", "median", "plans/s", "table"}};
  for (const auto& [format, name] : {std::pair{TableFormat::Csv, "csv"}, std::pair{TableFormat::Json, "json"}})
    for (const int thread_count : {1, 2}) {
      GridRun run{.asked = store::PlanRequest::usual({}), .format = format, .thread_count = thread_count};
      run.asked.options.runner_up_count = 0;
      std::vector<double> seconds;
      Timing last{};
      for (int i = 0; i < kRepeatCount; ++i) {
        MC2_ASSIGN(last, time_sweep(grid, run));
        seconds.push_back(last.seconds);
      }
      const std::int64_t plan_count = last.counts.cut + last.counts.uncut;
      rows.push_back({name, std::to_string(thread_count), std::to_string(plan_count), std::to_string(last.counts.cut),
                      std::to_string(last.counts.refused), number(median(seconds), "%.3f s"),
                      number(static_cast<double>(plan_count) / median(seconds), "%.0f"),
                      number(static_cast<double>(last.bytes) / planner::kBytesPerMib, "%.1f MiB")});
    }
  std::cout << "Sweep over the layers of the models of data/llm/, 2, 4 and 8 ranks, m up to 16384, strategy search, "
               "table included\n"
            << render::table(rows, render::kAnyWidth) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
