#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>

#include "bench_active.hpp"
#include "bench_all_reduce.hpp"
#include "bench_peers.hpp"
#include "bench_regret.hpp"
#include "bench_support.hpp"
#include "benches.hpp"
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

struct BenchCommand {
  double race_budget_s = 45;
  int embedding_pairs = 401;
  std::string data_folder = "data";
  std::string cases_file = "data/ascend_910b_cases.csv";
  ActiveBench active;
  AllReduceBench all_reduce;
  CollectivesBench collectives;
  PeersBench peers;
  RegretBench regret;
  Action action; ///< of the figure that was asked for
  bool is_peers = false;

  [[nodiscard]] TuneSettings settings() const { return bench_settings(race_budget_s); }
  [[nodiscard]] Result<ExitCode> overlap() const;
  [[nodiscard]] Result<ExitCode> prediction() const;
  [[nodiscard]] Result<ExitCode> virtual_prediction() const;
  [[nodiscard]] Result<ExitCode> shared_memory() const;
  [[nodiscard]] Result<ExitCode> planning() const;
  [[nodiscard]] Result<ExitCode> sweep() const { return bench_sweep(); }
  [[nodiscard]] Result<ExitCode> topology() const { return bench_topology(data_folder); }
  [[nodiscard]] Result<ExitCode> all() const;
  [[nodiscard]] Result<ExitCode> run() const;
};

// ---- overlap: the tuned plan against the ideal and against every plan of the family ----

struct OverlapCase {
  std::int64_t m, n, k;
  const char* link;
};

profiler::Interval efficiency_of(const Race& race, const planner::Cut& cut) {
  profiler::Interval result;
  for (const auto& contender : race.contenders)
    if (contender.cut == cut) result = race.overlap_efficiency(contender);
  return result;
}

Result<ExitCode> BenchCommand::overlap() const {
  const std::vector<OverlapCase> cases{{1024, 1024, 1024, "2.5Gbit,20us"},
                                       {1536, 1024, 1024, "2.5Gbit,20us"},
                                       {1024, 1024, 2048, "1Gbit,20us"},
                                       {1024, 768, 3072, "1Gbit,20us"},
                                       {1024, 1024, 2048, "2.5Gbit,20us"}};
  std::vector<std::vector<std::string>> rows{
      {"shape", "link", "ideal", "tuned", "efficiency", "95 % interval", "best of family", "cuts", "tuned/best"}};
  for (const auto& c : cases) {
    ScratchStore scratch;
    auto store = scratch.open();
    if (!store) return store.error();
    auto bench = open_bench(bench_op(c.m, c.n, c.k), c.link);
    if (!bench) return bench.error();
    const auto tuned = tune_operator(*bench.value(), settings(), store.value());
    if (!tuned) return tuned.error();
    const planner::Cut& cut = tuned.value().plan.cut;
    const auto raced = race_family(*bench.value(), settings().plan, tuned.value().plan.variant, {cut});
    if (!raced) return raced.error();
    const FamilyRace& family = raced.value();
    const profiler::Interval efficiency = efficiency_of(family.race, cut);
    rows.push_back({bench.value()->op().text(), c.link, percent_text(ideal_benefit(family.race)), cut.text(),
                    percent_text(efficiency.value),
                    percent_text(efficiency.low) + " to " + percent_text(efficiency.high), family.best_cut.text(),
                    std::to_string(family.family_size), percent_text(family.regret_of(cut))});
    std::cerr << "mc2: " << rows.back()[0] << " " << c.link << ": efficiency " << rows.back()[4] << "\n";
  }
  std::cout << "Overlap efficiency of tuned plans on emulated links, 2 ranks (median of paired runs)\n"
            << table(rows) << "\n";
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
  const auto predicted = anchored_prediction(contender, op, model);
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
  std::cout << title << "\n"
            << table(rows) << "  median error " << percent_text(median(sizes)) << ", worst "
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
    auto bench = open_bench(bench_op(fit_m, n, k), link, virtual_compute);
    if (!bench) return bench.error();
    auto tuned = tune_operator(*bench.value(), settings, store.value());
    if (!tuned) return tuned.error();
    model = std::move(tuned).value().model;
  }
  for (const std::int64_t m : asked_m) {
    auto error = predict_and_race(bench_op(m, n, k), model, link, virtual_compute, settings);
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
  for (const auto& op : {bench_op(1024, 1024, 1024), bench_op(2048, 1024, 512), bench_op(1024, 2048, 256)}) {
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
  communication.shape = planner::PiecewiseCurve{
      8 * planner::kBytesPerMib, planner::kBytesPerMib, -0.9698202, 27.0622573, 14.769, 13.58491263, 61.508333};
  communication.valid_max_x = 1e12;
  model.variants.push_back({{"direct", {}}, {compute, 0, 1.05}, {communication, 0, 1.15}});
  return model;
}

Result<ExitCode> BenchCommand::planning() const {
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
                    time_text(quantile(times_us, 0.99))});
  }
  std::cout << "Planning time, m = 16384, from a loaded model, one variant\n" << table(rows) << "\n";
  return ExitCode::Success;
}

Result<ExitCode> BenchCommand::all() const {
  for (const auto member :
       {&BenchCommand::planning, &BenchCommand::sweep, &BenchCommand::topology, &BenchCommand::virtual_prediction,
        &BenchCommand::shared_memory, &BenchCommand::overlap, &BenchCommand::prediction})
    if (auto done = (this->*member)(); !done) return done;
  return ExitCode::Success;
}

Result<ExitCode> BenchCommand::run() const {
  if (action && is_peers)
    return Error{ErrorCode::InvalidSpec, "--peers", "is a figure of its own; leave the other out"};
  if (action) return action();
  if (is_peers) return peers.run();
  return Error{ErrorCode::InvalidSpec, "bench", "says which figure; `mc2 bench --help` lists them"};
}

} // namespace

Command add_bench(CLI::App& app) {
  auto command = std::make_shared<BenchCommand>();
  auto* bench = app.add_subcommand("bench", "print the figures of docs/benchmarks.md, measured on this machine");
  bench->require_subcommand(0, 1);
  bench->add_flag("--peers", command->is_peers, "the same as `mc2 bench peers`");
  bench->add_option("--backend", command->peers.machine.backend, "of --peers")->capture_default_str();
  const auto add_race_budget = [raw = command.get()](CLI::App& app) {
    app.add_option("--race-budget", raw->race_budget_s, "seconds for each race")
        ->capture_default_str()
        ->check(CLI::Range(0.1, 3600.0));
  };
  add_race_budget(*bench); // scripts that were written for it to stand here go on
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
  add("sweep", "time of 10,000 plans over a grid, on one and two threads", &BenchCommand::sweep);
  auto* topology = bench->add_subcommand("topology", "analytic collective times against published curves");
  topology->add_option("data", command->data_folder, "folder with topologies/ and published/")->capture_default_str();
  topology->callback([raw = command.get()] { raw->action = [raw] { return raw->topology(); }; });
  auto* cases = bench->add_subcommand("cases", "published layer shapes: another planner's plans and mc2's");
  cases->add_option("file", command->cases_file, "cases, in the format of data/ascend_910b_cases.csv")
      ->capture_default_str();
  cases->callback([raw = command.get()] { raw->action = [raw] { return bench_published_cases(raw->cases_file); }; });
  bench->add_subcommand("order", "8 ranks that start at rank 0 or staggered, emulated links; under a minute")
      ->callback([raw = command.get()] { raw->action = [] { return bench_order(); }; });
  bench->add_subcommand("operators", "every operator tuned on emulated links, its overlap efficiency; about 10 minutes")
      ->callback([raw = command.get()] { raw->action = [raw] { return bench_operators(raw->settings()); }; });
  bench
      ->add_subcommand("transfer",
                       "models that answer for another n and k, one shape left out in turn; about 2 minutes")
      ->callback([raw = command.get()] { raw->action = [] { return bench_transfer(); }; });
  auto* collectives = bench->add_subcommand(
      "collectives", "all-reduce alone, every variant of a backend, 1 KiB to 64 MiB, in three timing modes");
  command->collectives.add_to(*collectives);
  collectives->callback([raw = command.get()] { raw->action = [raw] { return raw->collectives.run(); }; });
  auto* all_reduce =
      bench->add_subcommand("allreduce", "all-reduce between processes of one node beside MPI_Allreduce");
  command->all_reduce.add_to(*all_reduce);
  all_reduce->callback([raw = command.get()] { raw->action = [raw] { return raw->all_reduce.run(); }; });
  bench->add_subcommand("messages", "message rate and latency: pull, push, and push by a proxy thread; some seconds")
      ->callback([raw = command.get()] { raw->action = [] { return bench_messages(); }; });
  auto* embedding =
      bench->add_subcommand("embedding", "what looking up a plan and running it costs a host program; some seconds");
  embedding->add_option("--pairs", command->embedding_pairs, "runs by hand and by mc2, in turn")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  embedding->callback([raw = command.get()] { raw->action = [raw] { return bench_embedding(raw->embedding_pairs); }; });
  bench->add_subcommand("unseen", "20 shapes that no model was fitted to: errors, intervals, regret; about 15 minutes")
      ->callback([raw = command.get()] { raw->action = [raw] { return bench_unseen(raw->race_budget_s); }; });
  auto* active = bench->add_subcommand("active", "plan quality against number of measurements, active and fixed grid");
  command->active.add_to(*active);
  active->callback([raw = command.get()] { raw->action = [raw] { return raw->active.run(); }; });
  add("all", "all of the above, about 20 minutes", &BenchCommand::all);
  auto* peers = bench->add_subcommand("peers", "tuned plans beside the best serial and PyTorch's operators, on GPUs");
  command->peers.add_to(*peers);
  peers->callback([raw = command.get()] { raw->action = [raw] { return raw->peers.run(); }; });
  auto* regret = bench->add_subcommand("regret", "tuned plans against every cut with every variant, on any backend");
  command->regret.add_to(*regret);
  regret->callback([raw = command.get()] { raw->action = [raw] { return raw->regret.run(); }; });
  for (const char* racing : {"overlap", "prediction", "virtual", "shm", "operators", "unseen", "all"})
    add_race_budget(*bench->get_subcommand(racing));
  bench->footer("Example:\n  mc2 bench planning");
  return {bench, [command] { return command->run(); }};
}

} // namespace mc2::cli
