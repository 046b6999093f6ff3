#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "imported_log.hpp"

/// What a log says of its tests that speaks against what is made of them.
namespace mc2::profiler::importer_checks_test {
namespace {

using planner::Collective;
using ::testing::HasSubstr;

std::string json_log(const std::string& program, int threads, int gpus, const std::string& devices,
                     const std::string& row) {
  return R"({"version": 3, "args": ["./build/)" + program + R"("], "nccl_version": 22902, "config": {"nthreads": )" +
         std::to_string(threads) + R"(, "ngpus": )" + std::to_string(gpus) + R"(, "devices": [)" + devices +
         R"(]}, "results": [)" + row + "]}\n";
}

std::string device(int rank, int pid) {
  return R"({"rank": )" + std::to_string(rank) + R"(, "pid": )" + std::to_string(pid) +
         R"(, "hostname": "node1", "device": 0, "device_info": "H100"})";
}

std::string row(const std::string& redop, double alg, double bus) {
  return R"({"size": 8388608, "count": 2097152, "type": "float", "redop": ")" + redop +
         R"(", "out_of_place": {"time": 61.9, "alg_bw": )" + std::to_string(alg) + R"(, "bus_bw": )" +
         std::to_string(bus) + R"(, "nwrong": 0}})";
}

int ranks_of(const ImportedLog& imported) {
  return imported.timings.groups().empty() ? -1 : imported.timings.groups().begin()->first.world_size;
}

TEST(NcclTestsJson, RanksAreProcessesTimesThreadsTimesGpus) {
  const std::string eight = row("sum", 100, 175); // bus over algorithm bandwidth of 8 ranks is 2 * 7 / 8
  const std::string four_processes = device(0, 1) + "," + device(2, 2) + "," + device(4, 3) + "," + device(6, 4);
  EXPECT_EQ(ranks_of(import_text(json_log("all_reduce_perf", 1, 8, device(0, 1), eight))), 8);
  EXPECT_EQ(ranks_of(import_text(json_log("all_reduce_perf", 1, 2, four_processes, eight))), 8);
  const std::string two = device(0, 1) + "," + device(1, 1);
  EXPECT_EQ(ranks_of(import_text(json_log("all_reduce_perf", 2, 1, two, row("sum", 100, 100)))), 2);
  // Without any device its bandwidths tell.
  EXPECT_EQ(ranks_of(import_text(json_log("all_reduce_perf", 1, 1, "", eight))), 8);
}

TEST(NcclTestsJson, AnotherProgramIsNamedAndNeverTakenForWhatIsSaid) {
  const ImportedLog imported = import_text(json_log("sendrecv_perf", 1, 2, device(0, 1), row("sum", 100, 100)),
                                           {.collective = Collective::AllReduce});
  EXPECT_TRUE(imported.timings.groups().empty());
  EXPECT_THAT(imported.first(Verdict::Skipped), HasSubstr("sendrecv_perf is no collective that mc2 plans"));
}

TEST(NcclTests, WhatIsSaidIsCheckedAgainstTheRow) {
  const auto bad = [](const std::string& one_row, Collective said) {
    return import_text(json_log("main", 1, 8, device(0, 1), one_row), {.collective = said}).first(Verdict::Bad);
  };
  EXPECT_THAT(bad(row("none", 100, 87.5), Collective::AllReduce), HasSubstr("its redop is 'none'"));
  EXPECT_THAT(bad(row("sum", 100, 175), Collective::AllGather), HasSubstr("its redop is 'sum'"));
  EXPECT_THAT(bad(row("sum", 100, 87.5), Collective::AllReduce),
              HasSubstr("its busbw/algbw is 0.875, which all_reduce of 8 ranks does not have"));
  EXPECT_EQ(bad(row("sum", 100, 175), Collective::AllReduce), "");
  const std::string text =
      "# size count type redop root time algbw busbw #wrong\n# (B) (elements) (us) (GB/s) (GB/s)\n"
      "8388608 2097152 float sum -1 61.9 135.4 118.5 0\n# Out of bounds values : 0 OK\n";
  const ImportAnswers said{.collective = Collective::AllReduce, .world_size = 8};
  EXPECT_THAT(import_text(text, said, "nccl_tests").first(Verdict::Bad),
              HasSubstr("all_reduce: its busbw/algbw is 0.875"));
}

TEST(NcclTests, RoundedBandwidthsOfManyRanksAreNoContradiction) {
  const auto taken = [](const std::string& program, int ranks, const std::string& cells) {
    const std::string text =
        "# size count type redop root time algbw busbw #wrong\n# (B) (elements) (us) (GB/s) (GB/s)\n" + cells +
        "\n# Out of bounds values : 0 OK\n";
    return import_text("# Collective test starting: " + program + "\n" + text, {.world_size = ranks}, "nccl_tests");
  };
  for (const auto& imported : {taken("all_gather_perf", 256, "1048576 1024 float none -1 1000 1.00 1.00 0"),
                               taken("all_reduce_perf", 512, "1048576 262144 float sum -1 1000 1.00 2.00 0"),
                               taken("reduce_scatter_perf", 128, "1048576 2048 float sum -1 1000 1.00 0.99 0")})
    EXPECT_EQ(imported.summary.value().took_count, 1) << imported.first(Verdict::Bad);
  // A count beyond any size is no overflow.
  EXPECT_THAT(
      taken("all_reduce_perf", 8, "1048576 9223372036854775807 float sum -1 1000 1.00 1.75 0").first(Verdict::Bad),
      HasSubstr("its count is not of its size"));
}

TEST(NcclTests, OldAllToAllRowsHaveNoOperation) {
  const std::string text =
      "# nThread 1 nGpus 8 minBytes 8388608\n# Collective test starting: alltoall_perf\n"
      "# size count type redop root time algbw busbw #wrong\n# (B) (elements) (us) (GB/s) (GB/s)\n"
      "8388608 262144 float -1 61.9 135.5 118.6 0\n# Out of bounds values : 0 OK\n";
  const ImportedLog imported = import_text(text, {}, "nccl_tests");
  ASSERT_EQ(imported.timings.groups().size(), 1U) << imported.first(Verdict::Bad);
  EXPECT_EQ(imported.timings.groups().begin()->first.collective, Collective::AllToAll);
  EXPECT_EQ(ranks_of(imported), 8);
}

TEST(NcclTests, PrefixesOfKubectlAreLeftOut) {
  std::string tagged;
  std::istringstream lines(read_log("nccl_tests.log"));
  for (std::string line; std::getline(lines, line);)
    tagged += "[pod/worker-0/nccl] 2026-11-21T00:18:30.123456789Z " + line + "\n";
  const ImportedLog plain = import_text(read_log("nccl_tests.log")), imported = import_text(tagged, {}, "nccl_tests");
  EXPECT_EQ(imported.summary.value().took_count, plain.summary.value().took_count);
  EXPECT_EQ(imported.summary.value().bad_count, 0) << imported.first(Verdict::Bad);
}

TEST(MsprofStatistic, CallsOfSeveralShapesHaveNoMean) {
  const ImportedLog imported = import_text(
      "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
      "0,MatMulV3,AI_CORE,10,1000.0,16.5,100.0,346.6,77.1\n",
      {.dtype = planner::DType::F16, .m = 4096, .n = 8192, .k = 3072});
  EXPECT_TRUE(imported.timings.groups().empty());
  EXPECT_THAT(imported.lines.back().text, HasSubstr("times from 16.5 to 346.6 us: calls of several shapes"));
}

constexpr const char* kHeading =
    "Device_id,Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes\n";
constexpr const char* kLargeMatmul =
    "0,MatMulV3,MatMulV3,800,\"\"\"4096,3072;3072,6400\"\"\",DT_BF16;DT_BF16,\"\"\"4096,6400\"\"\"\n";

TEST(MsprofNeighbours, ASizeThatNoLinkCouldMoveIsOfAnotherOperator) {
  const std::string log =
      std::string(kHeading) + kLargeMatmul + "0,hcom_allReduce__1,hcom_allReduce_,5.78,N/A,N/A,N/A\n";
  const ImportedLog imported = import_text(log, {.bytes_from_neighbour = true});
  EXPECT_EQ(imported.summary.value().took_count, 1);
  EXPECT_THAT(imported.lines.back().text, HasSubstr("52428800 B would move at more than 2 TB/s"));
}

TEST(MsprofNeighbours, AMatmulFarAwayIsOfAnotherOperator) {
  std::string log = std::string(kHeading) + kLargeMatmul;
  for (int i = 0; i < 70; ++i) log += "0,Add,Add,2.5,N/A,N/A,N/A\n";
  log += "0,hcom_allReduce__1,hcom_allReduce_,900,N/A,N/A,N/A\n";
  EXPECT_THAT(import_text(log, {.bytes_from_neighbour = true}).lines.back().text, HasSubstr("more than 64 rows away"));
}

} // namespace
} // namespace mc2::profiler::importer_checks_test
