#include "mc2/finder/device_costs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mc2/finder/topology_costs.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/store/imported.hpp"
#include "mc2/store/topologies.hpp"

namespace mc2::finder::device_costs_test {
namespace {

using planner::OpSpec;
using ::testing::Contains;
using ::testing::HasSubstr;

/// The operator of the published example.
OpSpec op_of(std::int64_t m = 4096) {
  return {planner::OpKind::MatmulAllReduce, m, 8192, 3072, planner::DType::F16, 8};
}

planner::Sample sample(planner::Component component, std::int64_t rows, std::int64_t bytes, int us) {
  planner::Sample one;
  one.component = component;
  one.variant = "imported";
  one.block_rows = rows;
  one.message_bytes = bytes;
  one.time = std::chrono::microseconds(us);
  return one;
}
planner::Sample matmul(std::int64_t rows, int us) { return sample(planner::Component::Matmul, rows, 0, us); }
/// A sample whose message is whole rows of the operator.
planner::Sample collective(std::int64_t bytes, int us) {
  return sample(planner::Component::Collective, bytes / (8192 * 2), bytes, us);
}

/// What a store would hold; the tests need no store.
struct Imported {
  std::vector<planner::Profile> profiles;
  std::vector<store::Measurement> cuts;

  void add(const std::string& device, std::vector<planner::Sample> samples) {
    profiles.push_back({op_of(), {store::imported_fields(device)}, std::move(samples)});
  }
  void add_cut(const planner::Cut& cut, double fused_us, const OpSpec& op = op_of()) {
    store::Measurement measured;
    measured.op = op;
    measured.cut = cut;
    measured.fused_us = fused_us;
    measured.serial_us = 1874;
    measured.run_count = 20;
    measured.relative_error = 0.005;
    cuts.push_back(measured);
  }
  [[nodiscard]] Kept kept() const {
    Kept kept;
    kept.list_profiles =
        [this](const std::map<std::string, std::string>& fields) -> Result<std::vector<planner::Profile>> {
      std::vector<planner::Profile> found;
      for (const auto& profile : profiles)
        if (std::ranges::includes(profile.fingerprint.fields, fields)) found.push_back(profile);
      return found;
    };
    kept.list_measured_cuts = [this](const std::string&, const OpSpec&) -> Result<std::vector<store::Measurement>> {
      return cuts;
    };
    return kept;
  }
};

double serial_us(const planner::CostModel& model) { return planner::make_plan(op_of(), model, {}).value().serial_us; }

PlanQuestion question(const DeviceCosts& costs, const OpSpec& op = op_of()) {
  return {.op = op, .machine = costs.model.fingerprint};
}

Result<FoundPlan> planned(const DeviceCosts& costs, const PlanQuestion& asked) {
  return find_plan(device_places(costs, {}), asked);
}

TEST(DeviceCosts, OfAPublishedDeviceAreOverriddenByWhatWasImportedUnderItsName) {
  const auto published = device_costs("ascend-910b", op_of(), {}, {}).value();
  EXPECT_THAT(published.notes, Contains(HasSubstr("ANALYTIC")));
  Imported imported;
  EXPECT_EQ(device_costs("ascend-910b", op_of(), {}, imported.kept()).value().model, published.model);
  imported.add("another", {matmul(4096, 80)});
  imported.add("ascend-910b", {matmul(4096, 803), collective(64 << 20, 1071)});
  const auto corrected = device_costs("ascend-910b", op_of(), {}, imported.kept()).value();
  EXPECT_NEAR(serial_us(corrected.model), 803 + 1071, 1);
  EXPECT_NE(serial_us(corrected.model), serial_us(published.model));
}

TEST(DeviceCosts, OfImportedLogsAloneAnswerForADeviceOfWhichNothingIsPublished) {
  Imported imported;
  EXPECT_EQ(device_costs("npu", op_of(), {}, {}).error().code, ErrorCode::UnknownName);
  imported.add("npu", {matmul(512, 110), matmul(1024, 210), matmul(2048, 410), matmul(4096, 810)});
  imported.add("npu", {collective(8 << 20, 150), collective(16 << 20, 280), collective(32 << 20, 540),
                       collective(64 << 20, 1060)});
  const auto costs = device_costs("npu", op_of(), {}, imported.kept()).value();
  EXPECT_FALSE(planner::has_analytic_curve(costs.model));
  EXPECT_TRUE(planned(costs, question(costs)).value().stored.plan.is_cut());
  const auto unknown = device_costs("typo", op_of(), {}, imported.kept()).error();
  EXPECT_EQ(unknown.code, ErrorCode::UnknownName);
  EXPECT_THAT(unknown.message, HasSubstr("imported into the store: npu"));
  OpSpec other = op_of();
  other.k = 64;
  other.world_size = 4;
  EXPECT_EQ(device_costs("npu", other, {}, imported.kept()).error().code, ErrorCode::NotFound);
}

TEST(DeviceCosts, OfMeasuredCutsGiveTheBestOfThemUnlessTheQuestionWantsMore) {
  Imported imported;
  imported.add_cut({{512, 896, 896, 896, 896}}, 1262);
  imported.add_cut({{1024, 1024, 1024, 1024}}, 1190);
  const auto costs = device_costs("ascend-910b", op_of(), {}, imported.kept()).value();
  EXPECT_THAT(costs.notes, Contains(HasSubstr("recalibrated from 2 measured cuts")));
  const auto best = planned(costs, question(costs)).value().stored.plan;
  EXPECT_EQ(best.cut, (planner::Cut{{1024, 1024, 1024, 1024}}));
  PlanQuestion of_two = question(costs);
  of_two.options = planner::default_options_on(costs.model.fingerprint);
  of_two.options->max_block_count = 2;
  EXPECT_LE(planned(costs, of_two).value().stored.plan.cut.block_rows.size(), 2U);
  // For another m the cuts only teach the model.
  const auto longer = device_costs("ascend-910b", op_of(8192), {}, imported.kept()).value();
  EXPECT_THAT(longer.notes, Contains(HasSubstr("2 measured cuts of m=4096")));
  EXPECT_FALSE(longer.refinement);
}

TEST(DeviceCosts, OfAnUncutRunThatContradictsItselfLearnNothing) {
  Imported imported;
  imported.add_cut({{4096}}, 100); // contradicts the serial time of 1874 us
  const auto published = device_costs("ascend-910b", op_of(), {}, {}).value();
  const auto costs = device_costs("ascend-910b", op_of(), {}, imported.kept()).value();
  EXPECT_EQ(costs.model, published.model);
  EXPECT_THAT(costs.notes, Contains(HasSubstr("a measured run is left out, which contradicts itself: it is not cut")));
}

TEST(DeviceCosts, OfARangeAreThoseOfEachOfItsSizes) {
  Imported imported;
  const auto cut_of = [&](std::int64_t m, double fused_us) {
    const planner::Cut cut{{m / 2, m / 2}};
    imported.add_cut(cut, fused_us, op_of(m));
    imported.cuts.back().serial_us = 0;
  };
  cut_of(512, 250);
  cut_of(8192, 4000);
  int list_count = 0;
  Kept kept = imported.kept();
  kept.list_measured_cuts = [&, list = kept.list_measured_cuts](const std::string& device, const OpSpec& op) {
    ++list_count;
    return list(device, op);
  };
  const auto find = finding_on_device("ascend-910b", {}, kept);
  for (const std::int64_t m : {256, 512, 4096, 8192}) {
    const auto alone = device_costs("ascend-910b", op_of(m), {}, imported.kept()).value();
    const auto found = find(question(alone, op_of(m)));
    ASSERT_TRUE(found.ok()) << found.error().text();
    EXPECT_EQ(found.value().model, alone.model) << m;
  }
  EXPECT_EQ(list_count, 1);
  const PlanQuestion asked = question(device_costs("ascend-910b", op_of(), {}, {}).value());
  const auto ranges = find_ranges(finding_on_device("ascend-910b", {}, {}), asked, 128);
  ASSERT_TRUE(ranges.ok()) << ranges.error().text();
  EXPECT_EQ(ranges.value().provenance(), planner::Provenance::Analytic);
}

TEST(TopologyCosts, OfAPublishedClusterByItsNameOrItsDocument) {
  const auto named = store::topology_of("dgx_h100");
  ASSERT_TRUE(named.ok());
  EXPECT_TRUE(store::topology_of(" dgx_h100\n").ok());
  const std::string refusal = store::topology_of("dgx").error().text();
  EXPECT_THAT(refusal, HasSubstr("legal: "));
  for (const auto& each : store::built_in_topologies()) {
    EXPECT_TRUE(store::topology_of(each.json).ok()) << each.name;
    EXPECT_THAT(refusal, HasSubstr(each.name));
  }
  EXPECT_EQ(store::topology_of("").error().code, ErrorCode::Malformed);
  const auto alone = topology_costs(named.value(), op_of(), {}).value();
  EXPECT_TRUE(planner::has_analytic_curve(alone));
  // The matmul comes from a given model, here one of another m.
  const auto measured = device_costs("ascend-910b", op_of(2048), {}, {}).value().model;
  const auto beside = topology_costs(named.value(), op_of(), measured).value();
  EXPECT_EQ(beside.variants[0].compute.curve, measured.variants[0].compute.curve);
  OpSpec other = op_of();
  other.n = 4096;
  EXPECT_EQ(topology_costs(named.value(), other, measured).error().code, ErrorCode::OutOfRange);
}

} // namespace
} // namespace mc2::finder::device_costs_test
