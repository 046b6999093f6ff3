#pragma once

#include <string>
#include <vector>

#include "collective_rig.hpp"
#include "collective_times.hpp"
#include "context.hpp"
#include "support.hpp"

namespace mc2::cli {

/// `mc2-bench overlap`: tuned plans against the ideal and against every plan of the family.
/// Errors: as tune_operator and race_family.
[[nodiscard]] Result<ExitCode> bench_overlap(const TuneSettings& settings);

/// `mc2-bench shm`: plain shared memory, where cutting gains nothing and mc2 must plan accordingly.
/// Errors: as tune_operator and race.
[[nodiscard]] Result<ExitCode> bench_shared_memory(const TuneSettings& settings);

/// `mc2-bench virtual`: predictions for other m by models fitted at one m, on virtual compute. Each prediction is
/// anchored at the uncut parts that its race measures. Errors: as tune_operator and race.
[[nodiscard]] Result<ExitCode> bench_virtual_prediction(const TuneSettings& settings);

/// `mc2-bench planning`: time to make a plan from a loaded model. Errors: as planner::make_plan.
[[nodiscard]] Result<ExitCode> bench_planning();

/// `mc2-bench cases`: reproduces a file of published cases and compares mc2's plans with the published ones.
/// Errors: as read_file and parse_published_cases.
[[nodiscard]] Result<ExitCode> bench_published_cases(const std::string& file);

/// `mc2-bench sweep`: time of a sweep of 10,000 plans on one and on two threads, its table included. The layers are
/// those of the models of data/llm/ at 2, 4 and 8 ranks, with m in steps up to 16384. The cost models take no time to
/// find. Errors: Cancelled.
[[nodiscard]] Result<ExitCode> bench_sweep();

/// `mc2-bench transfer`: leave-one-shape-out errors of models that answer for another n and k, profiled on this
/// machine. Errors: as profile_operator and profiler::fit_cost_model.
[[nodiscard]] Result<ExitCode> bench_transfer();

/// `mc2-bench unseen`: plans for other m from models tuned at one m: prediction errors, coverage of the intervals,
/// regret against a measured brute force, and a comparison of strategies. Errors: as tune_operator and race.
[[nodiscard]] Result<ExitCode> bench_unseen(double race_budget_s, const std::string& csv_file);

/// `mc2-bench routing`: plans for tables of row counts that were not profiled, for ranks with several experts, on an
/// emulated link and virtual compute: prediction errors, overlap efficiency, and the loss of a plan that assumes an
/// imbalance of 1.5.
/// @param table_count  tables of each kind
/// Errors: as tune_operator and race.
[[nodiscard]] Result<ExitCode> bench_routing(int table_count, double race_budget_s, const std::string& csv_file);

/// `mc2-bench operators`: every kind tuned on emulated links, with real matmul on as many ranks as there are cores for
/// their lanes, and with virtual compute on 4 ranks. Errors: as tune_operator and race.
[[nodiscard]] Result<ExitCode> bench_operators(const TuneSettings& settings);

/// `mc2-bench order`: the gain when ranks serve their peers in staggered order, on emulated links.
/// Errors: as Workbench::open, Workbench::prepare and Workbench::verify; Cancelled.
[[nodiscard]] Result<ExitCode> bench_order();

/// `mc2-bench topology`: errors of the collective model at every published point in `data_folder`/published, once with
/// published constants and once calibrated from the small-scale part of each curve.
/// Errors: as read_topology, read_points and profiler::calibrate_topology.
[[nodiscard]] Result<ExitCode> bench_topology(const std::string& data_folder);

/// `mc2-bench norm`: all-reduce, residual and RMSNorm on the host's lanes, in one pass and in three.
/// Errors: Mismatch, Cancelled.
[[nodiscard]] Result<ExitCode> bench_norm();

/// `mc2-bench epilogue`: all-reduces of few and many rows on any backend, bare and with residual and RMSNorm, timed in
/// pairs, with the variant that is the fastest with residual and RMSNorm.
/// Errors: UnknownName, InvalidSpec, Unsupported, Cancelled, Mismatch.
struct EpilogueBench {
  CollectiveOptions where;

  void add_to(CLI::App& app);
  [[nodiscard]] Result<ExitCode> run() const;
};

/// `mc2-bench collectives`: the collectives of all variants of a backend over message sizes. Each is checked; then the
/// variants take turns and are timed in three modes (collective_times.hpp).
/// Errors: UnknownName, InvalidSpec, Unsupported, Cancelled, Mismatch.
struct CollectivesBench {
  CollectiveOptions where;
  std::string kind = "matmul_all_reduce";
  std::int64_t first_bytes = std::int64_t{1} << 10U, last_bytes = std::int64_t{64} << 20U;
  double budget_s = 2;
  std::string chart_file, csv_file;

  void add_to(CLI::App& app);
  [[nodiscard]] Result<ExitCode> run() const;

 private:
  void print(const std::vector<CollectiveTimes>& sizes, const std::vector<std::string>& variants, double bus_factor,
             const std::string& machine_label) const;
};

/// `mc2-bench messages`: rate, bandwidth and latency of messages between two ranks of the host backend, over size.
/// Compares pull with push, and a proxy thread with the sender's own thread. Errors: Cancelled.
[[nodiscard]] Result<ExitCode> bench_messages();

/// `mc2-bench embedding`: time to find a plan that is remembered and one that is not, and the cost per block of the
/// host backend's Prepared::run() over the same calls written by hand, in `pair_count` pairs. Errors: as Store::open;
/// Cancelled.
[[nodiscard]] Result<ExitCode> bench_embedding(int pair_count);

} // namespace mc2::cli
