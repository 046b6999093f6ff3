#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <string>

#include "all_reduce.hpp"
#include "benches.hpp"
#include "peers.hpp"
#include "prediction.hpp"
#include "profiling.hpp"
#include "program.hpp"
#include "refining.hpp"
#include "regret.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

/// The command line of `mc2-bench`: one subcommand for each benchmark.
class Benchmarks {
 public:
  explicit Benchmarks(CLI::App& app) : app_(app) {
    app.require_subcommand(0, 1);
    app.add_flag("--peers", is_peers_, "the same as `mc2-bench peers`");
    app.add_option("--backend", peers_.machine.backend, "of --peers")->capture_default_str();
    add_race_budget(app); // accepted here, too, because existing scripts write it before the subcommand
    add_members_of_all();
    add_on_this_machine();
    add_on_any_backend();
    app.footer("Example:\n  mc2-bench planning");
  }

  /// Lists the benchmarks where none is named. Errors: InvalidSpec for --peers beside another; as the benchmark.
  [[nodiscard]] Result<ExitCode> run() const {
    if (action_ && is_peers_)
      return Error{ErrorCode::InvalidSpec, "--peers", "is a figure of its own; leave the other out"};
    if (action_) return action_();
    if (is_peers_) return peers_.run();
    std::cout << app_.help();
    return ExitCode::Success;
  }

 private:
  CLI::App& add(const char* name, const char* help, const Action& action) {
    CLI::App* command = app_.add_subcommand(name, help);
    command->callback([this, action] { action_ = action; });
    return *command;
  }

  void add_race_budget(CLI::App& command) {
    command.add_option("--race-budget", race_budget_s_, "seconds for each race")
        ->capture_default_str()
        ->check(CLI::Range(0.1, 3600.0));
  }

  CLI::App& add_racing(const char* name, const char* help, const Action& action) {
    CLI::App& command = add(name, help, action);
    add_race_budget(command);
    return command;
  }

  template <typename Bench>
  void add_with_options(const char* name, const char* help, Bench& bench) {
    bench.add_to(add(name, help, [&bench] { return bench.run(); }));
  }

  void add_members_of_all() {
    add_racing("overlap", "tuned plans against the ideal and against brute force over the family",
               [this] { return bench_overlap(settings()); });
    add_racing("virtual", "predicted against measured makespan, virtual compute",
               [this] { return bench_virtual_prediction(settings()); });
    add_racing("shm", "plain shared memory, where a cut gains nothing",
               [this] { return bench_shared_memory(settings()); });
    add("planning", "time to make a plan from a loaded model", bench_planning);
    add("sweep", "time of 10,000 plans over a grid, on one and two threads", bench_sweep);
    add("topology", "analytic collective times against published curves",
        [this] { return bench_topology(data_folder_); })
        .add_option("DATA", data_folder_, "folder with topologies/ and published/")
        ->capture_default_str();
    add_racing("all", "all of the above, about 20 minutes", [this] { return all(); });
  }

  void add_on_this_machine() {
    add("cases", "published layer shapes: another planner's plans and mc2's",
        [this] { return bench_published_cases(cases_file_); })
        .add_option("FILE", cases_file_, "cases, in the format of data/ascend_910b_cases.csv")
        ->capture_default_str();
    add("order", "8 ranks that start at rank 0 or staggered, emulated links; under a minute", bench_order);
    add_racing("operators", "every operator tuned on emulated links, its overlap efficiency; about 10 minutes",
               [this] { return bench_operators(settings()); });
    auto& routing = add_racing("routing", "unequal counts of several experts a rank; 8 minutes at 8 s a race",
                               [this] { return bench_routing(table_count_, race_budget_s_, csv_file_); });
    routing.add_option("--csv", csv_file_, "also write a row of each table to this file");
    routing.add_option("--tables", table_count_, "tables of counts, of each kind")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    add("transfer", "models that answer for another n and k, one shape left out in turn; about 2 minutes",
        bench_transfer);
    add("messages", "message rate and latency: pull, push, and push by a proxy thread; some seconds", bench_messages);
    add("norm", "all-reduce + residual + RMSNorm in one pass and in three; some seconds", bench_norm);
    add("embedding", "what looking up a plan and running it costs a host program; some seconds",
        [this] { return bench_embedding(embedding_pairs_); })
        .add_option("--pairs", embedding_pairs_, "runs by hand and by mc2, in turn")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000));
    add_racing("unseen", "60 shapes that no model was fitted to: errors, intervals, regret; 75 minutes at 8 s a race",
               [this] { return bench_unseen(race_budget_s_, csv_file_); })
        .add_option("--csv", csv_file_, "also write a row of each shape to this file");
    add_with_options("prediction",
                     "printed and anchored predictions beside what was measured; about 8 minutes a session",
                     prediction_);
    add_with_options("profiling", "plan quality against number of measurements, on simulated machines", profiling_);
    add_with_options("refining", "plan quality after each round of measured cuts, on simulated NPUs", refining_);
  }

  void add_on_any_backend() {
    add_with_options("collectives",
                     "a collective alone, every variant of a backend, 1 KiB to 64 MiB, in three timing modes",
                     collectives_);
    add_with_options("epilogue", "what residual and RMSNorm add to an all-reduce, on any backend; some seconds",
                     epilogue_);
    add_with_options("allreduce", "all-reduce between processes of one node beside MPI_Allreduce", all_reduce_);
    add_with_options("peers", "tuned plans beside the best serial and PyTorch's operators, on GPUs", peers_);
    add_with_options("regret", "tuned plans against every cut with every variant, on any backend", regret_);
  }

  [[nodiscard]] TuneSettings settings() const { return bench_settings(race_budget_s_); }

  [[nodiscard]] Result<ExitCode> all() const {
    for (const Action& member :
         {Action(bench_planning), Action(bench_sweep), Action([this] { return bench_topology(data_folder_); }),
          Action([this] { return bench_virtual_prediction(settings()); }),
          Action([this] { return bench_shared_memory(settings()); }),
          Action([this] { return bench_overlap(settings()); })})
      MC2_TRY(member());
    return ExitCode::Success;
  }

  CLI::App& app_;
  double race_budget_s_ = 45;
  int embedding_pairs_ = 401, table_count_ = 20;
  std::string data_folder_ = "data";
  std::string cases_file_ = "data/ascend_910b_cases.csv", csv_file_;
  AllReduceBench all_reduce_;
  CollectivesBench collectives_;
  EpilogueBench epilogue_;
  PeersBench peers_;
  PredictionBench prediction_;
  ProfilingBench profiling_;
  RefiningBench refining_;
  RegretBench regret_;
  Action action_; ///< runs the benchmark that was asked for
  bool is_peers_ = false;
};

int run(int argc, char** argv) {
  CLI::App app{"mc2-bench: print the figures of docs/benchmarks.md, measured on this machine", "mc2-bench"};
  Benchmarks benchmarks(app);
  return parse_and_run(app, argc, argv, [&] { return benchmarks.run(); });
}

} // namespace
} // namespace mc2::cli

int main(int argc, char** argv) { return mc2::cli::run_main("mc2-bench", argc, argv, mc2::cli::run); }
