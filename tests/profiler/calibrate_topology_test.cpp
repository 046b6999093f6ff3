#include "mc2/profiler/calibrate_topology.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/topologies.hpp"

namespace mc2::profiler::calibrate_topology_test {
namespace {

using planner::Collective;
using planner::CollectiveSpec;
using planner::Topology;
using planner::examples::topology;

/// Points with the time that the fastest algorithm takes on `truth`.
std::vector<CollectivePoint> points_of(const Topology& truth, std::initializer_list<int> ranks,
                                       std::initializer_list<double> sizes) {
  std::vector<CollectivePoint> points;
  for (const int count : ranks)
    for (const double bytes : sizes) {
      const CollectiveSpec spec{Collective::AllReduce, bytes, count};
      points.push_back({spec, planner::best_collective_time(truth, spec).value().us});
    }
  return points;
}

const CalibratedFactor& factor_of(const TopologyCalibration& calibration, const std::string& name) {
  for (const auto& factor : calibration.factors)
    if (factor.name == name) return factor;
  throw std::out_of_range(name);
}

/// The machine to find: its latencies and bandwidths differ from the published ones.
Topology truth() {
  Topology result = topology();
  result.protocols[0].launch_us *= 1.5;
  result.protocols[0].intra.alpha_us *= 4;
  result.protocols[0].inter.alpha_us *= 6;
  result.protocols[0].inter.gb_per_s *= 0.9;
  return result;
}

/// The points are exact, because the truth uses the calibration's own formulas. The spread is accordingly small.
constexpr CalibrateOptions kExact{.measurement_spread = 0.01};

constexpr std::initializer_list<double> kSizes{8, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};

TEST(CalibrateTopology, FindsLatenciesAndPredictsMoreRanks) {
  const auto calibration = calibrate_topology(topology(), points_of(truth(), {2, 4, 8}, kSizes), kExact).value();
  EXPECT_LT(calibration.error_after, 0.01);
  EXPECT_GT(calibration.error_before, 5 * calibration.error_after);
  EXPECT_NEAR(factor_of(calibration, "intra.alpha_us").factor, 4, 0.4);
  EXPECT_NEAR(factor_of(calibration, "inter.alpha_us").factor, 6, 0.6);
  // No point has 16 ranks, so these are predictions.
  for (const double error : relative_errors(calibration.topology, points_of(truth(), {16}, kSizes)).value())
    EXPECT_LT(std::abs(error), 0.02);
}

TEST(CalibrateTopology, ExactConstantsStayAsTheyAre) {
  const auto calibration = calibrate_topology(topology(), points_of(topology(), {4, 16}, kSizes)).value();
  EXPECT_NEAR(calibration.error_before, 0, 1e-12);
  EXPECT_NEAR(calibration.error_after, 0, 1e-3);
  for (const auto& factor : calibration.factors) EXPECT_NEAR(factor.factor, 1, 1e-2) << factor.name;
}

TEST(CalibrateTopology, SaysWhatThePointsCannotDetermine) {
  // Points on one node say nothing about the network, and small messages say nothing about bandwidth.
  Topology published = topology(), real = truth();
  for (Topology* each : {&published, &real}) each->algorithms[Collective::AllReduce] = {planner::Algorithm::Ring};
  const auto calibration = calibrate_topology(published, points_of(real, {2, 3, 4}, {8, 16, 1e3}), kExact).value();
  for (const char* name : {"inter.alpha_us", "inter.gb_per_s", "inter.message_us", "intra.gb_per_s"}) {
    EXPECT_FALSE(factor_of(calibration, name).is_determined) << name;
    EXPECT_NE(calibration.text.find(name), std::string::npos) << calibration.text;
  }
  EXPECT_NEAR(factor_of(calibration, "inter.alpha_us").factor, 1, 1e-9);
  EXPECT_TRUE(factor_of(calibration, "intra.alpha_us").is_determined);
}

TEST(CalibrateTopology, KeepsWhatStaysUncertain) {
  Topology published = topology(), real = truth();
  for (Topology* each : {&published, &real}) each->algorithms[Collective::AllReduce] = {planner::Algorithm::Ring};
  published.uncertainty = {.launch_us = 2, .intra_alpha_us = 4, .inter_alpha_us = 0.7, .intra_gb_per_s = 0.2};
  const auto calibration = calibrate_topology(published, points_of(real, {2, 3, 4}, {8, 16, 1e3}), kExact).value();
  const planner::ConstantSpread& left = calibration.topology.uncertainty;
  EXPECT_LT(left.intra_alpha_us, 0.5);         // the points show hops inside a node
  EXPECT_NEAR(left.inter_alpha_us, 0.7, 1e-3); // they do not show the network
  EXPECT_GT(left.intra_gb_per_s, 0.1);         // they hold no large messages
  EXPECT_LT(left.inter_gb_per_s, 0.01);        // certain before, and still certain
  EXPECT_NEAR(factor_of(calibration, "inter.gb_per_s").factor, 1, 1e-3);
}

TEST(CalibrateTopology, LaunchAndLatencyStaySeparateOnlyWhereRanksTellThemApart) {
  // Direct exchange takes two latencies on any number of ranks, so launch + 2 alpha is all that can be seen.
  const auto calibration = calibrate_topology(topology(), points_of(truth(), {2, 3, 4}, {8, 16, 1e3}), kExact).value();
  EXPECT_LT(calibration.error_after, 0.01);
  EXPECT_FALSE(factor_of(calibration, "intra.alpha_us").is_determined);
}

TEST(CalibrateTopology, ResultIsALegalTopologyThatSaysSo) {
  const auto calibration = calibrate_topology(topology(), points_of(truth(), {4}, kSizes)).value();
  EXPECT_TRUE(calibration.topology.validate().ok());
  EXPECT_EQ(calibration.topology.calibration, "7 points of all_reduce on 4 ranks");
  EXPECT_GE(calibration.topology.relative_interval, 0.1);
}

/// All-reduces of 40 sizes from 1 kB to 64 MB on 2 and on 8 ranks. The i-th size takes exp(log_error(i)) times the
/// truth.
template <typename LogError>
TopologyCalibration calibrated_with(LogError log_error) {
  std::vector<CollectivePoint> points;
  for (const int ranks : {2, 8})
    for (int i = 0; i < 40; ++i) {
      const CollectiveSpec spec{Collective::AllReduce, 1024 * std::pow(2.0, 16.0 * i / 39), ranks};
      points.push_back({spec, planner::best_collective_time(truth(), spec).value().us * std::exp(log_error(i))});
    }
  return calibrate_topology(topology(), points).value();
}

/// Half-width of a factor's interval, in logarithms.
double log_width(const TopologyCalibration& calibration, const std::string& name) {
  const auto& factor = factor_of(calibration, name);
  return std::log(factor.high / factor.factor);
}

TEST(CalibrateTopology, ConstantsAreAsUnsureAsThePoints) {
  const auto quiet = calibrated_with([](int i) { return i % 2 == 0 ? 0.05 : -0.05; });
  const auto noisy = calibrated_with([](int i) { return i % 2 == 0 ? 0.4 : -0.4; });
  EXPECT_GT(log_width(noisy, "intra.alpha_us"), 2 * log_width(quiet, "intra.alpha_us"));
}

TEST(CalibrateTopology, ErrorsThatAreAlikeAtNeighbouringSizesCountAsFewPoints) {
  // Both errors have the same rms, 0.2 / sqrt(2). Those that alternate are as many as the points.
  const auto alternating = calibrated_with([](int i) { return 0.2 / std::sqrt(2) * (i % 2 == 0 ? 1 : -1); });
  const auto smooth = calibrated_with([](int i) { return 0.2 * std::sin(0.3 * i); });
  EXPECT_GT(log_width(smooth, "intra.alpha_us"), 1.5 * log_width(alternating, "intra.alpha_us"));
}

TEST(CalibrateTopology, LeavesOutAPointThatTheOthersContradict) {
  auto points = points_of(truth(), {4, 8, 16}, kSizes);
  auto rest = points;
  rest.erase(rest.begin() + 5);
  points[5].us *= 3;
  const auto found = calibrate_topology(topology(), points).value(),
             without = calibrate_topology(topology(), rest).value();
  for (const auto& factor : found.factors)
    EXPECT_NEAR(factor.factor, factor_of(without, factor.name).factor, 0.02 * factor.factor) << factor.name;
  EXPECT_EQ(found.topology.calibration, "20 points of all_reduce on 4, 8, 16 ranks");
  EXPECT_NE(found.text.find("contradict it: points[5] ("), std::string::npos) << found.text;
  EXPECT_EQ(without.text.find("points["), std::string::npos) << without.text;
}

TEST(CalibrateTopology, ContradictoryPointsEndAndWidenTheInterval) {
  const CollectiveSpec spec{Collective::AllReduce, 1e6, 16};
  const std::vector<CollectivePoint> points{{spec, 1}, {spec, 1e9}, {spec, 1e-6}};
  const auto calibration = calibrate_topology(topology(), points).value();
  EXPECT_TRUE(calibration.topology.validate().ok());
  EXPECT_GT(calibration.topology.relative_interval, 1);
}

TEST(CalibrateTopology, Refusals) {
  const CollectiveSpec spec{Collective::AllReduce, 1e6, 16};
  EXPECT_EQ(calibrate_topology(topology(), {}).error().code, ErrorCode::CannotFit);
  for (const double us : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const std::vector<CollectivePoint> points{{spec, 1}, {spec, us}};
    EXPECT_EQ(calibrate_topology(topology(), points).error().field, "points[1].us");
  }
  const std::vector<CollectivePoint> beyond{{{Collective::AllReduce, 1e6, 64}, 1}};
  EXPECT_EQ(calibrate_topology(topology(), beyond).error().field, "points[0].ranks");
  const std::vector<CollectivePoint> many(kMaxCalibrationPoints + 1, CollectivePoint{spec, 1});
  EXPECT_EQ(calibrate_topology(topology(), many).error().field, "points");
  Topology bad = topology();
  bad.node_count = 0;
  const std::vector<CollectivePoint> one{{spec, 1}};
  EXPECT_EQ(calibrate_topology(bad, one).error().field, "points[0].topology.node_count");
}

} // namespace
} // namespace mc2::profiler::calibrate_topology_test
