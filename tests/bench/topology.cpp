#include "benches.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/statistics.hpp"
#include "options/topology_files.hpp"
#include "pages/render.hpp"

namespace mc2::cli {
namespace {

using profiler::CollectivePoint;

/// A published curve, the topology that describes its machine, and the limits of small scale there. Points of small
/// scale serve for the calibration; the others are predicted.
struct PublishedCurve {
  const char* points;
  const char* topology;
  bool is_held_out;   ///< not used to choose formulas, constants and intervals
  int small_ranks;    ///< most ranks of small scale
  double small_bytes; ///< most bytes of small scale
};

constexpr double kAnyBytes = 1e18;
constexpr int kAnyRanks = planner::kMaxWorldSize;
constexpr double kSmallBytes = 4.0 * 1024 * 1024;

constexpr std::array kCurves{
    PublishedCurve{"b200_4_nodes_all_reduce", "aws_p6_b200_efa", false, kAnyRanks, kSmallBytes},
    PublishedCurve{"h200_1_node_all_reduce", "dgx_h100", false, kAnyRanks, kSmallBytes},
    PublishedCurve{"ascend_8_all_reduce", "ascend_910b", false, kAnyRanks, kSmallBytes},
    PublishedCurve{"p3dn_efa_all_reduce", "aws_p3dn_efa", false, 16, kAnyBytes},
    PublishedCurve{"deepep_low_latency_all_to_all", "h800_device_initiated", false, 16, kAnyBytes},
    PublishedCurve{"h100_infiniband_all_reduce", "dgx_h100", true, 16, kSmallBytes},
    PublishedCurve{"h100_10_nodes", "dgx_h100", true, kAnyRanks, 64 * 1024 * 1024},
    PublishedCurve{"a100_infiniband_all_reduce", "dgx_a100", true, kAnyRanks, kSmallBytes},
    PublishedCurve{"a100_roce_all_reduce", "dgx_a100", true, kAnyRanks, kSmallBytes},
    PublishedCurve{"p5_efa_all_reduce", "aws_p5_efa", true, kAnyRanks, kSmallBytes},
    PublishedCurve{"p4de_efa_all_reduce", "aws_p4de_efa", true, kAnyRanks, kSmallBytes}};

bool is_small(const PublishedCurve& curve, const CollectivePoint& point) {
  return point.spec.world_size <= curve.small_ranks && point.spec.message_bytes <= curve.small_bytes;
}

/// The prediction of a topology for a point.
struct Prediction {
  double us = 0;
  double half_width = 0; ///< half the width of the 90 % interval, relative
  double error = 0;      ///< published / predicted - 1

  [[nodiscard]] bool holds() const { return std::abs(error) <= half_width; }
};

Result<Prediction> predict(const planner::Topology& topology, const CollectivePoint& point) {
  MC2_ASSIGN(const auto best, planner::best_collective_time(topology, point.spec));
  MC2_ASSIGN(const double half_width, planner::collective_interval(topology, point.spec, best.algorithm));
  return Prediction{best.us, half_width, point.us / best.us - 1};
}

Result<std::vector<Prediction>> predict(const planner::Topology& topology, const std::vector<CollectivePoint>& points) {
  std::vector<Prediction> predictions;
  for (const CollectivePoint& point : points) {
    MC2_ASSIGN(const auto prediction, predict(topology, point));
    predictions.push_back(prediction);
  }
  return predictions;
}

/// Cells: median and 90th percentile of |error|, the median half-width, and the share of points inside the interval.
std::vector<std::string> summary_cells(const std::vector<Prediction>& predictions) {
  std::vector<double> errors, widths;
  for (const Prediction& prediction : predictions) {
    errors.push_back(std::abs(prediction.error));
    widths.push_back(prediction.half_width);
  }
  const auto inside = std::ranges::count_if(predictions, &Prediction::holds);
  return {percent_text(profiler::quantile(errors, 0.5)), percent_text(profiler::quantile(errors, 0.9)),
          percent_text(profiler::quantile(widths, 0.5)),
          percent_text(static_cast<double>(inside) / static_cast<double>(predictions.size()))};
}

/// One curve with both predictions of each point.
struct Comparison {
  std::vector<CollectivePoint> points;
  std::vector<Prediction> published;  ///< with published constants
  std::vector<Prediction> calibrated; ///< from the small-scale points
  std::string calibration;
};

Result<Comparison> compare(const PublishedCurve& curve, const std::filesystem::path& data) {
  MC2_ASSIGN(const auto topology, read_topology(data / "topologies" / (std::string(curve.topology) + ".json")));
  MC2_ASSIGN(auto points, read_points(data / "published" / (std::string(curve.points) + ".csv"), topology));
  std::vector<CollectivePoint> small;
  std::copy_if(points.begin(), points.end(), std::back_inserter(small),
               [&](const CollectivePoint& point) { return is_small(curve, point); });
  MC2_ASSIGN(const auto calibration, profiler::calibrate_topology(topology, small));
  MC2_ASSIGN(auto published, predict(topology, points));
  MC2_ASSIGN(auto calibrated, predict(calibration.topology, points));
  return Comparison{std::move(points), std::move(published), std::move(calibrated), calibration.text};
}

std::vector<std::string> prediction_cells(const Prediction& prediction) {
  return {time_text(prediction.us), "+-" + percent_text(prediction.half_width), percent_text(prediction.error),
          prediction.holds() ? "" : "outside"};
}

void print_points(const PublishedCurve& curve, const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows{{"collective", "ranks", "bytes", "published", "model", "90 %", "error", "",
                                              "calibrated", "90 %", "error", "", ""}};
  for (std::size_t i = 0; i < comparison.points.size(); ++i) {
    const CollectivePoint& point = comparison.points[i];
    rows.push_back({std::string(to_string(point.spec.collective)), std::to_string(point.spec.world_size),
                    std::to_string(static_cast<std::int64_t>(point.spec.message_bytes)), time_text(point.us)});
    for (const auto* predictions : {&comparison.published, &comparison.calibrated})
      std::ranges::copy(prediction_cells((*predictions)[i]), std::back_inserter(rows.back()));
    rows.back().push_back(is_small(curve, point) ? "calibrated with" : "");
  }
  std::cout << render::table(rows, render::kAnyWidth);
}

/// Prints a curve and returns its row of the table: the errors of all points with published constants, and of the
/// larger scale after calibration.
std::vector<std::string> print_curve(const PublishedCurve& curve, const Comparison& comparison) {
  std::cout << curve.points << " on topology " << curve.topology << "\n";
  print_points(curve, comparison);
  std::cout << "  calibration: " << comparison.calibration << "\n\n";
  std::vector<Prediction> rest;
  for (std::size_t i = 0; i < comparison.points.size(); ++i)
    if (!is_small(curve, comparison.points[i])) rest.push_back(comparison.calibrated[i]);
  std::vector<std::string> row{curve.points, curve.is_held_out ? "yes" : "no",
                               std::to_string(comparison.points.size())};
  std::ranges::copy(summary_cells(comparison.published), std::back_inserter(row));
  row.push_back(std::to_string(rest.size()));
  std::ranges::copy(summary_cells(rest), std::back_inserter(row));
  return row;
}

} // namespace

Result<ExitCode> bench_topology(const std::string& data_folder) {
  return print_rows(
      "Collective model against published curves: |published / predicted - 1| with published constants, and, of "
      "points that were not calibrated with, calibrated; +- is the median half-width of the 90 % interval",
      {"published curve", "held out", "points", "median error", "p90 error", "+-", "inside", "larger", "median error",
       "p90 error", "+-", "inside"},
      kCurves.size(), [&](std::size_t i) -> Result<std::vector<std::string>> {
        MC2_ASSIGN(const auto comparison, compare(kCurves[i], data_folder));
        return print_curve(kCurves[i], comparison);
      });
}

} // namespace mc2::cli
