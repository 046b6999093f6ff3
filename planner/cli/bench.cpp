#include <CLI/CLI.hpp>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <numeric>

#include "bench_active.hpp"
#include "commands.hpp"
#include "mc2/planner/planner.hpp"
#include "measure.hpp"
#include "race_page.hpp"
#include "render.hpp"
#include "terminal.hpp"
#include "tuner.hpp"

namespace mc2::cli {
namespace {

using profiler::quantile;

/// A store that disappears with the benchmark.
class ScratchStore {
 public:
  ScratchStore()
      : path_(std::filesystem::temp_directory_path() / ("mc2-bench-" + std::to_string(getpid()) + ".db")) {}
  ~ScratchStore() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;
  [[nodiscard]] Result<store::Store> open() const { return store::Store::open(path_, store::OpenMode::ReadWrite); }

 private:
  std::filesystem::path path_;
};

struct BenchCommand {
  double race_budget_s = 45;
  ActiveBench active;
  Action action; ///< of the figure that was asked for

  [[nodiscard]] TuneSettings settings() const;
  [[nodiscard]] Result<ExitCode> overlap() const;
  [[nodiscard]] Result<ExitCode> prediction() const;
  [[nodiscard]] Result<ExitCode> virtual_prediction() const;
  [[nodiscard]] Result<ExitCode> shared_memory() const;
  [[nodiscard]] Result<ExitCode> planning() const;
  [[nodiscard]] Result<ExitCode> all() const;
};

planner::OpSpec op_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {planner::OpKind::MatmulAllReduce, m, n, k, planner::DType::F32, 2};
}

Result<std::unique_ptr<Workbench>> open_bench(const planner::OpSpec& op, const std::string& link,
                                              const std::string& virtual_compute = "") {
  MachineOptions machine;
  machine.link = link;
  machine.virtual_compute = virtual_compute;
  const auto backend = machine.find();
  if (!backend) return backend.error();
  const auto options = machine.communicator_options(op.world_size);
  if (!options) return options.error();
  return Workbench::open(*backend.value(), options.value(), op, fresh_seed());
}

TuneSettings BenchCommand::settings() const {
  TuneSettings result;
  result.plan.alignment = result.plan.min_block_rows = result.profile.alignment =
      executor::find_backend("host").value()->default_alignment();
  result.profile.sweep.budget = std::chrono::milliseconds(30'000);
  result.race.budget = std::chrono::milliseconds(static_cast<std::int64_t>(race_budget_s * 1000));
  return result;
}

// ---- overlap: the tuned plan against the ideal and against every plan of the family ----

struct OverlapCase {
  std::int64_t m, n, k;
  const char* link;
};

/// The tuned plan beside the best of the whole family, raced in one run.
struct BruteForce {
  std::size_t cut_count = 0;
  double ideal_benefit = 0;
  profiler::Interval efficiency; ///< of the tuned plan
  double tuned_ratio = 0;        ///< fused / serial
  double best_ratio = 0;
  std::string best_cut;
};

double fused_to_serial(const Contender& contender) {
  return profiler::paired_ratio(contender.fused_us, contender.serial_us, 0.95).value;
}

/// The plans that were fastest in a heat; the tuned one always stays.
std::vector<planner::Plan> advance(const Race& heat, const std::vector<planner::Plan>& plans, std::size_t count,
                                   const planner::Cut& tuned) {
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const bool a_tuned = plans[a].cut == tuned, b_tuned = plans[b].cut == tuned;
    if (a_tuned != b_tuned) return a_tuned;
    return fused_to_serial(heat.contenders[a]) < fused_to_serial(heat.contenders[b]);
  });
  std::vector<planner::Plan> result;
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) result.push_back(plans[order[i]]);
  return result;
}

/// Every cut of the family runs; the fastest run again, longer. The best of many noisy medians is too good by chance,
/// and the last heat, in which few cuts run often, takes that out.
Result<Race> race_family(Workbench& bench, std::vector<planner::Plan> plans, const planner::Cut& tuned) {
  struct Heat {
    int rounds;
    std::size_t advance_count;
  };
  constexpr Heat kHeats[] = {{3, 24}, {9, 6}, {41, 6}};
  Result<Race> raced = Race{};
  for (const auto& heat : kHeats) {
    RaceSettings settings;
    settings.min_rounds = settings.max_rounds = heat.rounds;
    raced = race(bench, plans, settings, "brute force, " + std::to_string(plans.size()) + " cuts");
    if (!raced) return raced;
    plans = advance(raced.value(), plans, heat.advance_count, tuned);
  }
  return raced;
}

Result<BruteForce> brute_force(Workbench& bench, const Tuned& tuned, const planner::PlanOptions& options) {
  const auto cuts = planner::enumerate_cuts(bench.op(), options);
  if (!cuts) return cuts.error();
  std::vector<planner::Plan> plans;
  for (const auto& cut : cuts.value()) {
    auto plan = planner::predict_cut(bench.op(), tuned.model, tuned.plan.variant, cut);
    if (!plan) return plan.error();
    plans.push_back(std::move(plan).value());
  }
  const auto raced = race_family(bench, std::move(plans), tuned.plan.cut);
  if (!raced) return raced.error();
  BruteForce result;
  result.cut_count = cuts.value().size();
  result.best_ratio = 1e300;
  for (const auto& contender : raced.value().contenders) {
    const double ratio = fused_to_serial(contender);
    if (contender.cut == tuned.plan.cut) {
      result.tuned_ratio = ratio;
      result.efficiency = raced.value().overlap_efficiency(contender);
    }
    if (ratio >= result.best_ratio) continue;
    result.best_ratio = ratio;
    result.best_cut = contender.cut.text();
  }
  const double compute_us = median(raced.value().compute_us);
  const double communication_us = median(raced.value().communication_us);
  result.ideal_benefit = std::min(compute_us, communication_us) / (compute_us + communication_us);
  return result;
}

Result<ExitCode> BenchCommand::overlap() const {
  const std::vector<OverlapCase> cases{{1024, 1024, 1024, "2.5Gbit,20us"},
                                       {1536, 1024, 1024, "2.5Gbit,20us"},
                                       {1024, 1024, 2048, "1Gbit,20us"},
                                       {1024, 768, 3072, "1Gbit,20us"},
                                       {1024, 1024, 2048, "2.5Gbit,20us"}};
  std::vector<std::vector<std::string>> rows{{"shape", "link", "ideal", "tuned", "efficiency", "95 % interval",
                                              "best of family", "cuts", "tuned/best"}};
  for (const auto& c : cases) {
    ScratchStore scratch;
    auto store = scratch.open();
    if (!store) return store.error();
    auto bench = open_bench(op_of(c.m, c.n, c.k), c.link);
    if (!bench) return bench.error();
    const auto tuned = tune_operator(*bench.value(), settings(), store.value());
    if (!tuned) return tuned.error();
    const auto brute = brute_force(*bench.value(), tuned.value(), settings().plan);
    if (!brute) return brute.error();
    const BruteForce& b = brute.value();
    rows.push_back({bench.value()->op().text(), c.link, percent_text(b.ideal_benefit), tuned.value().plan.cut.text(),
                    percent_text(b.efficiency.value),
                    percent_text(b.efficiency.low) + " to " + percent_text(b.efficiency.high), b.best_cut,
                    std::to_string(b.cut_count), percent_text(b.tuned_ratio / b.best_ratio - 1)});
    std::cerr << "mc2: " << rows.back()[0] << " " << c.link << ": efficiency " << rows.back()[4] << "\n";
  }
  std::cout << "Overlap efficiency of tuned plans on emulated links, 2 ranks (median of paired runs)\n" << table(rows) << "\n";
  return ExitCode::Success;
}

// ---- prediction: models fitted on one m, asked for others ----

struct PredictionError {
  planner::OpSpec op;
  std::string cut;
  double predicted_us, measured_us;
  [[nodiscard]] double relative() const { return predicted_us / measured_us - 1; }
};

/// Races the plan that the model chooses for `op`, and compares with the prediction anchored at the uncut parts as
/// the same race measured them.
Result<PredictionError> predict_and_race(const planner::OpSpec& op, planner::CostModel model, const std::string& link,
                                         const std::string& virtual_compute, const TuneSettings& settings) {
  auto bench = open_bench(op, link, virtual_compute);
  if (!bench) return bench.error();
  const auto plan = planner::make_plan(op, model, settings.plan);
  if (!plan) return plan.error();
  const auto raced = race(*bench.value(), {plan.value()}, settings.race, "race " + op.text());
  if (!raced) return raced.error();
  const Contender& contender = raced.value().contenders.front();
  model.op.m = op.m;
  const auto predicted = anchored_prediction(raced.value(), contender, op, model);
  if (!predicted) return predicted.error();
  return PredictionError{op, contender.cut.text(), predicted.value().makespan.us, median(contender.fused_us)};
}

void print_errors(const std::string& title, const std::vector<PredictionError>& errors) {
  std::vector<std::vector<std::string>> rows{{"shape (not used for fitting)", "cut", "predicted", "measured", "error"}};
  std::vector<double> sizes;
  for (const auto& error : errors) {
    rows.push_back({error.op.text(), error.cut, time_text(error.predicted_us), time_text(error.measured_us),
                    percent_text(error.relative())});
    sizes.push_back(std::abs(error.relative()));
  }
  std::cout << title << "\n" << table(rows) << "  median error " << percent_text(median(sizes)) << ", worst "
            << percent_text(quantile(sizes, 1)) << " over " << errors.size() << " shapes\n\n";
}

/// Tunes (n, k) at `fit_m` rows, then predicts other m with that model.
Result<ExitCode> predict_others(std::int64_t n, std::int64_t k, std::int64_t fit_m,
                                const std::vector<std::int64_t>& asked_m, const std::string& link,
                                const std::string& virtual_compute, const TuneSettings& settings,
                                std::vector<PredictionError>& errors) {
  ScratchStore scratch;
  auto store = scratch.open();
  if (!store) return store.error();
  planner::CostModel model;
  {
    auto bench = open_bench(op_of(fit_m, n, k), link, virtual_compute);
    if (!bench) return bench.error();
    auto tuned = tune_operator(*bench.value(), settings, store.value());
    if (!tuned) return tuned.error();
    model = std::move(tuned).value().model;
  }
  for (const std::int64_t m : asked_m) {
    auto error = predict_and_race(op_of(m, n, k), model, link, virtual_compute, settings);
    if (!error) return error.error();
    errors.push_back(error.value());
  }
  return ExitCode::Success;
}

Result<ExitCode> BenchCommand::prediction() const {
  std::vector<PredictionError> errors;
  const std::vector<std::int64_t> asked_m{640, 1100, 1280, 2304};
  for (const auto& [n, k, link] : {std::tuple{1024, 1024, "2.5Gbit,20us"}, std::tuple{768, 2048, "1Gbit,20us"},
                                   std::tuple{1536, 768, "2.5Gbit,20us"}})
    if (auto done = predict_others(n, k, 1024, asked_m, link, "", settings(), errors); !done) return done;
  print_errors("Predicted against measured makespan, real matmul, emulated links 1 and 2.5 Gbit/s, 2 ranks", errors);
  return ExitCode::Success;
}

Result<ExitCode> BenchCommand::virtual_prediction() const {
  std::vector<PredictionError> errors;
  const std::vector<std::int64_t> asked_m{640, 896, 1100, 1536};
  for (const auto& [n, k, link] : {std::tuple{1024, 1024, "2.5Gbit,20us"}, std::tuple{512, 2048, "1Gbit,20us"},
                                   std::tuple{768, 3072, "1Gbit,50us"}})
    if (auto done = predict_others(n, k, 1024, asked_m, link, "90Gflops,10us", settings(), errors); !done) return done;
  print_errors("Predicted against measured makespan, virtual compute 90 Gflop/s, emulated links, 2 ranks", errors);
  return ExitCode::Success;
}

// ---- shm: nothing can be gained, and mc2 must say so ----

Result<ExitCode> BenchCommand::shared_memory() const {
  std::vector<std::vector<std::string>> rows{
      {"shape", "kept plan", "uniform 4 blocks, measured", "95 % interval", "verdict"}};
  for (const auto& op : {op_of(1024, 1024, 1024), op_of(2048, 1024, 512), op_of(1024, 2048, 256)}) {
    ScratchStore scratch;
    auto store = scratch.open();
    if (!store) return store.error();
    auto bench = open_bench(op, "shm");
    if (!bench) return bench.error();
    const auto tuned = tune_operator(*bench.value(), settings(), store.value());
    if (!tuned) return tuned.error();
    const planner::Cut four{std::vector<std::int64_t>(4, op.m / 4)};
    const auto plan = planner::predict_cut(op, tuned.value().model, tuned.value().plan.variant, four);
    if (!plan) return plan.error();
    const auto raced = race(*bench.value(), {plan.value()}, settings().race, "race 4 blocks");
    if (!raced) return raced.error();
    const planner::Validation v = raced.value().validation(raced.value().contenders.front());
    rows.push_back({op.text(), tuned.value().plan.is_cut() ? tuned.value().plan.cut.text() : "do not cut",
                    percent_text(v.benefit), percent_text(v.benefit_low) + " to " + percent_text(v.benefit_high),
                    v.benefit_low > 0 ? "a cut would have gained" : "right not to cut"});
  }
  std::cout << "Plain shared memory, 2 ranks: communication is CPU work\n" << table(rows) << "\n";
  return ExitCode::Success;
}

// ---- planning time ----

/// The published worked example as a model (docs/cost_model.md), for m = 16384.
planner::CostModel published_model() {
  planner::CostModel model;
  model.op = {planner::OpKind::MatmulAllReduce, 16384, 8192, 3072, planner::DType::F16, 8};
  planner::CostCurve compute, communication;
  compute.shape = planner::AffineCurve{0, 803.0 / 4096};
  compute.valid_max_x = 1e9;
  communication.axis = planner::CurveAxis::Bytes;
  communication.shape = planner::PiecewiseCurve{8 * planner::kBytesPerMib, planner::kBytesPerMib, -0.9698202,
                                                27.0622573, 14.769, 13.58491263, 61.508333};
  communication.valid_max_x = 1e12;
  model.variants.push_back({{"direct", {}}, {compute, 0, 1.05}, {communication, 0, 1.15}});
  return model;
}

Result<ExitCode> BenchCommand::planning() const {
  const planner::CostModel model = published_model();
  std::vector<std::vector<std::string>> rows{{"alignment", "legal cuts", "simulated", "median", "p99"}};
  constexpr int kRepeatCount = 3000;
  for (const std::int64_t alignment : {128, 64, 32}) {
    planner::PlanOptions options;
    options.alignment = alignment;
    std::vector<double> times_us;
    planner::Certificate certificate;
    for (int i = 0; i < kRepeatCount; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const auto plan = planner::make_plan(model.op, model, options);
      times_us.push_back(to_us(std::chrono::steady_clock::now() - start));
      if (!plan) return plan.error();
      certificate = plan.value().certificate.value();
    }
    rows.push_back({std::to_string(alignment), std::to_string(certificate.candidate_count),
                    std::to_string(certificate.simulated_count), time_text(median(times_us)),
                    time_text(quantile(times_us, 0.99))});
  }
  std::cout << "Planning time, m = 16384, from a loaded model, strategy search\n" << table(rows) << "\n";
  return ExitCode::Success;
}

Result<ExitCode> BenchCommand::all() const {
  for (const auto member : {&BenchCommand::planning, &BenchCommand::virtual_prediction, &BenchCommand::shared_memory,
                            &BenchCommand::overlap, &BenchCommand::prediction})
    if (auto done = (this->*member)(); !done) return done;
  return ExitCode::Success;
}

} // namespace

Command add_bench(CLI::App& app) {
  auto command = std::make_shared<BenchCommand>();
  auto* bench = app.add_subcommand("bench", "print the figures of docs/benchmarks.md, measured on this machine");
  bench->require_subcommand(1);
  bench->add_option("--race-budget", command->race_budget_s, "seconds for each race")->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  using Member = Result<ExitCode> (BenchCommand::*)() const;
  const auto add = [&](const char* name, const char* help, Member member) {
    bench->add_subcommand(name, help)->callback([raw = command.get(), member] {
      raw->action = [raw, member] { return (raw->*member)(); };
    });
  };
  add("overlap", "tuned plans against the ideal and against brute force over the family", &BenchCommand::overlap);
  add("prediction", "predicted against measured makespan, real matmul", &BenchCommand::prediction);
  add("virtual", "predicted against measured makespan, virtual compute", &BenchCommand::virtual_prediction);
  add("shm", "plain shared memory, where a cut gains nothing", &BenchCommand::shared_memory);
  add("planning", "time to make a plan from a loaded model", &BenchCommand::planning);
  auto* active = bench->add_subcommand("active", "plan quality against number of measurements, active and fixed grid");
  command->active.add_to(*active);
  active->callback([raw = command.get()] { raw->action = [raw] { return raw->active.run(); }; });
  add("all", "all of the above, about 20 minutes", &BenchCommand::all);
  bench->footer("Example:\n  mc2 bench planning");
  return {bench, [command] { return command->action(); }};
}

} // namespace mc2::cli
