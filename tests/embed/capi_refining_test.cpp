// Tests refining through the C interface with times of cuts that the caller's own program ran.

#include <gmock/gmock.h>

#include <array>

#include "embed/capi.hpp"

namespace mc2::capi_tests {
namespace {

using ::testing::HasSubstr;

/// A run of the cut. The uncut operator of model() takes 552 us.
mc2_measured_cut measured(const std::vector<std::int64_t>& lengths, double fused_us) {
  mc2_measured_cut cut = MC2_INIT(mc2_measured_cut);
  cut.lengths = lengths.data();
  cut.length_count = lengths.size();
  cut.fused_us = fused_us;
  cut.serial_us = 552;
  cut.compute_us = cut.communication_us = 276;
  return cut;
}

mc2_plan_options small_blocks() {
  mc2_plan_options options = MC2_INIT(mc2_plan_options);
  options.alignment = options.min_block_length = 32;
  return options;
}

class CRefinement : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(mc2_free_refinement(refinement_), MC2_OK);
    EXPECT_EQ(mc2_free_model(model_), MC2_OK);
  }
  mc2_status refine(const std::vector<mc2_measured_cut>& cuts) {
    const auto spec = op();
    const auto options = small_blocks();
    return mc2_refine(model_, &spec, cuts.data(), cuts.size(), &options, &refinement_);
  }
  mc2_model* model_ = model();
  mc2_refinement* refinement_ = nullptr;
  const std::vector<std::int64_t> halves_{256, 256}, quarters_{128, 128, 128, 128};
};

TEST_F(CRefinement, TimesOfBlocksTellHowMuchALaneExpands) {
  mc2_measured_cut cut = measured(halves_, 470);
  cut.compute_blocks_us = 310;
  cut.communication_blocks_us = 300;
  ASSERT_EQ(refine({cut}), MC2_OK) << last_error().message;
  mc2_refinement_summary summary = MC2_INIT(mc2_refinement_summary);
  MC2_ASSERT_OK(mc2_refinement_summarize(refinement_, &summary));
  EXPECT_NEAR(summary.compute_expansion, 310.0 / 276, 0.01);
  EXPECT_NEAR(summary.communication_expansion, 300.0 / 276, 0.01);
}

TEST_F(CRefinement, RefusesBlocksThatTakeLongerThanTheWhole) {
  mc2_measured_cut cut = measured(halves_, 470);
  cut.compute_blocks_us = 600;
  EXPECT_EQ(refine({cut}), MC2_ERROR_CANNOT_FIT);
  EXPECT_THAT(last_error().message, HasSubstr("longer than the whole"));
}

TEST_F(CRefinement, LearnsFromCutsAndSaysWhatToUseAndRunNext) {
  // The model, without contention, predicts 20 + 128 + 148 + 148 = 444 us for two halves.
  ASSERT_EQ(refine({measured(halves_, 470), measured(quarters_, 460)}), MC2_OK) << last_error().message;
  mc2_refinement_summary summary = MC2_INIT(mc2_refinement_summary);
  MC2_ASSERT_OK(mc2_refinement_summarize(refinement_, &summary));
  EXPECT_NEAR(summary.serial_us, 552, 0.01);
  EXPECT_EQ(summary.is_serial_measured, 1);
  EXPECT_GE(summary.compute_slowdown, summary.compute_slowdown_low);
  EXPECT_LE(summary.compute_slowdown, summary.compute_slowdown_high);
  EXPECT_GT(std::string(summary.text).size(), 10U);

  mc2_plan* now = nullptr;
  MC2_ASSERT_OK(mc2_refinement_plan(refinement_, &now));
  mc2_plan_summary plan = MC2_INIT(mc2_plan_summary);
  MC2_ASSERT_OK(mc2_plan_summarize(now, &plan));
  EXPECT_EQ(plan.block_count, 4); // quarters are the faster cut
  EXPECT_STREQ(plan.strategy, "refined");
  EXPECT_EQ(mc2_free_plan(now), MC2_OK);

  mc2_model* recalibrated = nullptr;
  MC2_ASSERT_OK(mc2_refinement_model(refinement_, &recalibrated));
  EXPECT_EQ(mc2_free_model(recalibrated), MC2_OK);
}

TEST_F(CRefinement, WithoutCutsSaysWhereToBegin) {
  ASSERT_EQ(refine({}), MC2_OK) << last_error().message;
  mc2_refinement_summary summary = MC2_INIT(mc2_refinement_summary);
  MC2_ASSERT_OK(mc2_refinement_summarize(refinement_, &summary));
  ASSERT_GT(summary.next_count, 0U);
  mc2_plan* next = nullptr;
  MC2_ASSERT_OK(mc2_refinement_next(refinement_, 0, &next));
  mc2_plan_summary plan = MC2_INIT(mc2_plan_summary);
  MC2_ASSERT_OK(mc2_plan_summarize(next, &plan));
  EXPECT_GT(plan.block_count, 1);
  EXPECT_LE(plan.makespan_low_us, plan.makespan_us);
  EXPECT_EQ(mc2_free_plan(next), MC2_OK);
  EXPECT_EQ(mc2_refinement_next(refinement_, summary.next_count, &next), MC2_ERROR_OUT_OF_RANGE);
  EXPECT_THAT(last_error().message, HasSubstr("cuts are worth a run"));
}

TEST_F(CRefinement, RefusesCutsThatCannotBe) {
  const std::vector<std::int64_t> short_by_one{256, 255};
  EXPECT_EQ(refine({measured(short_by_one, 470)}), MC2_ERROR_INVALID_SPEC);
  EXPECT_STREQ(last_error().field, "cuts.lengths");
  EXPECT_EQ(refine({measured(halves_, 0)}), MC2_ERROR_CANNOT_FIT);
  EXPECT_EQ(refine({measured(halves_, -1)}), MC2_ERROR_CANNOT_FIT);
  auto none = measured(halves_, 470);
  none.lengths = nullptr;
  EXPECT_EQ(refine({none}), MC2_ERROR_INVALID_SPEC);
  auto foreign = measured(halves_, 470);
  foreign.variant = "ring";
  EXPECT_NE(refine({foreign}), MC2_OK);
  auto torn = measured(halves_, 470);
  torn.size = 8;
  EXPECT_EQ(refine({measured(halves_, 470), torn}), MC2_ERROR_STRUCT);
  EXPECT_EQ(refine(std::vector(257, measured(halves_, 470))), MC2_ERROR_INVALID_SPEC);
  EXPECT_EQ(refinement_, nullptr);
}

TEST_F(CRefinement, AssumptionsStandInThePlan) {
  const auto spec = op();
  auto options = small_blocks();
  options.compute_contention = options.communication_contention = 1.5;
  options.has_block_overhead = 1;
  options.block_overhead_us = 3;
  const auto makespan_us = [&](const mc2_plan_options& by) {
    mc2_plan* plan = nullptr;
    EXPECT_EQ(mc2_plan_from_model(model_, &spec, &by, &plan), MC2_OK) << last_error().message;
    mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
    EXPECT_EQ(mc2_plan_summarize(plan, &summary), MC2_OK);
    EXPECT_EQ(mc2_free_plan(plan), MC2_OK);
    return summary.makespan_us;
  };
  EXPECT_GT(makespan_us(options), makespan_us(small_blocks()));
  mc2_plan* plan = nullptr;
  options.compute_contention = 0.5;
  EXPECT_EQ(mc2_plan_from_model(model_, &spec, &options, &plan), MC2_ERROR_INVALID_SPEC);
  EXPECT_THAT(last_error().field, HasSubstr("compute_contention"));
  options.compute_contention = 2;
  for (const double wrong : {0.0, 0.5, 11.0}) {
    options.communication_contention = wrong;
    EXPECT_EQ(mc2_plan_from_model(model_, &spec, &options, &plan), MC2_ERROR_INVALID_SPEC);
    EXPECT_THAT(last_error().field, HasSubstr("communication_contention"));
  }
  options = small_blocks();
  options.block_overhead_us = 3;
  EXPECT_EQ(mc2_plan_from_model(model_, &spec, &options, &plan), MC2_ERROR_INVALID_SPEC);
  EXPECT_THAT(last_error().message, HasSubstr("has_block_overhead"));
}

TEST(CModel, OfPublishedCostsAndOfATopology) {
  mc2_op_spec spec = op(4096);
  spec.n = 8192;
  spec.k = 3072;
  spec.dtype = MC2_F16;
  spec.world_size = 8;
  mc2_plan_options options = MC2_INIT(mc2_plan_options);
  options.strategy = "formula";
  options.alignment = 128;
  mc2_model* published = nullptr;
  MC2_ASSERT_OK(mc2_model_of_device("ascend-910b", &spec, &published));
  mc2_plan* plan = nullptr;
  MC2_ASSERT_OK(mc2_plan_from_model(published, &spec, &options, &plan));
  std::array<std::int64_t, 8> lengths{};
  std::size_t count = 0;
  MC2_ASSERT_OK(mc2_plan_blocks(plan, lengths.data(), lengths.size(), &count));
  ASSERT_EQ(count, 5U);
  EXPECT_EQ(lengths[0], 512);
  EXPECT_EQ(mc2_free_plan(plan), MC2_OK);
  EXPECT_EQ(mc2_free_model(published), MC2_OK);
  EXPECT_EQ(mc2_model_of_device("tpu", &spec, &published), MC2_ERROR_UNKNOWN_NAME);

  const std::string json = read(std::filesystem::path(MC2_SOURCE_DIR) / "data/topologies/dgx_h100.json");
  mc2_model* described = nullptr;
  MC2_ASSERT_OK(mc2_model_of_topology(json.data(), json.size(), &spec, &described));
  EXPECT_EQ(mc2_free_model(described), MC2_OK);
  EXPECT_EQ(mc2_model_of_topology("{", 1, &spec, &described), MC2_ERROR_MALFORMED);
  MC2_ASSERT_OK(mc2_model_of_topology("dgx_h100", 8, &spec, &described));
  EXPECT_EQ(mc2_free_model(described), MC2_OK);
}

TEST_F(CRefinement, KeepsCutsOnceUnderTheMachinesName) {
  const auto folder = std::filesystem::temp_directory_path() / ("mc2_capi_refining_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  mc2_store* store = nullptr;
  MC2_ASSERT_OK(mc2_store_open((folder / "store.db").c_str(), 0, &store));
  const auto spec = op();
  const std::vector cuts{measured(halves_, 470), measured(quarters_, 460)};
  std::size_t kept = 9;
  MC2_ASSERT_OK(mc2_store_put_measured_cuts(store, "my-npu", &spec, cuts.data(), cuts.size(), &kept));
  EXPECT_EQ(kept, 2U);
  MC2_ASSERT_OK(mc2_store_put_measured_cuts(store, "my-npu", &spec, cuts.data(), cuts.size(), &kept));
  EXPECT_EQ(kept, 0U);
  const auto free_of_time = measured(halves_, 0);
  EXPECT_EQ(mc2_store_put_measured_cuts(store, "my-npu", &spec, &free_of_time, 1, nullptr), MC2_ERROR_INVALID_SPEC);
  EXPECT_STREQ(last_error().field, "cuts.fused_us");
  std::array both{measured(halves_, 450),
                  measured(quarters_, 390)}; // the second one's blocks take longer than the whole
  both[1].compute_blocks_us = 800;
  kept = 9;
  EXPECT_EQ(mc2_store_put_measured_cuts(store, "my-npu", &spec, both.data(), both.size(), &kept),
            MC2_ERROR_INVALID_SPEC);
  EXPECT_STREQ(last_error().field, "cuts.compute_blocks_us");
  both[1].compute_blocks_us = 0;
  MC2_ASSERT_OK(mc2_store_put_measured_cuts(store, "my-npu", &spec, both.data(), both.size(), &kept));
  EXPECT_EQ(kept, 2U) << "the refused call kept none";
  // my-npu has no model: nothing is published about it, and no matmul or collective was imported. ascend-910b has
  // published costs, which the cut recalibrates.
  mc2_model *published = nullptr, *recalibrated = nullptr;
  EXPECT_EQ(mc2_store_get_device_model(store, "my-npu", &spec, &recalibrated), MC2_ERROR_NOT_FOUND);
  mc2_op_spec other = spec;
  other.m = 4096;
  other.n = 8192;
  other.k = 3072;
  other.dtype = MC2_F16;
  other.world_size = 8;
  const std::array<std::int64_t, 2> lengths{2048, 2048};
  mc2_measured_cut cut = measured(halves_, 1190);
  cut.lengths = lengths.data();
  cut.length_count = lengths.size();
  cut.serial_us = 1874;
  cut.compute_us = cut.communication_us = 0;
  MC2_ASSERT_OK(mc2_store_put_measured_cuts(store, "ascend-910b", &other, &cut, 1, nullptr));
  MC2_ASSERT_OK(mc2_model_of_device("ascend-910b", &other, &published));
  MC2_ASSERT_OK(mc2_store_get_device_model(store, "ascend-910b", &other, &recalibrated));
  const char *before = nullptr, *after = nullptr;
  MC2_ASSERT_OK(mc2_model_to_json(published, &before, nullptr));
  MC2_ASSERT_OK(mc2_model_to_json(recalibrated, &after, nullptr));
  EXPECT_STRNE(before, after);
  EXPECT_EQ(mc2_free_model(published), MC2_OK);
  EXPECT_EQ(mc2_free_model(recalibrated), MC2_OK);
  EXPECT_EQ(mc2_free_store(store), MC2_OK);
  std::filesystem::remove_all(folder);
}

} // namespace
} // namespace mc2::capi_tests
