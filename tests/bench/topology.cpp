#include "benches.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "mc2/planner/text.hpp"
#include "mc2/profiler/statistics.hpp"
#include "options/topology_files.hpp"
#include "pages/render.hpp"

namespace mc2::cli {
namespace {

using profiler::CollectivePoint;

/// A published curve, the topology that describes its machine, and what counts as small scale there.
struct PublishedCurve {
  const char* points;
  const char* topology;
  int small_ranks;    ///< points of at most so many ranks ...
  double small_bytes; ///< ... and bytes are calibrated with; the others are predicted
};

constexpr double kAnyBytes = 1e18;
constexpr int kAnyRanks = planner::kMaxWorldSize;
constexpr double kSmallBytes = 4.0 * 1024 * 1024;

constexpr std::array kCurves{PublishedCurve{"b200_4_nodes_all_reduce", "dgx_b200", kAnyRanks, kSmallBytes},
                             PublishedCurve{"h200_1_node_all_reduce", "dgx_h100", kAnyRanks, kSmallBytes},
                             PublishedCurve{"ascend_8_all_reduce", "ascend_910b", kAnyRanks, kSmallBytes},
                             PublishedCurve{"p3dn_efa_all_reduce", "aws_p3dn_efa", 16, kAnyBytes},
                             PublishedCurve{"deepep_low_latency_all_to_all", "h800_device_initiated", 16, kAnyBytes}};

bool is_small(const PublishedCurve& curve, const CollectivePoint& point) {
  return point.spec.world_size <= curve.small_ranks && point.spec.message_bytes <= curve.small_bytes;
}

struct Errors {
  double median = 0;
  double worst = 0;
};

Errors summary_of(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  return {profiler::quantile(errors, 0.5), profiler::quantile(errors, 1)};
}

std::string errors_text(const Errors& errors) {
  return "median " + percent_text(errors.median) + ", worst " + percent_text(errors.worst);
}

/// One curve with both predictions of each point.
struct Comparison {
  std::vector<CollectivePoint> points;
  std::vector<double> published_errors;  ///< with published constants
  std::vector<double> calibrated_errors; ///< calibrated from the small-scale points
  std::string calibration;
};

Result<Comparison> compare(const PublishedCurve& curve, const std::filesystem::path& data) {
  MC2_ASSIGN(const auto topology, read_topology(data / "topologies" / (std::string(curve.topology) + ".json")));
  MC2_ASSIGN(auto points, read_points(data / "published" / (std::string(curve.points) + ".csv"), topology));
  std::vector<CollectivePoint> small;
  std::copy_if(points.begin(), points.end(), std::back_inserter(small),
               [&](const CollectivePoint& point) { return is_small(curve, point); });
  MC2_ASSIGN(const auto calibration, profiler::calibrate_topology(topology, small));
  MC2_ASSIGN(const auto published, profiler::relative_errors(topology, points));
  MC2_ASSIGN(const auto calibrated, profiler::relative_errors(calibration.topology, points));
  return Comparison{std::move(points), published, calibrated, calibration.text};
}

void print_points(const PublishedCurve& curve, const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows{
      {"ranks", "bytes", "published", "model", "error", "calibrated", "error", ""}};
  for (std::size_t i = 0; i < comparison.points.size(); ++i) {
    const CollectivePoint& point = comparison.points[i];
    const double plain = comparison.published_errors[i], calibrated = comparison.calibrated_errors[i];
    rows.push_back({std::to_string(point.spec.world_size),
                    std::to_string(static_cast<std::int64_t>(point.spec.message_bytes)), time_text(point.us),
                    time_text(point.us * (1 + plain)), percent_text(plain), time_text(point.us * (1 + calibrated)),
                    percent_text(calibrated), is_small(curve, point) ? "calibrated with" : ""});
  }
  std::cout << render::table(rows, render::kAnyWidth);
}

/// The errors of points that were not calibrated with, by both predictions.
std::vector<std::string> print_curve(const PublishedCurve& curve, const Comparison& comparison) {
  std::vector<double> rest_published, rest_calibrated;
  for (std::size_t i = 0; i < comparison.points.size(); ++i) {
    if (is_small(curve, comparison.points[i])) continue;
    rest_published.push_back(comparison.published_errors[i]);
    rest_calibrated.push_back(comparison.calibrated_errors[i]);
  }
  const std::string all = errors_text(summary_of(comparison.published_errors));
  std::cout << curve.points << " on topology " << curve.topology << "\n";
  print_points(curve, comparison);
  std::cout << "  calibration: " << comparison.calibration << "\n\n";
  return {curve.points,
          std::to_string(comparison.points.size()),
          all,
          std::to_string(rest_published.size()),
          errors_text(summary_of(rest_published)),
          errors_text(summary_of(rest_calibrated))};
}

} // namespace

Result<ExitCode> bench_topology(const std::string& data_folder) {
  std::vector<std::vector<std::string>> rows{{"published curve", "points", "published constants, all points", "larger",
                                              "published constants, larger points", "calibrated, larger points"}};
  for (const PublishedCurve& curve : kCurves) {
    MC2_ASSIGN(const auto comparison, compare(curve, data_folder));
    rows.push_back(print_curve(curve, comparison));
  }
  std::cout << "Collective model against published curves: |model / published - 1|; larger points are those that were "
               "not calibrated with\n"
            << render::table(rows, render::kAnyWidth) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
