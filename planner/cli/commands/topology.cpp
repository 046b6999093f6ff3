#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "commands/commands.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "options/numbers.hpp"
#include "options/topology_files.hpp"
#include "pages/render.hpp"
#include "pages/report.hpp"
#include "pages/text.hpp"

namespace mc2::cli {
namespace {

using planner::CollectiveSpec;
using planner::CollectiveTime;
using planner::Topology;

struct TopologyCommand {
  std::string file, points_file, out;
  std::string collective = "all_reduce";
  std::optional<int> ranks; ///< unset: all ranks of the cluster
  bool is_json = false;

  [[nodiscard]] Result<ExitCode> run() const;
};

std::string bandwidth_text(const CollectiveSpec& spec, double us) {
  return number(spec.message_bytes * bus_factor(spec.collective, spec.world_size) / us / 1e3, "%.2f");
}

/// The times of one message size: of every algorithm, and the best.
struct SizeTimes {
  CollectiveSpec spec;
  std::vector<CollectiveTime> times;
  CollectiveTime best;
  double interval = 0; ///< half-width of best's 90 % interval, relative
};

/// Times for sizes from 1 KiB to 4 GiB; at least one.
Result<std::vector<SizeTimes>> times_by_size(const Topology& topology, CollectiveSpec spec) {
  std::vector<SizeTimes> result;
  for (spec.message_bytes = 1024; spec.message_bytes <= 4.0 * 1024 * 1024 * 1024; spec.message_bytes *= 4) {
    MC2_ASSIGN(auto times, planner::collective_times(topology, spec));
    MC2_ASSIGN(const auto best, planner::best_collective_time(topology, spec));
    MC2_ASSIGN(const double interval, planner::collective_interval(topology, spec, best.algorithm));
    result.push_back({spec, std::move(times), best, interval});
  }
  return result;
}

std::string times_page(const std::vector<SizeTimes>& sizes) {
  std::vector<std::vector<std::string>> rows{{"bytes"}};
  for (const CollectiveTime& time : sizes.front().times) rows.front().push_back(std::string(to_string(time.algorithm)));
  rows.front().insert(rows.front().end(), {"fastest", "protocol", "busbw GB/s", "90 %"});
  for (const auto& [spec, times, best, interval] : sizes) {
    rows.push_back({bytes_text(static_cast<std::int64_t>(spec.message_bytes))});
    for (const CollectiveTime& time : times) rows.back().push_back(time_text(time.us));
    rows.back().insert(rows.back().end(), {std::string(to_string(best.algorithm)), std::string(best.protocol),
                                           bandwidth_text(spec, best.us), "+-" + percent_text(interval, 0)});
  }
  return table(rows);
}

nlohmann::json times_report(const Topology& topology, const CollectiveSpec& asked,
                            const std::vector<SizeTimes>& sizes) {
  auto rows = nlohmann::json::array();
  for (const auto& [spec, times, best, interval] : sizes) {
    nlohmann::json row{{"bytes", static_cast<std::int64_t>(spec.message_bytes)},
                       {"fastest", to_string(best.algorithm)},
                       {"protocol", best.protocol},
                       {"us", best.us},
                       {"relative_interval", interval},
                       {"algorithms", nlohmann::json::object()}};
    for (const CollectiveTime& time : times) row["algorithms"][std::string(to_string(time.algorithm))] = time.us;
    rows.push_back(std::move(row));
  }
  return {{"topology", topology.name},
          {"calibration", topology.calibration},
          {"collective", to_string(asked.collective)},
          {"ranks", asked.world_size},
          {"sizes", std::move(rows)}};
}

std::string heading_text(const Topology& topology, const CollectiveSpec& spec) {
  const int nodes = (spec.world_size + topology.ranks_per_node - 1) / topology.ranks_per_node;
  return std::string(to_string(spec.collective)) + " over " + std::to_string(spec.world_size) + " ranks, " +
         std::to_string(nodes) + (nodes == 1 ? " node" : " nodes") + " of " + topology.name + ", " +
         std::string(to_string(topology.transport)) + ": ANALYTIC, " +
         (topology.calibration.empty() ? "published constants" : "calibrated with " + topology.calibration);
}

std::string calibration_page(const profiler::TopologyCalibration& calibration) {
  std::vector<std::vector<std::string>> rows{{"constant", "factor", "90 % interval", "determined by the points"}};
  for (const auto& factor : calibration.factors) {
    rows.push_back({factor.name, number(factor.factor, "%.3g"),
                    number(factor.low, "%.3g") + number(factor.high, " to %.3g"), factor.is_determined ? "yes" : "no"});
  }
  return table(rows) + remark(calibration.text, kPageColumns) + "\n";
}

Result<ExitCode> TopologyCommand::run() const {
  MC2_TRY(check_output("--out", out, {file, points_file}));
  auto read = read_topology(file);
  if (!read)
    return read.error().field == "topology" ? Error{read.error().code, "FILE", read.error().message} : read.error();
  Topology topology = std::move(read).value();
  if (!points_file.empty()) {
    MC2_ASSIGN(const auto points, read_points(points_file, topology));
    MC2_ASSIGN(const auto calibration, profiler::calibrate_topology(topology, points));
    if (!is_json) std::cout << calibration_page(calibration);
    topology = calibration.topology;
  }
  MC2_ASSIGN(const auto kind, planner::parse_collective(collective));
  const std::int64_t all = std::int64_t{topology.node_count} * topology.ranks_per_node;
  const int most = static_cast<int>(std::min<std::int64_t>(all, planner::kMaxWorldSize));
  const CollectiveSpec spec{
      kind, 0, ranks.value_or(most - (most > topology.ranks_per_node ? most % topology.ranks_per_node : 0))};
  MC2_ASSIGN(const auto sizes, times_by_size(topology, spec));
  if (is_json)
    print_report("mc2.collective_times/1", times_report(topology, spec, sizes));
  else
    std::cout << render::hanging("", heading_text(topology, spec), kPageColumns) << times_page(sizes);
  if (!out.empty()) write_file(out, store::pretty(store::encode(topology)));
  return ExitCode::Success;
}

} // namespace

Command add_topology(CLI::App& app) {
  auto command = std::make_shared<TopologyCommand>();
  auto* sub = app.add_subcommand("topology", "predict a collective's time on a described cluster");
  sub->add_option("FILE", command->file,
                  "topology document, or the name of a published cluster, e.g. dgx_h100; an unknown name lists them")
      ->required();
  sub->add_option("--collective", command->collective, "all_reduce, reduce_scatter, all_gather or all_to_all")
      ->capture_default_str();
  sub->add_option("--ranks", command->ranks, "ranks that take part (default: all of the cluster)")->check(rank_count());
  sub->add_option("--calibrate", command->points_file, "fit the constants to this CSV: collective,ranks,bytes,us");
  add_json(*sub, command->is_json, "the times of each size");
  sub->add_option("--out", command->out, "write the (calibrated) topology to this JSON file");
  sub->footer(
      "Examples:\n  mc2 topology dgx_h100 --ranks 256\n"
      "  mc2 topology data/topologies/aws_p3dn_efa.json --out my_cluster.json \\\n"
      "               --calibrate data/published/p3dn_efa_all_reduce.csv");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
