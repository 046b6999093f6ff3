#include <algorithm>
#include <iostream>

#include "benches.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/transfer.hpp"
#include "mc2/profiler/fit.hpp"
#include "pages/render.hpp"
#include "support.hpp"
#include "support/leave_one_shape_out.hpp"

namespace mc2::cli {
namespace {

constexpr const char* kLink = "2.5Gbit,20us";
constexpr std::int64_t kTransferRows = 768;
constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {{512, 512},  {512, 1024}, {1024, 512}, {1024, 1024},
                                                             {768, 2048}, {2048, 768}, {1536, 1536}}; // n, k

Result<planner::CostModel> profiled_model(std::int64_t n, std::int64_t k) {
  ScratchStore scratch;
  MC2_ASSIGN(auto store, scratch.open());
  MC2_ASSIGN(auto bench, open_bench(bench_op(kTransferRows, n, k), kLink));
  ProfileSettings settings = bench_settings(1).profile;
  settings.sweep.budget = std::chrono::milliseconds(15'000);
  MC2_ASSIGN(const auto summary, profile_operator(*bench, settings, store));
  MC2_ASSIGN(auto fitted, profiler::fit_cost_model({bench->op(), bench->fingerprint(), summary.samples}));
  return std::move(fitted).model;
}

void print_errors(const std::vector<testing::TransferError>& errors) {
  std::vector<std::vector<std::string>> rows{
      {"shape left out", "answered by", "curve", "median error", "worst", "covered"}};
  for (const auto& error : errors)
    rows.push_back({"n=" + std::to_string(error.target.n) + " k=" + std::to_string(error.target.k),
                    "n=" + std::to_string(error.source.n) + " k=" + std::to_string(error.source.k),
                    std::string(to_string(error.component)), percent_text(error.median_relative),
                    percent_text(error.worst_relative), percent_text(error.covered)});
  std::cout << "Leave one shape out: curves answered by the model of the nearest other shape, m = " << kTransferRows
            << ", " << kLink << ", 2 ranks\n"
            << render::table(rows, render::kAnyWidth);
}

void print_summary(const std::vector<testing::TransferError>& errors, planner::Component component) {
  std::vector<double> medians, covered;
  for (const auto& error : errors) {
    if (error.component != component) continue;
    medians.push_back(error.median_relative);
    covered.push_back(error.covered);
  }
  if (medians.empty()) return;
  double covered_sum = 0;
  for (const double share : covered) covered_sum += share;
  std::cout << "  " << to_string(component) << ": median error " << percent_text(median(medians)) << ", worst shape "
            << percent_text(*std::max_element(medians.begin(), medians.end())) << "; inside the widened interval "
            << percent_text(covered_sum / static_cast<double>(covered.size())) << " of the sizes\n";
}

} // namespace

Result<ExitCode> bench_transfer() {
  std::vector<planner::CostModel> models;
  for (const auto& [n, k] : kShapes) {
    MC2_ASSIGN(auto model, profiled_model(n, k));
    models.push_back(std::move(model));
  }
  const auto errors = testing::leave_one_shape_out(models);
  print_errors(errors);
  print_summary(errors, planner::Component::Matmul);
  print_summary(errors, planner::Component::Collective);
  std::cout << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
