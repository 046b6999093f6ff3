#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "imported_log.hpp"
#include "mc2/profiler/fit.hpp"

namespace mc2::profiler::assemble_test {
namespace {

using planner::Collective;
using planner::Component;
using planner::DType;
using planner::OpKind;
using std::chrono::microseconds;
using ::testing::HasSubstr;

Timing matmul(std::int64_t m, std::int64_t us) {
  return {.component = Component::Matmul, .m = m, .n = 8192, .k = 3072, .dtype = DType::F16, .time = microseconds(us)};
}
Timing collective(Collective kind, std::int64_t bytes, std::int64_t us, int ranks = 8) {
  return {.collective = kind, .message_bytes = bytes, .world_size = ranks, .time = microseconds(us)};
}
TimingSet set_of(const std::vector<Timing>& timings) {
  TimingSet set;
  for (const Timing& timing : timings) EXPECT_TRUE(set.add(timing));
  return set;
}
const std::map<std::string, std::string> kFacts{{"device", "NPU"}, {"nccl", "22902"}};

TEST(Assemble, TakesWhatTheLogsSay) {
  const auto set = set_of({matmul(4096, 803), matmul(512, 101), collective(Collective::AllReduce, 8 << 20, 170)});
  const auto imported = assemble_profile(set, kFacts, {.kind = OpKind::MatmulAllReduce});
  ASSERT_TRUE(imported) << imported.error().text();
  const auto& profile = imported.value().profile;
  EXPECT_EQ(profile.op.text(), "matmul_all_reduce m=4096 n=8192 k=3072 f16 x8");
  EXPECT_EQ(profile.fingerprint.fields,
            (std::map<std::string, std::string>{{"backend", "imported"}, {"device", "NPU"}, {"nccl", "22902"}}));
  ASSERT_EQ(profile.samples.size(), 3U);
  for (const auto& sample : profile.samples) {
    EXPECT_EQ(sample.variant, kImportedVariant);
    if (sample.component == Component::Collective) {
      EXPECT_EQ(sample.message_bytes, 8 << 20);
      EXPECT_EQ(sample.block_rows, 512); // 8 MiB / (8192 x 2 B)
    }
  }
}

TEST(Assemble, NamesTheMachineAsTheUserDoes) {
  const auto imported = assemble_profile(set_of({matmul(4096, 803)}), kFacts,
                                         {.kind = OpKind::MatmulAllReduce, .world_size = 8, .device = "rack7"});
  ASSERT_TRUE(imported) << imported.error().text();
  EXPECT_EQ(imported.value().profile.fingerprint.fields.at("device"), "rack7");
  EXPECT_EQ(imported.value().profile.fingerprint.fields.at("device_model"), "NPU");
}

TEST(Assemble, AsksForEverythingThatIsMissingAtOnce) {
  const auto only_collective = assemble_profile(set_of({collective(Collective::AllReduce, 1024, 5, 0)}), kFacts, {});
  ASSERT_FALSE(only_collective);
  EXPECT_EQ(only_collective.error().code, ErrorCode::InvalidSpec);
  for (const char* option : {"--op", "--n, --k", "--m", "--dtype", "--ranks"})
    EXPECT_THAT(only_collective.error().message, HasSubstr(option));
  auto other = matmul(4096, 800);
  other.n = 4096;
  const auto two_shapes =
      assemble_profile(set_of({matmul(4096, 803), other}), kFacts, {.kind = OpKind::MatmulAllReduce, .world_size = 8});
  ASSERT_FALSE(two_shapes);
  EXPECT_THAT(two_shapes.error().message, HasSubstr("they hold n=4096 k=3072, n=8192 k=3072"));
  EXPECT_THAT(
      assemble_profile(set_of({matmul(1, 1)}), {}, {.kind = OpKind::MatmulAllReduce, .world_size = 8}).error().field,
      "--device");
}

TEST(Assemble, RefusesWhatContradictsTheLog) {
  const auto set = set_of({matmul(4096, 803), collective(Collective::AllReduce, 1024, 5, 8)});
  const auto imported = assemble_profile(set, kFacts, {.kind = OpKind::MatmulAllReduce, .world_size = 4});
  ASSERT_FALSE(imported);
  EXPECT_EQ(imported.error().text(), "--ranks: is 4 where the log says 8");
}

TEST(Assemble, CountsBlocksOfShardsAlongTheCutAxis) {
  // Reduce-scatter on 8 ranks: 4096 rows of the product are 512 rows of every shard.
  const auto scatter = assemble_profile(set_of({matmul(4096, 803), matmul(4100, 804)}), kFacts,
                                        {.kind = OpKind::MatmulReduceScatter, .world_size = 8, .m = 4096});
  ASSERT_TRUE(scatter) << scatter.error().text();
  ASSERT_EQ(scatter.value().profile.samples.size(), 1U); // 4100 rows do not divide among 8 shards
  EXPECT_EQ(scatter.value().profile.samples[0].block_rows, 512);
  EXPECT_THAT(
      scatter.value().notes,
      ::testing::ElementsAre(HasSubstr("1 size is of rows that are no multiple of 8, as those of each block are, e.g. "
                                       "matmul m=4100")));
  // All-gather: a rank multiplies its own shard separately, so 3584 rows are 512 rows of each of the 7 other shards.
  const auto gather = assemble_profile(set_of({matmul(3584, 703)}), kFacts,
                                       {.kind = OpKind::AllGatherMatmul, .world_size = 8, .m = 4096});
  ASSERT_TRUE(gather) << gather.error().text();
  EXPECT_EQ(gather.value().profile.samples[0].block_rows, 512);
}

TEST(Assemble, SaysWhyASizeIsNotUsed) {
  const auto set = set_of({matmul(384, 90), matmul(128, 40), collective(Collective::AllGather, 1024, 5, 4),
                           collective(Collective::AllGather, 1024, 5, 2), collective(Collective::AllReduce, 64, 5, 4)});
  const auto imported = assemble_profile(set, kFacts, {.kind = OpKind::AllGatherMatmul, .world_size = 4, .m = 4096});
  ASSERT_TRUE(imported) << imported.error().text();
  EXPECT_THAT(
      imported.value().notes,
      ::testing::UnorderedElementsAre(
          HasSubstr("1 size is of another number of ranks than 4, e.g. all_gather of 1024 B among 2 ranks"),
          HasSubstr("1 size is of another operator, e.g. all_reduce of 64 B among 4 ranks"),
          HasSubstr("1 size is of rows that are no multiple of 3, the ranks less 1, as those of each block are, "
                    "e.g. matmul m=128")));
}

TEST(Assemble, CountsColumnsWhereFewRowsAreCutAlongN) {
  auto narrow = matmul(4, 9);
  narrow.n = 1024;
  const auto imported =
      assemble_profile(set_of({matmul(4, 20), narrow}), kFacts,
                       {.kind = OpKind::MatmulAllReduce, .world_size = 8, .m = 4, .n = 8192, .k = 3072});
  ASSERT_TRUE(imported) << imported.error().text();
  std::vector<std::int64_t> lengths;
  for (const auto& sample : imported.value().profile.samples) lengths.push_back(sample.block_rows);
  EXPECT_THAT(lengths, ::testing::UnorderedElementsAre(8192, 1024));
}

/// Plans look the profile up under the device's name, so it must not hold times that the device cannot have.
TEST(Assemble, RefusesWhatCannotBeOfThePublishedDeviceThatItIsNamedAfter) {
  const auto under = [](const std::string& device, std::int64_t us) {
    return assemble_profile(set_of({matmul(4096, 803), collective(Collective::AllReduce, 64 << 20, us)}), {},
                            {.kind = OpKind::MatmulAllReduce, .device = device});
  };
  EXPECT_TRUE(under("ascend-910b", 1071));
  EXPECT_THAT(under("ascend-910b", 88750).error().message, HasSubstr("it waited for other ranks"));
  EXPECT_TRUE(under("npu", 88750)); // nothing is published for this name
}

TEST(Assemble, TellsWhetherCutsAreOfTheOperator) {
  TimingSet set;
  ASSERT_TRUE(set.add(FusedTiming{{{.fused_us = 900}, "4x512"}}));
  const ImportQuestion question{OpKind::MatmulAllReduce, DType::F16, 8, 4096, 8192, 3072, "npu"};
  EXPECT_THAT(check_import(set, {}, question).error().message, HasSubstr("4x512"));
  EXPECT_TRUE(check_import(set, {}, {})); // without a stated operator there is nothing to contradict
}

FusedTiming cut_run(const std::string& blocks, double fused_us, double serial_us, std::int64_t line) {
  FusedTiming run{{{.fused_us = fused_us, .serial_us = serial_us}, blocks}};
  run.line = line;
  return run;
}

Error error_of(const std::vector<FusedTiming>& runs, const std::string& device) {
  TimingSet set;
  for (const FusedTiming& run : runs) EXPECT_TRUE(set.add(run));
  set.name_log("cuts.csv");
  const ImportQuestion question{OpKind::MatmulAllReduce, DType::F16, 8, 4096, 8192, 3072, device};
  const auto imported = assemble_profile(set, {}, question);
  const auto checked = check_import(set, {}, question); // a dry run says the same
  EXPECT_EQ(imported.ok(), checked.ok());
  return imported ? Error{} : imported.error();
}

TEST(Assemble, NamesTheLineOfACutThatDoesNotFit) {
  const Error error = error_of({cut_run("512+4x896", 1262, 0, 2), cut_run("4x512", 900, 0, 3)}, "npu");
  EXPECT_EQ(error.field, "blocks");
  EXPECT_THAT(error.message, HasSubstr("cuts.csv:3: '4x512': sum to 2048"));
}

TEST(Assemble, UncutTimesOfRunsAreInOneUnit) {
  EXPECT_EQ(error_of({cut_run("512+4x896", 700, 965, 2), cut_run("640+3x1152", 690, 1400, 3)}, "npu").message, "");
  EXPECT_THAT(error_of({cut_run("512+4x896", 700, 965, 2), cut_run("640+3x1152", 690, 10, 3)}, "npu").message,
              HasSubstr("the serial time beside '640+3x1152' (cuts.csv:3) is 10 us, and that beside '512+4x896' "
                        "(cuts.csv:2) is 965 us"));
  // An uncut run is itself a serial time.
  EXPECT_THAT(error_of({cut_run("4096", 0.965, 0, 2), cut_run("640+3x1152", 690, 965, 3)}, "npu").message,
              HasSubstr("the serial time beside '4096' (cuts.csv:2) is 0.965 us"));
  // A first run that waits for the slowest rank is no other unit.
  EXPECT_EQ(
      error_of({cut_run("4096", 61234, 0, 2), cut_run("4096", 965, 0, 3), cut_run("4096", 967, 0, 4)}, "npu").message,
      "");
}

TEST(Assemble, UncutTimesAreOfThePublishedDevice) {
  // The collective takes 930.9 us: 13.58491263 us / MiB x 64 MiB + 61.508333 us.
  const std::string message = error_of({cut_run("4096", 1.874, 0, 2)}, "ascend-910b").message;
  EXPECT_THAT(message, HasSubstr("cuts.csv:2: '4096': its fused_us, 1.874 us, is far below what the"));
  EXPECT_THAT(message, HasSubstr("are these ms?"));
  EXPECT_EQ(error_of({cut_run("4096", 1874, 0, 2)}, "ascend-910b").message, "");
  EXPECT_EQ(error_of({cut_run("4096", 1.874, 0, 2)}, "npu").message, ""); // nothing is known of it yet
}

TEST(Assemble, RunsOfACutAreNoShorterThanTheMatmul) {
  auto set = set_of({matmul(4096, 849)}); // the uncut matmul, in us
  for (const FusedTiming& run : {cut_run("512+4x896", 1255, 0, 2), cut_run("512+4x896", 1.255, 0, 3)})
    ASSERT_TRUE(set.add(run));
  const ImportQuestion question{OpKind::MatmulAllReduce, DType::F16, 8, 4096, 8192, 3072, "npu"};
  EXPECT_THAT(check_import(set, {}, question).error().message,
              HasSubstr("line 3: '512+4x896': its fused_us, 1.255 us, is far below what the matmul alone takes, 849 "
                        "us; are these ms?"));
}

TEST(Assemble, RefusesALogOfAnotherMakersDevice) {
  const auto under = [](const std::string& logged, const std::string& device) {
    const auto imported = assemble_profile(set_of({matmul(4096, 803)}), {{"device", logged}},
                                           {.kind = OpKind::MatmulAllReduce, .world_size = 8, .device = device});
    return imported ? "" : imported.error().text();
  };
  EXPECT_THAT(under("NVIDIA H100 80GB HBM3", "ascend-910b"),
              HasSubstr("--device: is 'ascend-910b', a device of Huawei whose costs are published, and the logs name "
                        "'NVIDIA H100 80GB HBM3', of NVIDIA"));
  EXPECT_EQ(under("NVIDIA H100 80GB HBM3", "rack7"), "");
  EXPECT_EQ(under("Ascend910B4", "ascend-910b"), "");
  EXPECT_EQ(under("NPU", "ascend-910b"), "");
}

TEST(Assemble, ADryRunTellsThatRanksContradictTheLog) {
  const auto set = set_of({matmul(4096, 803), collective(Collective::AllReduce, 1024, 5, 8)});
  const auto checked = check_import(set, kFacts, {.kind = OpKind::MatmulAllReduce, .world_size = 4});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().text(), "--ranks: is 4 where the log says 8");
}

TEST(Assemble, ADryRunTellsThatNothingIsOfTheOperator) {
  const auto logs = set_of({collective(Collective::AllGather, 8192, 20)});
  const ImportQuestion question{OpKind::MatmulAllReduce, DType::F16, 8, 4096, 8192, 3072};
  EXPECT_EQ(check_import(logs, {}, question).error().code, ErrorCode::CannotFit);
  EXPECT_TRUE(check_import(logs, {}, {}));
}

/// The logs are op_summary tables of two ranks. In the first run rank 1 waits for rank 0, in the second run vice versa.
/// The rank that comes last does not wait, so its time, the shorter one, is the collective's.
TEST(Assemble, TakesTheRankThatCameLastOfMsprofsTables) {
  const auto log_of = [](const std::string& first, const std::string& second) {
    return "Device_id,Op Name,OP Type,Task Duration(us)\n0,hcom_allReduce__568_0_1,hcom_allReduce_," + first +
           "\n0,hcom_allReduce__568_0_1,hcom_allReduce_," + second + "\n";
  };
  TimingSet set;
  for (const std::string& log : {log_of("71.0", "2000.5"), log_of("900.25", "72.0")}) {
    const auto source = memory_log(log);
    ASSERT_TRUE(import_log(*source, "", {.message_bytes = 8 << 20}, set));
  }
  const auto imported = assemble_profile(set, {}, {OpKind::MatmulAllReduce, DType::F16, 2, 4096, 8192, 3072, "npu"});
  ASSERT_TRUE(imported) << imported.error().text();
  ASSERT_EQ(imported.value().profile.samples.size(), 2U); // two runs of one operator name, as in a graph
  EXPECT_EQ(imported.value().profile.samples[0].time, microseconds(71));
  EXPECT_EQ(imported.value().profile.samples[1].time, microseconds(72));
}

TEST(Assemble, TakesTheDeviceThatCameLastOfATableOfSeveral) {
  const std::string log =
      "Device_id,Op Name,OP Type,Task Duration(us)\n"
      "0,hcom_allReduce__568_0_1,hcom_allReduce_,71.0\n1,hcom_allReduce__568_0_1,hcom_allReduce_,180.0\n"
      "0,hcom_allReduce__568_1_1,hcom_allReduce_,150.0\n1,hcom_allReduce__568_1_1,hcom_allReduce_,72.0\n";
  TimingSet set;
  const auto source = memory_log(log);
  ASSERT_TRUE(import_log(*source, "", {.message_bytes = 8 << 20}, set));
  const auto imported = assemble_profile(set, {}, {OpKind::MatmulAllReduce, DType::F16, 2, 4096, 8192, 3072, "npu"});
  ASSERT_TRUE(imported) << imported.error().text();
  std::vector<std::chrono::nanoseconds> times;
  for (const auto& sample : imported.value().profile.samples) times.push_back(sample.time);
  EXPECT_THAT(times, ::testing::UnorderedElementsAre(microseconds(71), microseconds(72)));
  EXPECT_TRUE(imported.value().notes.empty());
}

TEST(Assemble, MarksOutliersAndKeepsThem) {
  std::vector<Timing> timings;
  for (int i = 0; i < 10; ++i) timings.push_back(matmul(4096, 800 + i));
  timings.push_back(matmul(4096, 5000));
  const auto imported = assemble_profile(set_of(timings), kFacts, {.kind = OpKind::MatmulAllReduce, .world_size = 8});
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported.value().profile.samples.size(), 11U);
  for (const auto& sample : imported.value().profile.samples)
    EXPECT_EQ(sample.is_outlier, sample.time == microseconds(5000));
}

TEST(Assemble, GivesAProfileThatFits) {
  std::vector<Timing> timings;
  for (const std::int64_t m : {512, 1024, 2048, 4096}) {
    timings.push_back(matmul(m, 10 + m / 4));                                       // 10 us + 0.25 us a row
    timings.push_back(collective(Collective::AllReduce, m * 8192 * 2, 20 + m / 8)); // 20 us + 0.125 us a row
  }
  const auto imported = assemble_profile(set_of(timings), kFacts, {.kind = OpKind::MatmulAllReduce});
  ASSERT_TRUE(imported);
  const auto fitted = fit_cost_model(imported.value().profile);
  ASSERT_TRUE(fitted) << fitted.error().text();
  const auto& variant = fitted.value().model.variants.at(0);
  EXPECT_NEAR(variant.compute.curve.time_us(3072), 10 + 3072 / 4.0, 1);
  EXPECT_NEAR(variant.communication.curve.time_us(3072.0 * 8192 * 2), 20 + 3072 / 8.0, 1);
}

} // namespace
} // namespace mc2::profiler::assemble_test
