#include <algorithm>
#include <cmath>
#include <iostream>
#include <tuple>

#include "benches.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

constexpr const char* kVirtualCompute = "90Gflops,10us";

struct PredictionError {
  planner::OpSpec op;
  std::string cut;
  double predicted_us, measured_us;
  [[nodiscard]] double relative() const { return predicted_us / measured_us - 1; }
};

/// Races the plan that the model chooses for `op`, and compares it with the prediction anchored at the uncut parts that
/// the same race measured.
Result<PredictionError> predict_and_race(const planner::OpSpec& op, planner::CostModel model, const std::string& link,
                                         const TuneSettings& settings) {
  MC2_ASSIGN(auto bench, open_bench(op, link, kVirtualCompute));
  MC2_ASSIGN(const auto plan, planner::make_plan(op, model, *settings.plan));
  MC2_ASSIGN(const auto raced, shown_race(*bench, {plan}, settings.race, "race " + op.text()));
  const Contender& contender = raced.contenders.front();
  model.op.m = op.m;
  MC2_ASSIGN(const auto predicted, anchored_prediction(contender, op, model));
  return PredictionError{op, contender.cut.text(), predicted.makespan.us, median(contender.fused_us)};
}

void print_errors(const std::string& title, const std::vector<PredictionError>& errors) {
  std::vector<std::vector<std::string>> rows{{"shape (not used for fitting)", "cut", "predicted", "measured", "error"}};
  std::vector<double> sizes;
  for (const auto& error : errors) {
    rows.push_back({error.op.text(), error.cut, time_text(error.predicted_us), time_text(error.measured_us),
                    percent_text(error.relative())});
    sizes.push_back(std::abs(error.relative()));
  }
  std::cout << title << "\n"
            << render::table(rows, render::kAnyWidth) << "  median error " << percent_text(median(sizes)) << ", worst "
            << percent_text(profiler::quantile(sizes, 1)) << " over " << errors.size() << " shapes\n\n";
}

/// Tunes (n, k) at `fit_m` rows, then predicts other m with that model.
Result<ExitCode> predict_others(std::int64_t n, std::int64_t k, std::int64_t fit_m,
                                const std::vector<std::int64_t>& asked_m, const std::string& link,
                                const TuneSettings& settings, std::vector<PredictionError>& errors) {
  ScratchStore scratch;
  MC2_ASSIGN(auto store, scratch.open());
  planner::CostModel model;
  {
    MC2_ASSIGN(auto bench, open_bench(bench_op(fit_m, n, k), link, kVirtualCompute));
    MC2_ASSIGN(auto tuned, tune_to_model(*bench, settings, store));
    model = *std::move(tuned).model;
  }
  for (const std::int64_t m : asked_m) {
    MC2_ASSIGN(auto error, predict_and_race(bench_op(m, n, k), model, link, settings));
    errors.push_back(error);
  }
  return ExitCode::Success;
}

} // namespace

Result<ExitCode> bench_virtual_prediction(const TuneSettings& settings) {
  std::vector<PredictionError> errors;
  const std::vector<std::int64_t> asked_m{640, 896, 1100, 1536};
  for (const auto& [n, k, link] : {std::tuple{1024, 1024, "2.5Gbit,20us"}, std::tuple{512, 2048, "1Gbit,20us"},
                                   std::tuple{768, 3072, "1Gbit,50us"}})
    MC2_TRY(predict_others(n, k, 1024, asked_m, link, settings, errors));
  print_errors("Predicted against measured makespan, virtual compute 90 Gflop/s, emulated links, 2 ranks", errors);
  return ExitCode::Success;
}

} // namespace mc2::cli
