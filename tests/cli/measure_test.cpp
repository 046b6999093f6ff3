#include "measure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "mc2/profiler/fit.hpp"
#include "mc2/store/store.hpp"
#include "stage.hpp"
#include "store/place.hpp"

namespace mc2::cli {
namespace {

using executor::RunMode;
using planner::Variant;

const Variant kFew{"ring", {{"ctas", "4"}}};
const Variant kMany{"ring", {{"ctas", "8"}}};

planner::OpSpec op() {
  return {.kind = planner::OpKind::MatmulAllReduce,
          .m = 1024,
          .n = 64,
          .k = 64,
          .dtype = planner::DType::F32,
          .world_size = 2};
}

int run_count = 0; ///< of all that was prepared

/// Invented times, nothing is multiplied: 10 us + 1 us a row of matmul; 20 us + 2 us a row of collective with few CTAs,
/// 20 us + 1 us with many.
class FakePrepared final : public executor::Prepared {
 public:
  FakePrepared(const executor::StageList& list, const Variant& variant)
      : stages_(list.stages), row_us_(variant == kMany ? 1 : 2) {}

  using executor::Prepared::run;
  const executor::RunRecord& run(RunMode mode, executor::RunDetail /*detail*/) override {
    ++run_count;
    executor::RankTimes times;
    std::chrono::nanoseconds compute{0}, communication{0};
    for (const auto& stage : stages_) {
      times.compute.push_back(next(compute, mode == RunMode::CommunicationOnly ? 0 : 10 + stage.row_count));
      if (mode == RunMode::Fused || mode == RunMode::Serial) // serial is asked of uncut plans only
        communication = std::max(communication, compute);
      times.communication.push_back(next(communication, mode == RunMode::ComputeOnly || mode == RunMode::SerialCompute
                                                            ? 0
                                                            : 20 + row_us_ * stage.row_count));
    }
    record_.ranks.assign(2, times);
    record_.ranks[1].rank = 1;
    record_.makespan = record_.wall = std::max(compute, communication);
    return record_;
  }

 private:
  static executor::StageTime next(std::chrono::nanoseconds& at, std::int64_t us) {
    const auto start = at;
    at += std::chrono::microseconds(us);
    return {start, at};
  }

  std::vector<executor::Stage> stages_;
  std::int64_t row_us_;
  executor::RunRecord record_;
};

class FakeCommunicator final : public executor::Communicator {
 public:
  [[nodiscard]] int world_size() const noexcept override { return 2; }
  [[nodiscard]] std::span<const int> local_ranks() const noexcept override { return ranks_; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept override { return fingerprint_; }
  [[nodiscard]] bool uses_host_memory() const noexcept override { return true; }
  [[nodiscard]] std::unique_ptr<executor::RankMemory> allocate(int, std::size_t) override { return nullptr; }

 protected:
  [[nodiscard]] Result<std::unique_ptr<executor::Prepared>> prepare_stages(const executor::StageList& stages,
                                                                           const Variant& variant,
                                                                           std::span<const executor::RankBuffers>,
                                                                           const executor::PrepareOptions&) override {
    return std::unique_ptr<executor::Prepared>(std::make_unique<FakePrepared>(stages, variant));
  }

 private:
  std::vector<int> ranks_{0, 1};
  planner::Fingerprint fingerprint_{.fields = {{"backend", "fake"}}};
};

class FakeBackend final : public executor::Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "fake"; }
  [[nodiscard]] executor::Availability availability() const override { return {true, "invented"}; }
  [[nodiscard]] std::vector<Variant> variants(const planner::OpSpec&,
                                              const executor::CommunicatorOptions&) const override {
    return {kFew, kMany};
  }
  [[nodiscard]] Result<void> check_variant(const planner::OpSpec&, const executor::CommunicatorOptions&,
                                           const Variant& variant) const override {
    if (variant == kFew || variant == kMany) return {};
    return planner::Error{planner::ErrorCode::UnknownName, "variant", "the fake backend has no " + variant.text()};
  }
  [[nodiscard]] Result<void> supports(const planner::OpSpec&) const override { return {}; }
  [[nodiscard]] planner::Fingerprint fingerprint(const executor::CommunicatorOptions&) const override {
    return FakeCommunicator().fingerprint();
  }
  [[nodiscard]] Result<std::unique_ptr<executor::Communicator>> open(
      const executor::CommunicatorOptions&) const override {
    return std::unique_ptr<executor::Communicator>(std::make_unique<FakeCommunicator>());
  }
};

class MeasureVariants : public ::testing::Test {
 protected:
  [[nodiscard]] store::Store open_store() const {
    return store::Store::open(directory_ / "store.db", store::OpenMode::ReadWrite).value();
  }

  store::place::TemporaryDirectory directory_;
  std::unique_ptr<Workbench> bench_ = Workbench::open(FakeBackend(), {}, op(), 1).value();
};

planner::CostModel profiled(Workbench& bench, store::Store& store, bool is_active) {
  ProfileSettings settings;
  settings.alignment = 64;
  if (is_active) settings.active = ActiveSettings{};
  const auto swept = profile_operator(bench, settings, store).value();
  return profiler::fit_cost_model({bench.op(), bench.fingerprint(), swept.samples}).value().model;
}

void expect_both_variants(const planner::CostModel& model) {
  ASSERT_EQ(model.variants.size(), 2U);
  for (const auto& cost : model.variants) {
    const double row_us = cost.variant == kMany ? 1 : 2;
    EXPECT_TRUE(cost.variant == kFew || cost.variant == kMany) << cost.variant.text();
    EXPECT_NEAR(cost.compute.curve.time_us(512), 10 + 512, 6);
    EXPECT_NEAR(cost.communication.curve.time_us(512 * 64 * 4), 20 + 512 * row_us, 12);
  }
}

TEST_F(MeasureVariants, ProfileTimesEveryVariantAndTheFitKeepsTheirSettings) {
  auto store = open_store();
  expect_both_variants(profiled(*bench_, store, false));
}

TEST_F(MeasureVariants, ActiveProfileTimesEveryVariantToo) {
  auto store = open_store();
  expect_both_variants(profiled(*bench_, store, true));
}

TEST_F(MeasureVariants, VariantsThatDifferInSettingsOnlyArePreparedApart) {
  const planner::Cut cut{{512, 512}};
  EXPECT_NE(bench_->prepare(cut, kFew).value(), bench_->prepare(cut, kMany).value());
  EXPECT_EQ(bench_->prepare(cut, kFew).value(), bench_->prepare(cut, kFew).value());
}

TEST_F(MeasureVariants, RaceRunsEachPlansVariantAgainstTheFastestSerial) {
  planner::Plan few, many;
  few.op = many.op = op();
  few.cut = many.cut = {{512, 512}};
  few.variant = kFew;
  many.variant = kMany;
  const auto raced = race(*bench_, {few, many}, {}, "race").value();
  EXPECT_EQ(raced.serial_variant, kMany);
  // Few: 522 us, then 2 * (20 + 2 * 512) = 2610. Many: 522 + 522 + 532. Serial: 1034 + 1044 with many CTAs.
  EXPECT_DOUBLE_EQ(median(raced.contenders[0].fused_us), 2610);
  EXPECT_DOUBLE_EQ(median(raced.contenders[1].fused_us), 1586);
  EXPECT_DOUBLE_EQ(median(raced.contenders[0].serial_us), 2078);
  EXPECT_DOUBLE_EQ(median(raced.contenders[0].communication_us), 20 + 2 * 1024);
  EXPECT_DOUBLE_EQ(median(raced.contenders[1].communication_us), 20 + 1024);
  EXPECT_DOUBLE_EQ(median(raced.communication_us), 20 + 1024);
}

TEST_F(MeasureVariants, ASpentBudgetLeavesTheRaceAsManyPairsAsAnIntervalNeeds) {
  planner::Plan few;
  few.op = op();
  few.cut = {{512, 512}};
  few.variant = kFew;
  RaceSettings settings;
  settings.budget = std::chrono::milliseconds(0);
  run_count = 0;
  const auto raced = race(*bench_, {few}, settings, "race").value();
  // The smallest and largest of 6 ratios enclose their median with 1 - 2 / 2^6 = 97 %, of 5 with 94 %.
  EXPECT_EQ(raced.contenders[0].fused_us.size(), 6U);
  // 3 rounds of both variants find the fastest serial; a pair, then both lanes of both variants alone, 6 times.
  EXPECT_EQ(run_count, 3 * 2 + 6 * (2 + 2 * 2));
}

/// As many rounds of one contender, whose fused runs take 50 % or 50 % +- `spread` of serial.
Race raced(int rounds, double spread) {
  Race result;
  result.contenders.emplace_back();
  for (int i = 0; i < rounds; ++i) {
    result.compute_us.push_back(1);
    result.contenders[0].serial_us.push_back(100);
    result.contenders[0].fused_us.push_back(50 * (1 + spread * (i % 3 - 1)));
  }
  return result;
}

TEST(Races, ExpectRoundsUntilTheIntervalsAreNarrowOrTheBudgetEnds) {
  using std::chrono::milliseconds;
  const RaceSettings settings; // 1 %, 61 rounds at most
  const auto missing = [&](const Race& race, int budget_left_ms) {
    return missing_rounds(race, settings, milliseconds(10), milliseconds(budget_left_ms));
  };
  EXPECT_EQ(missing(raced(4, 0), 60'000), 7);       // intervals are first asked after 11
  EXPECT_EQ(missing(raced(4, 0), 55), 5);           // of 10 ms each
  EXPECT_EQ(missing(raced(4, 0), -100), 2);         // 6 in any case
  EXPECT_EQ(missing(raced(12, 0.015), 60'000), 15); // 1.5 % wide after 12: 12 * 1.5^2 = 27
  EXPECT_EQ(missing(raced(12, 0.1), 60'000), 49);
  EXPECT_EQ(missing(raced(12, 0.1), 200), 20);
}

} // namespace
} // namespace mc2::cli
