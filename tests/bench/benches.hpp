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

/// `mc2-bench shm`: plain shared memory, where nothing can be gained and mc2 must say so.
/// Errors: as tune_operator and race.
[[nodiscard]] Result<ExitCode> bench_shared_memory(const TuneSettings& settings);

/// `mc2-bench virtual`: models fitted on one m, asked for others; virtual compute, anchored by each race.
/// Errors: as tune_operator and race.
[[nodiscard]] Result<ExitCode> bench_virtual_prediction(const TuneSettings& settings);

/// `mc2-bench planning`: time to make a plan from a loaded model. Errors: as planner::make_plan.
[[nodiscard]] Result<ExitCode> bench_planning();

/// `mc2-bench cases`: reproduces a file of published cases and compares mc2's plans with the published ones.
/// Errors: as read_file and parse_published_cases.
[[nodiscard]] Result<ExitCode> bench_published_cases(const std::string& file);

/// `mc2-bench sweep`: how long a sweep of 10,000 plans takes on one and on two threads. The layers of
/// the models of data/llm/ at 2, 4 and 8 ranks, m in steps up to 16384, cost models that cost nothing to find, the
/// table included. Errors: Cancelled.
[[nodiscard]] Result<ExitCode> bench_sweep();

/// `mc2-bench transfer`: leave-one-shape-out errors of models that answer for another n and k, profiled on this
/// machine. Errors: as profile_operator and profiler::fit_cost_model.
[[nodiscard]] Result<ExitCode> bench_transfer();

/// `mc2-bench unseen`: models tuned at one m, asked for others: prediction errors, coverage of the intervals, regret to
/// a measured brute force, and strategies that compete.
/// Errors: as tune_operator and race.
[[nodiscard]] Result<ExitCode> bench_unseen(double race_budget_s, const std::string& csv_file);

/// `mc2-bench routing`: plans for tables of counts that nobody profiled, of ranks with several experts on an emulated
/// link, virtual compute: prediction errors, overlap efficiency, and what a plan for an imbalance of 1.5 loses.
/// @param table_count of each kind. Errors: as tune_operator and race.
[[nodiscard]] Result<ExitCode> bench_routing(int table_count, double race_budget_s, const std::string& csv_file);

/// `mc2-bench operators`: every kind tuned on emulated links: real matmul on as many ranks as lanes fit the cores, and
/// virtual compute on 4. Errors: as tune_operator and race.
[[nodiscard]] Result<ExitCode> bench_operators(const TuneSettings& settings);

/// `mc2-bench order`: what it gains that ranks turn to their peers in staggered order, on emulated links.
/// Errors: as Workbench::open, Workbench::prepare and Workbench::verify; Cancelled.
[[nodiscard]] Result<ExitCode> bench_order();

/// `mc2-bench topology`: the collective model beside every published point in `data_folder`/published, with published
/// constants and calibrated from the small-scale part of each curve, and the errors of both.
/// Errors: as read_topology, read_points and profiler::calibrate_topology.
[[nodiscard]] Result<ExitCode> bench_topology(const std::string& data_folder);

/// `mc2-bench norm`: all-reduce, residual and RMSNorm of the host's lanes together and one after the other.
/// Errors: Mismatch, Cancelled.
[[nodiscard]] Result<ExitCode> bench_norm();

/// `mc2-bench epilogue`: the all-reduce of few and many rows on any backend, bare and with residual and RMSNorm, in
/// pairs; of the variant that is the fastest with both. Errors: UnknownName, InvalidSpec, Unsupported, Cancelled,
/// Mismatch.
struct EpilogueBench {
  CollectiveOptions where;

  void add_to(CLI::App& app);
  [[nodiscard]] Result<ExitCode> run() const;
};

/// `mc2-bench collectives`: the collective of every variant of a backend over message sizes, each checked, then timed
/// in turn in three modes (collective_times.hpp). Errors: UnknownName, InvalidSpec, Unsupported, Cancelled, Mismatch.
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

/// `mc2-bench messages`: rate, bandwidth and latency of messages between two ranks of the host backend, over size: pull
/// against push, a proxy thread against the sender's own. Errors: Cancelled.
[[nodiscard]] Result<ExitCode> bench_messages();

/// `mc2-bench embedding`: time to find a plan that is remembered and one that is not, and what Prepared::run() of the
/// host backend costs for each block beside the same calls written by hand, in so many pairs. Errors: as Store::open;
/// Cancelled.
[[nodiscard]] Result<ExitCode> bench_embedding(int pair_count);

} // namespace mc2::cli
