#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "imported_log.hpp"
#include "mc2/planner/fingerprint.hpp"

/// Logs often state one fact in several ways. These tests check that importers notice contradictions, and find out the
/// facts, such as the number of ranks, that a log states only indirectly.
namespace mc2::profiler::importer_checks_test {
namespace {

using planner::Collective;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  text.replace(text.find(what), what.size(), with);
  return text;
}

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
         R"(", "out_of_place": {"time": )" + std::to_string(8388.608 / alg) + R"(, "alg_bw": )" + std::to_string(alg) +
         R"(, "bus_bw": )" + std::to_string(bus) + R"(, "nwrong": 0}})";
}

int ranks_of(const ImportedLog& imported) {
  return imported.timings.groups().empty() ? -1 : imported.timings.groups().begin()->first.world_size;
}

TEST(NcclTestsJson, RanksAreProcessesTimesThreadsTimesGpus) {
  const std::string eight = row("sum", 100, 175); // busbw / algbw of 8 ranks is 2 * 7 / 8
  const std::string four_processes = device(0, 1) + "," + device(2, 2) + "," + device(4, 3) + "," + device(6, 4);
  EXPECT_EQ(ranks_of(import_text(json_log("all_reduce_perf", 1, 8, device(0, 1), eight))), 8);
  EXPECT_EQ(ranks_of(import_text(json_log("all_reduce_perf", 1, 2, four_processes, eight))), 8);
  const std::string two = device(0, 1) + "," + device(1, 1);
  EXPECT_EQ(ranks_of(import_text(json_log("all_reduce_perf", 2, 1, two, row("sum", 100, 100)))), 2);
  // A log without devices tells the number of ranks by its bandwidths.
  EXPECT_EQ(ranks_of(import_text(json_log("all_reduce_perf", 1, 1, "", eight))), 8);
}

TEST(NcclTestsJson, AnotherProgramIsNamedAndNeverTakenForWhatIsSaid) {
  const ImportedLog imported = import_text(json_log("sendrecv_perf", 1, 2, device(0, 1), row("sum", 100, 100)),
                                           {.collective = Collective::AllReduce});
  EXPECT_TRUE(imported.timings.groups().empty());
  EXPECT_THAT(imported.first(Verdict::Skipped), HasSubstr("sendrecv_perf is no collective that mc2 plans"));
}

TEST(NcclTestsJson, RcclsListNamesEachRow) {
  const auto row = [](const std::string& name, int in_place, const std::string& wrong, double bus) {
    return R"({"numCycle":0, "name":")" + name + R"(", "nodes":1, "ranks":4, "ranksPerNode":4, "gpusPerRank":2, )" +
           R"("size":8388608, "type":"float", "redop":"sum", )" + R"("inPlace":)" + std::to_string(in_place) +
           R"(, "time":83.886080, "algBw":100.000000, "busBw":)" + std::to_string(bus) + R"(, "wrong":")" + wrong +
           "\"}";
  };
  const std::string log = "[\n" + row("AllReduce", 0, "0", 175) + ",\n" + row("AllReduce", 1, "0", 175) + ",\n" +
                          row("ReduceScatter", 0, "N/A", 87.5) + ",\n" + row("SendRecv", 0, "0", 100) + ",\n" +
                          row("AllReduce", 0, "3", 175) + ",\n" + row("AllReduce", 0, "0", 100) + "\n]\n";
  const ImportedLog imported = import_text(log);
  EXPECT_EQ(imported.summary.value().format, "nccl_tests_json");
  EXPECT_THAT(timings_text(imported.timings),
              UnorderedElementsAre("all_reduce x8 8388608 B 83886 ns", "reduce_scatter x8 8388608 B 83886 ns"));
  EXPECT_EQ(imported.summary.value().bad_count, 2); // one has wrong elements, one the bandwidth of 2 ranks
  EXPECT_THAT(imported.first(Verdict::Skipped), HasSubstr("SendRecv is no collective"));
  EXPECT_GE(import_text(log.substr(0, log.size() - 3)).summary.value().bad_count, 3);
}

TEST(NcclTestsJson, OtherFormsOfRcclsListAreRead) {
  // 1048576 B in 20.1 us are 52.17 GB/s, and on the buses of 8 ranks 1.75 times that.
  const std::string cells = R"("AllReduce",1,8,8,1,1048576,"float","sum",)",
                    newer =
                        "numCycle,collective,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inplace,time,"
                        "algbw,busbw,#wrong\n",
                    older =
                        "collective, ranks, rankspernode, gpusperrank, size, type, redop, inplace, time, algbw, "
                        "busbw, #wrong\n",
                    wrong = "0," + cells + "0,20.1,52.17,91.29,\"3\"\n0,\"AllReduce\",1\n",
                    object = R"({"name":"AllReduce", "nodes":1, "ranks":8, "ranksPerNode":8, "gpusPerRank":1, )"
                             R"("size":1048576, "type":"float", "redop":"sum", "inPlace":0, "time":20.1, )"
                             R"("algBw":52.17, "busBw":91.29, "wrong":"0"})";
  for (const std::string& log :
       {newer + "0," + cells + "0,20.1,52.17,91.29,\"0\"\n0," + cells + "1,19.1,54.90,96.07,\"0\"\n",
        older + "AllReduce, 8, 8, 1, 1048576, float, sum, 0, 20.1, 52.17, 91.29, 0\n",
        object + "\n" + replaced(object, R"("inPlace":0)", R"("inPlace":1)") + "\n"}) {
    const ImportedLog imported = import_text(log);
    EXPECT_EQ(imported.summary.value().format, "nccl_tests_json") << log;
    EXPECT_EQ(imported.first(Verdict::Bad), "") << log;
    EXPECT_THAT(timings_text(imported.timings), ElementsAre("all_reduce x8 1048576 B 20100 ns")) << log;
  }
  const ImportedLog faults = import_text(newer + wrong);
  EXPECT_EQ(faults.summary.value().bad_count, 2);
  EXPECT_THAT(faults.lines, Contains(Field(&SaidOfLine::text, HasSubstr("found 3 wrong elements"))));
  EXPECT_THAT(faults.first(Verdict::Bad), HasSubstr("3: the row has 3 cells where the heading has 14"));
  EXPECT_EQ(import_text(object + "\n" + object.substr(0, 40)).summary.value().bad_count, 1);
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
  for (const auto& imported : {taken("all_gather_perf", 256, "1048576 1024 float none -1 1048 1.00 1.00 0"),
                               taken("all_reduce_perf", 512, "1048576 262144 float sum -1 1048 1.00 2.00 0"),
                               taken("reduce_scatter_perf", 128, "1048576 2048 float sum -1 1048 1.00 0.99 0")})
    EXPECT_EQ(imported.summary.value().took_count, 1) << imported.first(Verdict::Bad);
  // A huge count must not overflow when it is multiplied by the element size.
  EXPECT_THAT(
      taken("all_reduce_perf", 8, "1048576 9223372036854775807 float sum -1 1048 1.00 1.75 0").first(Verdict::Bad),
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

TEST(NcclTests, ACommandLineOfAnotherProgramIsNoTestOfWhatIsSaid) {
  // Of two ranks sendrecv has the count, the operation and the bandwidths of an all-reduce.
  const std::string test =
      "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 1048576\n"
      "#  Rank  0 Group  0 Pid 7 on a device  0 [0x1b] H100\n"
      "#  Rank  1 Group  0 Pid 7 on a device  1 [0x2b] H100\n"
      "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "1048576 262144 float sum -1 50.00 20.97 20.97 0 50.00 20.97 20.97 N/A\n"
      "# Out of bounds values : 0 OK\n";
  const ImportAnswers said{.collective = Collective::AllReduce};
  EXPECT_EQ(import_text(test, said).summary.value().took_count, 1);
  for (const char* command :
       {"$ ./build/sendrecv_perf -b 1M -g 2\n", "+ mpirun -np 2 /opt/sendrecv_perf_mpi -b 1M\n"}) {
    EXPECT_EQ(import_text(command + test, said).summary.value().took_count, 0) << command;
    const ImportedLog two = import_text("./build/all_reduce_perf -g 2\n" + test + command + test);
    EXPECT_EQ(two.summary.value().took_count, 1) << command;
    EXPECT_THAT(two.lines, Contains(Field(&SaidOfLine::text, HasSubstr("is no collective that mc2 plans")))) << command;
  }
}

TEST(NcclTests, TheSideThatIsNamedFirstStandsFirst) {
  const auto log = [](const std::string& sides) {
    return "# nThread 1 nGpus 2 minBytes 1048576\n# " + sides +
           "\n# size count time algbw busbw #wrong time algbw busbw #wrong\n"
           "1048576 262144 50.00 20.97 20.97 0 40.00 26.21 26.21 0\n# Out of bounds values : 0 OK\n";
  };
  const auto times = [&](const std::string& sides, Buffers buffers) {
    return timings_text(
        import_text(log(sides), {.collective = Collective::AllReduce, .world_size = 2, .buffers = buffers}).timings);
  };
  EXPECT_THAT(times("   out-of-place                  in-place  ", Buffers::OutOfPlace),
              ElementsAre("all_reduce x0 1048576 B 50000 ns"));
  EXPECT_THAT(times("   in-place                  out-of-place  ", Buffers::OutOfPlace), // as mscclpp-test writes it
              ElementsAre("all_reduce x0 1048576 B 40000 ns"));
  EXPECT_THAT(times("   in-place                  out-of-place  ", Buffers::InPlace),
              ElementsAre("all_reduce x0 1048576 B 50000 ns"));
}

TEST(NcclTests, ATableOfTheInPlaceSideAloneIsOfIt) { // rccl-tests -O 0
  const std::string log =
      "# nThread 1 nGpus 2 minBytes 1048576\n#             in-place          \n"
      "# size count type redop root time algbw busbw #wrong\n"
      "1048576 262144 float sum -1 40.00 26.21 26.21 0\n# Out of bounds values : 0 OK\n";
  ImportAnswers said{.collective = Collective::AllReduce, .world_size = 2};
  const ImportedLog without = import_text(log, said);
  EXPECT_EQ(without.summary.value().took_count, 0);
  EXPECT_EQ(without.summary.value().bad_count, 0) << without.first(Verdict::Bad);
  EXPECT_THAT(without.lines, Contains(Field(&SaidOfLine::text, "out of place: not timed; see --buffers in-place")));
  said.buffers = Buffers::InPlace;
  EXPECT_THAT(timings_text(import_text(log, said).timings), ElementsAre("all_reduce x0 1048576 B 40000 ns"));
  std::string wrong = log;
  wrong.replace(wrong.find("26.21 0"), 7, "26.21 3");
  EXPECT_THAT(import_text(wrong, said).first(Verdict::Bad), HasSubstr("in place: the result check found 3 wrong"));
}

TEST(NcclTests, ARowMayLackItsTimesOutOfPlace) {
  const auto log = [](std::size_t blank_count) {
    return "# nThread 1 nGpus 2 minBytes 1048576\n"
           "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
           "     1048576        262144     float     sum      -1" +
           std::string(blank_count, ' ') + "    40.00   26.21   26.21       0\n# Out of bounds values : 0 OK\n";
  };
  ImportAnswers said{.collective = Collective::AllReduce, .world_size = 2};
  const std::string document = replaced(json_log("all_reduce_perf", 1, 2, device(0, 1), row("sum", 100, 100)),
                                        R"("out_of_place": {)", R"("out_of_place": null, "in_place": {)");
  for (const std::string& each : {log(32), document}) {
    said.buffers = Buffers::OutOfPlace;
    const ImportedLog without = import_text(each, said);
    EXPECT_EQ(without.summary.value().took_count, 0);
    EXPECT_EQ(without.summary.value().bad_count, 0) << without.first(Verdict::Bad);
    EXPECT_THAT(without.lines,
                Contains(Field(&SaidOfLine::text, HasSubstr("out of place: not timed; see --buffers in-place"))));
    said.buffers = Buffers::InPlace;
    EXPECT_EQ(import_text(each, said).summary.value().took_count, 1) << import_text(each, said).first(Verdict::Bad);
  }
  EXPECT_THAT(timings_text(import_text(log(32), said).timings), ElementsAre("all_reduce x0 1048576 B 40000 ns"));
  // Without the blanks nothing tells which side is missing.
  EXPECT_THAT(import_text(log(1), said).first(Verdict::Bad), HasSubstr("9 numbers where the heading has 13"));
}

TEST(NcclTests, OneRankSendsNothing) {
  const std::string begin =
                        "./build/all_reduce_perf -b 1M\n# nThread 1 nGpus 1 minBytes 1048576\n# Using devices\n"
                        "#  Rank  0 Group  0 Pid 7 on a device  0 [0x1b] H100\n",
                    second = "#  Rank  1 Group  0 Pid 7 on a device  1 [0x2b] H100\n",
                    table = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n",
                    end = "# Out of bounds values : 0 OK\n";
  const ImportedLog imported =
      import_text(begin + table + "1048576 262144 float sum -1 5.00 209.7 0.00 0 0.50 2097.1 0.00 0\n" + end + begin +
                  second + table + "1048576 262144 float sum -1 50.00 20.97 20.97 0 50.00 20.97 20.97 0\n" + end);
  EXPECT_THAT(timings_text(imported.timings), ElementsAre("all_reduce x2 1048576 B 50000 ns"));
  EXPECT_EQ(imported.summary.value().bad_count, 0) << imported.first(Verdict::Bad);
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("of one rank"))));
}

/// The verdict counts wrong results of both sides, and old versions and N/A columns name no row.
TEST(NcclTests, AFailedVerdictThatNoTakenRowExplainsMakesTheRowsBad) {
  const auto log = [](const std::string& wrong, const std::string& wrong_in_place) {
    return "./build/all_reduce_perf -b 1M\n# nThread 1 nGpus 2 minBytes 1048576\n# Using devices\n"
           "#  Rank  0 Group  0 Pid 7 on a device  0 [0x1b] H100\n#  Rank  1 Group  0 Pid 7 on a device  1 [0x2b] "
           "H100\n"
           "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
           "1048576 262144 float sum -1 50.00 20.97 20.97 0 50.00 20.97 20.97 0\n"
           "2097152 524288 float sum -1 100.00 20.97 20.97 " +
           wrong + " 100.00 20.97 20.97 " + wrong_in_place + "\n# Out of bounds values : 8 FAILED\n";
  };
  const auto bad = [](const std::string& text, Buffers buffers = Buffers::OutOfPlace) {
    const ImportedLog imported = import_text(text, {.buffers = buffers});
    EXPECT_EQ(std::size_t(imported.summary.value().took_count), timings_text(imported.timings).size());
    return std::to_string(imported.summary.value().took_count) + " taken; " + imported.first(Verdict::Bad);
  };
  EXPECT_EQ(bad(log("0", "8")), "0 taken; 7: the test's results were out of bounds in place");
  EXPECT_EQ(bad(log("8", "0"), Buffers::InPlace), "0 taken; 7: the test's results were out of bounds out of place");
  for (const char* unknown : {"0", "N/A"})
    EXPECT_EQ(bad(log(unknown, unknown)), "0 taken; 7: the test's results were out of bounds, and no row says which");
  // A row that names itself is bad, and the others are good.
  EXPECT_EQ(bad(log("8", "0")), "1 taken; 8: out of place: the result check found 8 wrong elements");
  EXPECT_EQ(bad(log("0", "8"), Buffers::Both), "3 taken; 8: in place: the result check found 8 wrong elements");
  EXPECT_EQ(bad(log("0", "0") + log("8", "0")),
            "1 taken; 7: the test's results were out of bounds, and no row says which");
}

TEST(NcclTests, TablesInMillisecondsAreNamed) {
  const std::string log =
      "# nThread 1 nGpus 2 minBytes 1 maxBytes 1048576\n"
      "#  bytes  N  type  op  time  algbw  busbw  res  time  algbw  busbw  res\n"
      " 1048576  262144  float  sum  0.050  20.97  20.97  N/A  0.040  26.21  26.21  N/A\n"
      " Out of bounds values : 0 OK\n";
  EXPECT_EQ(import_text(log).first(Verdict::Bad),
            "2: a table of early nccl-tests, whose times are in ms; run a newer version");
  EXPECT_EQ(import_text(log).summary.value().took_count, 0);
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

/// A log of all_reduce_perf on two ranks, with these columns after "root" and this row.
std::string columns_log(const std::string& columns, const std::string& row) {
  return "# nccl-tests version 2.19.6\n# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 2 minBytes 1024\n"
         "#  Rank  0 Group 0 on a\n#  Rank  1 Group 0 on a\n# size count type redop root " +
         columns + "\n# (B) (elements) (us) (GB/s) (GB/s) (us) (us) (us) (%) %Y-%m-%d %H:%M:%S\n" + row +
         "\n# Out of bounds values : 0 OK\n";
}

TEST(NcclTests, ATestThatFailedIsNamedWithItsFailure) {
  const std::string log = columns_log("time algbw busbw #wrong", "4096 1024 float sum -1 10.5 0.39 0.39 0"),
                    cut = log.substr(0, log.find("# Out of"));
  EXPECT_EQ(import_text(cut).first(Verdict::Bad),
            "8: the test before this line has no end ('# Out of bounds values'): the log is cut");
  EXPECT_EQ(
      import_text(cut + "a: Test NCCL failure common.cu:958 'remote error'\n .. a pid 7: Test failure common.cu:8\n")
          .first(Verdict::Bad),
      "10: the test before this line has no end ('# Out of bounds values'): it failed, line 9: Test NCCL failure "
      "common.cu:958 'remote error'");
}

TEST(NcclTests, IterationTimesAndTimeStampsStandBesideTheTime) {
  const std::string with_iterations = columns_log("time algbw busbw #wrong i_min i_max i_p99 i_cv%",
                                                  "4096 1024 float sum -1 10.5 0.39 0.39 0 9.8 12.1 12.0 3.2");
  const std::string with_stamp =
      columns_log("time algbw busbw #wrong timestamp", "4096 1024 float sum -1 10.5 0.39 0.39 0  2026-11-27 05:15:21");
  for (const std::string& log : {with_iterations, with_stamp})
    EXPECT_THAT(timings_text(import_text(log).timings), ElementsAre("all_reduce x2 4096 B 10500 ns"))
        << import_text(log).first(Verdict::Bad);
}

TEST(NcclTests, TimesOfTheHostAreRefused) {
  const std::string log = columns_log("cputime algbw busbw #wrong", "4096 1024 float sum -1 10.5 0.39 0.39 0");
  const ImportedLog imported = import_text(log);
  EXPECT_TRUE(imported.timings.groups().empty());
  EXPECT_EQ(imported.summary.value().bad_count, 1);
  EXPECT_THAT(imported.first(Verdict::Bad), HasSubstr("run without -C"));
  std::string document = json_log("all_reduce_perf", 1, 2, device(0, 1), row("sum", 100, 100));
  document.replace(document.find("\"time\""), 6, "\"cpu_time\"");
  EXPECT_THAT(import_text(document).first(Verdict::Bad), HasSubstr("run without -C"));
}

/// One event of a PyTorch trace. Times are in us.
std::string trace_event(const std::string& category, const std::string& name, double start, double time,
                        const std::string& arguments) {
  return R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name + R"(", "ts": )" + std::to_string(start) +
         R"(, "dur": )" + std::to_string(time) + R"(, "args": {)" + arguments + "}}";
}

std::string all_reduce_event(double start, double time, int elements = 1024, const std::string& ranks = "[0, 1]") {
  return trace_event(
      "kernel", "ncclDevKernel_AllReduce", start, time,
      R"("device": 0, "Collective name": "allreduce", "In msg nelems": )" + std::to_string(elements) +
          R"(, "Out msg nelems": )" + std::to_string(elements) +
          R"(, "Group size": 2, "dtype": "BFloat16", "In split size": "[]", "Process Group Name": "0", )" +
          R"("Process Group Ranks": ")" + ranks + "\"");
}

std::string matmul_events(double start, double time, const std::string& operands = "[[64, 32], [32, 16]]") {
  return trace_event(
             "cpu_op", "aten::mm", start - 9, 2,
             R"("External id": 7, "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Dims": )" + operands) +
         "," + trace_event("kernel", "nvjet", start, time, R"("External id": 7, "device": 0)") + "," +
         trace_event("kernel", "splitKreduce", start + time, 1, R"("External id": 7, "device": 0)");
}

std::string trace(int rank, const std::string& events) {
  return R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "H100"}], "distributedInfo": {"rank": )" +
         std::to_string(rank) + R"(, "nccl_version": "2.28.9"}, "traceEvents": [)" + events + "]}";
}

ImportedLog import_both(const std::string& first, const std::string& second) {
  ImportedLog imported = import_text(first);
  const auto source = memory_log(second);
  EXPECT_TRUE(import_log(*source, "", {}, imported.timings));
  return imported;
}

TEST(NcclTests, EveryToolsVersionOfNcclHasOneForm) {
  const auto version = [](const std::string& text) { return import_text(text).summary.value().facts.at("nccl"); };
  const std::string head = "# nThread 1 nGpus 2 minBytes 1024\n",
                    code = "# nccl-tests version 2.17.8 nccl-library=22809\n";
  EXPECT_EQ(version(code + head), "2.28.9");
  EXPECT_EQ(version(head + "NCCL version 2.28.9+cuda13.0\n"), "2.28.9");
  EXPECT_EQ(version(code + head + "NCCL version 2.28.9+cuda13.0\n"), "2.28.9");
  EXPECT_EQ(version(head + "RCCL version : 2.22.3-develop:a1b2c3d\n"), "2.22.3-develop:a1b2c3d");
  EXPECT_EQ(version(trace(0, all_reduce_event(20, 9))), "2.28.9");
  EXPECT_EQ(planner::nccl_version("2708"), "2.7.8");
  EXPECT_EQ(planner::nccl_version("21003"), "2.10.3");
  EXPECT_EQ(planner::nccl_version("22807, 2.28.7+cuda13.0"), "22807, 2.28.7");
}

TEST(PytorchTrace, TakesAMatmulsKernelsTogetherAndTheRankThatCameLast) {
  // Rank 0 waits in the first run, rank 1 in the second. The rank that comes last has the shorter time, which counts.
  const ImportedLog imported =
      import_both(trace(0, matmul_events(10, 4) + "," + all_reduce_event(20, 900) + "," + all_reduce_event(2000, 6)),
                  trace(1, all_reduce_event(915, 5) + "," + all_reduce_event(1500, 506)));
  EXPECT_THAT(timings_text(imported.timings),
              UnorderedElementsAre("matmul 64 16 32 bf16 5000 ns", "all_reduce x2 2048 B 5000 ns",
                                   "all_reduce x2 2048 B 6000 ns"));
  EXPECT_EQ(imported.summary.value().facts.at("device"), "H100");
  EXPECT_EQ(imported.summary.value().facts.at("nccl"), "2.28.9");
}

TEST(PytorchTrace, WaitingThatNoOtherRankTellsIsLeftOut) {
  const auto assembled = [](const ImportedLog& imported) {
    const ImportQuestion question{.kind = planner::OpKind::MatmulAllReduce,
                                  .dtype = planner::DType::Bf16,
                                  .m = 64,
                                  .n = 16,
                                  .k = 32,
                                  .device = "h100"};
    return assemble_profile(imported.timings, {}, question);
  };
  const auto refused = assembled(import_text(trace(0, all_reduce_event(20, 900) + "," + all_reduce_event(2000, 6))));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("import the logs of all ranks in one command"));
  // Times that hardly differ are accepted, with a note that they may include waiting.
  const auto told = assembled(
      import_text(trace(0, matmul_events(10, 4) + "," + all_reduce_event(20, 9) + "," + all_reduce_event(2000, 6))));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(told.value().profile.samples.size(), 3U);
  EXPECT_THAT(told.value().notes, Contains(HasSubstr("may have waited for the others")));
}

TEST(PytorchTrace, OnlyRunsThatAllRanksTellCountWhereThereAreSome) {
  const std::string three =
      all_reduce_event(20, 40) + "," + all_reduce_event(200, 41) + "," + all_reduce_event(400, 900);
  const ImportedLog imported = import_both(trace(0, matmul_events(10, 4) + "," + three),
                                           trace(1, all_reduce_event(20, 44) + "," + all_reduce_event(200, 40)));
  const auto assembled = assemble_profile(
      imported.timings, {}, {.kind = planner::OpKind::MatmulAllReduce, .m = 64, .n = 16, .k = 32, .device = "h100"});
  ASSERT_TRUE(assembled) << assembled.error().message;
  EXPECT_EQ(assembled.value().profile.samples.size(), 3U); // one matmul and two all-reduces
  EXPECT_THAT(assembled.value().notes, Contains(HasSubstr("only some ranks' logs tell are left out: 1")));
}

TEST(PytorchTrace, TwoTimesOfOneRankAreNoRun) {
  const std::string first = trace(0, all_reduce_event(20, 40)), second = trace(0, all_reduce_event(20, 50));
  const ImportedLog torn = import_both(first, second), same = import_both(first, first);
  EXPECT_TRUE(torn.timings.groups().begin()->second.events.front().is_torn);
  EXPECT_FALSE(same.timings.groups().begin()->second.events.front().is_torn);
}

TEST(PytorchTrace, RanksOfAGroupAreCountedByTheirPlaceInIt) {
  const ImportedLog imported = import_both(trace(0, all_reduce_event(20, 40, 1024, "[0, 64]")),
                                           trace(64, all_reduce_event(20, 50, 1024, "[0, 64]")));
  EXPECT_TRUE(imported.timings.groups().begin()->second.events.front().is_complete(2));
}

TEST(PytorchTrace, WhatRanSideBySideIsNoCostOfEither) {
  const ImportedLog imported = import_text(trace(0, matmul_events(10, 40) + "," + all_reduce_event(30, 50)));
  EXPECT_TRUE(imported.timings.groups().empty());
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("matmul beside a collective"))));
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("collective beside a matmul"))));
}

TEST(PytorchTrace, AMatmulOfAnotherOperatorSlowsACollectiveToo) {
  const auto other = [](const char* name) {
    return trace_event("kernel", name, 10, 40, R"("External id": 9, "device": 0)") + "," + all_reduce_event(30, 50);
  };
  EXPECT_THAT(import_text(trace(0, other("nvjet_tst_64x64"))).lines,
              Contains(Field(&SaidOfLine::text, HasSubstr("collective beside a matmul"))));
  EXPECT_THAT(import_text(trace(0, other("elementwise_kernel"))).lines,
              Contains(Field(&SaidOfLine::text, "all_reduce")));
}

TEST(PytorchTrace, KernelsThatAllHaveTheNumberOfTheirLaunchNameNoOperator) {
  std::string events = matmul_events(10, 4);
  const std::string number = R"("External id": 7, "device")";
  const auto launched = [&](const std::string& launch, std::size_t from) {
    const std::size_t at = events.find(number, from);
    events.replace(at, number.size(), R"("External id": 7, "correlation": )" + launch + R"(, "device")");
    return at + number.size();
  };
  const std::size_t second = launched("7", 0);
  const std::string one_by_chance = events;
  launched("7", second);
  EXPECT_THAT(timings_text(import_text(trace(0, one_by_chance)).timings), ElementsAre("matmul 64 16 32 bf16 5000 ns"));
  const ImportedLog old = import_text(trace(0, events));
  EXPECT_TRUE(old.timings.groups().empty());
  EXPECT_THAT(old.lines, Contains(Field(&SaidOfLine::text, HasSubstr("PyTorch before 2.3"))));
}

TEST(PytorchTrace, EventsThatAreThereTwiceCountOnce) {
  const std::string once = matmul_events(10, 4) + "," + all_reduce_event(20, 9);
  const auto twice = import_text(trace(0, once + "," + once));
  EXPECT_EQ(timings_text(twice.timings), timings_text(import_text(trace(0, once)).timings));
  EXPECT_EQ(std::ranges::count(twice.lines, "the same event as an earlier one", &SaidOfLine::text), 3);
}

TEST(PytorchTrace, RefusesWhatItCannotKnow) {
  const auto said = [](const std::string& events) { return import_text(trace(0, events)).lines.back().text; };
  EXPECT_THAT(import_text(trace(0, matmul_events(10, 4, "[[64, 32], [33, 16]]"))).first(Verdict::Bad),
              HasSubstr("do not multiply"));
  EXPECT_THAT(said(all_reduce_event(20, 9, 0)), HasSubstr("size is not there"));
  // In order: a kernel of another operator, whatever its time; two operators with the same number; two empty matmuls;
  // message sizes that disagree.
  EXPECT_THAT(said(trace_event("kernel", "copy", 1, 0, R"("External id": 9)")), HasSubstr("another operator"));
  EXPECT_THAT(said(matmul_events(10, 4) + "," + matmul_events(20, 4)), HasSubstr("another one has, too"));
  EXPECT_EQ(import_text(trace(0, matmul_events(10, 4, "[[], []]"))).summary.value().bad_count, 0);
  EXPECT_EQ(import_text(trace(0, matmul_events(10, 4, "[[0, 32], [32, 16]]"))).summary.value().bad_count, 0);
  std::string uneven = all_reduce_event(20, 9);
  uneven.replace(uneven.find("\"Out msg nelems\": 1024"), 22, "\"Out msg nelems\": 4096");
  EXPECT_THAT(said(uneven), HasSubstr("not what it receives"));
  // A collective kernel without a message size still slows a matmul down, so that matmul is left out.
  EXPECT_TRUE(import_text(trace(0, trace_event("kernel", "ncclDevKernel_AllReduce", 5, 90, R"("device": 0)") + "," +
                                       matmul_events(10, 4)))
                  .timings.groups()
                  .empty());
  EXPECT_THAT(said(trace_event("kernel", "ncclDevKernel_AllReduce", 1, 2, R"("device": 0)")),
              HasSubstr("says nothing of its message"));
  const std::string whole = trace(0, all_reduce_event(20, 9));
  EXPECT_THAT(import_text(whole.substr(0, whole.size() - 20)).first(Verdict::Bad), HasSubstr("ends or breaks here"));
  EXPECT_THAT(import_text("{\"traceEvents\": " + std::string(64, '[')).first(Verdict::Bad), HasSubstr("nested deeper"));
}

TEST(PytorchTrace, ReadsWhatPytorchWrote) {
  const ImportedLog imported = import_both(read_log("pytorch_trace_0.json"), read_log("pytorch_trace_1.json"));
  EXPECT_EQ(imported.summary.value().format, "pytorch_trace");
  EXPECT_EQ(imported.summary.value().bad_count, 0) << imported.first(Verdict::Bad);
  std::set<std::string> kinds;
  for (const auto& [key, group] : imported.timings.groups()) {
    kinds.insert(key.component == planner::Component::Matmul ? "matmul" : std::string(to_string(key.collective)));
    for (const TimedEvent& event : group.events) EXPECT_TRUE(event.is_complete(2));
  }
  EXPECT_THAT(kinds, UnorderedElementsAre("matmul", "all_reduce", "reduce_scatter", "all_gather", "all_to_all"));
}

TEST(NcclInspector, NamesWhatIsWrong) {
  const std::string log = read_log("nccl_inspector.log");
  const std::string line = log.substr(0, log.find('\n'));
  const auto said = [&](const std::string& from, const std::string& to) {
    std::string changed = line;
    changed.replace(changed.find(from), from.size(), to);
    return import_text(changed + "\n", {}, "nccl_inspector").lines.back().text;
  };
  EXPECT_THAT(said("kernel_gpu", "collective_cpu"), HasSubstr("timed by the host"));
  EXPECT_THAT(said("\"coll_msg_size_bytes\":4194304", "\"coll_msg_size_bytes\":-1"),
              HasSubstr("coll_msg_size_bytes is '-1'"));
  EXPECT_THAT(said("\"coll_exec_time_us\":36", "\"coll_exec_time_us\":0"), HasSubstr("shorter than 1 us"));
  EXPECT_THAT(said("\"n_ranks\":2", "\"n_ranks\":4"), HasSubstr("busbw"));
  EXPECT_THAT(said("}}", ""), HasSubstr("cut or damaged"));
  EXPECT_THAT(said("\"id\":\"0x7f8c496ae9f661\"", "\"id\":\"\""), HasSubstr("has no id"));
  EXPECT_THAT(said("\"rank\":0", "\"rank\":5"), HasSubstr("its rank is none of it"));
}

TEST(Nsys, TakesCollectivesOfTheSizeThatIsSaid) {
  const std::string log = read_log("nsys_cuda_gpu_trace.csv");
  const ImportedLog asked = import_text(log);
  EXPECT_EQ(asked.summary.value().format, "nsys");
  EXPECT_THAT(asked.summary.value().questions, ElementsAre(HasSubstr("--bytes")));
  const ImportedLog imported = import_text(log, {.world_size = 4, .message_bytes = 67108864});
  ASSERT_EQ(imported.timings.groups().size(), 1U);
  const auto& [key, group] = *imported.timings.groups().begin();
  EXPECT_EQ(key.collective, Collective::AllReduce);
  EXPECT_EQ(group.count, 2);
  EXPECT_FALSE(group.events.front().is_complete(4)); // other ranks' kernels, for which it may have waited, are missing
  EXPECT_EQ(imported.summary.value().facts.at("device"), "NVIDIA H100 80GB HBM3");
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("tells its tile and not m, n and k"))));
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("SendRecv is no collective"))));
}

/// The log is the report cuda_gpu_trace:nvtx-name of a program with PyTorch's ranges.
TEST(Nsys, TakesMatmulsOfTheShapesThatTheirRangesName) {
  const std::string log = read_log("nsys_nvtx_name.csv");
  EXPECT_THAT(import_text(log, {.message_bytes = 4096}).summary.value().questions, ElementsAre(HasSubstr("--dtype")));
  const ImportedLog imported = import_text(log, {.dtype = planner::DType::Bf16, .message_bytes = 4096});
  EXPECT_EQ(imported.first(Verdict::Bad), "");
  const auto& groups = imported.timings.groups();
  const auto find = [&](std::int64_t m, std::int64_t n, std::int64_t k) -> const TimingGroup& {
    return groups.at({.component = planner::Component::Matmul, .m = m, .n = n, .k = k, .dtype = planner::DType::Bf16});
  };
  // The log has three such matmuls, but the third ran beside an all-reduce.
  ASSERT_EQ(find(4096, 8192, 3072).count, 2);
  EXPECT_EQ(find(4096, 8192, 3072).kept.front().time, std::chrono::nanoseconds(298217));
  ASSERT_EQ(find(64, 4096, 16384).count, 1); // the two kernels of one operator count once
  EXPECT_EQ(find(64, 4096, 16384).kept.front().time, std::chrono::nanoseconds(47000));
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("matmul beside another kernel"))));
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("collective beside a matmul"))));
  EXPECT_EQ(std::ranges::count(imported.lines, "all_reduce, size as said", &SaidOfLine::text), 1);
}

TEST(Nsys, ACollectiveThatALaterMatmulOverlapsIsSkipped) {
  const auto matmul = [](const std::string& times, const std::string& number) {
    return times + ",\"aten::mm, op_id = " + number + ", sizes = [[64, 32], [32, 16]]/nvjet_tst_64x64\"\n";
  };
  const std::string reduced = ",ncclDevKernel_AllReduce_Sum_bf16_RING_LL()\n";
  // The first all-reduce ends at 1500, the second at 2300.
  const ImportedLog imported = import_text("Start (ns),Duration (ns),Name\n1000,500" + reduced +
                                               matmul("1400,300", "5") + "1700,600" + reduced + matmul("2300,200", "6"),
                                           {.dtype = planner::DType::Bf16, .message_bytes = 4096});
  EXPECT_THAT(timings_text(imported.timings),
              UnorderedElementsAre("matmul 64 16 32 bf16 200 ns", "all_reduce x0 4096 B 600 ns"));
  EXPECT_EQ(std::ranges::count(imported.lines, "collective beside a matmul, which slows it", &SaidOfLine::text), 1);
}

TEST(Nsys, AMatmulThatIsNotTakenSlowsWhatRunsBesideIt) {
  const auto timings = [](const std::string& other) {
    const std::string log = "Start (ns),Duration (ns),Name\n1000,5000," + other +
                            "\n1100,400,ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16()\n" +
                            "7000,300,\"aten::mm, op_id = 5, sizes = [[64, 32], [32, 16]]/nvjet_tst_64x64\"\n";
    return timings_text(import_text(log, {.dtype = planner::DType::Bf16, .message_bytes = 4096}).timings);
  };
  const std::string matmul = "matmul 64 16 32 bf16 300 ns";
  EXPECT_THAT(timings("nvjet_tst_128x256"), ElementsAre(matmul));
  EXPECT_THAT(timings("\"aten::bmm, op_id = 4, sizes = [[4, 64, 32], [4, 32, 64]]/sm90_xmma_gemm_bf16\""),
              ElementsAre(matmul));
  EXPECT_THAT(timings("elementwise_kernel"), UnorderedElementsAre(matmul, "all_reduce x0 4096 B 400 ns"));
}

TEST(Nsys, TakesMatmulsOfTheTypeThatIsSaidOnly) {
  const auto said = [](const std::string& range, planner::DType dtype) {
    return import_text("Start (ns),Duration (ns),Name\n5,1000,\"" + range +
                           ", op_id = 5, sizes = [[64, 32], [32, 64]]/nvjet_tst_64x64\"\n",
                       {.dtype = dtype})
        .lines.back()
        .text;
  };
  EXPECT_EQ(said("aten::_scaled_mm", planner::DType::F8E4m3), "matmul");
  EXPECT_EQ(said("aten::_int_mm", planner::DType::I8), "matmul");
  EXPECT_THAT(said("aten::_scaled_mm", planner::DType::Bf16), HasSubstr("another type"));
  EXPECT_THAT(said("aten::mm", planner::DType::I8), HasSubstr("another type"));
}

TEST(Nsys, LeavesMatmulsWithoutAShapeOrANumber) {
  const auto said = [](const std::string& range) {
    const ImportedLog imported = import_text(
        "Start (ns),Duration (ns),Name\n5,1000,\"" + range + "/nvjet_tst_64x64\"\n", {.dtype = planner::DType::Bf16});
    return imported.lines.back().text;
  };
  EXPECT_THAT(said("aten::mm, op_id = 5"), HasSubstr("without shapes"));
  EXPECT_THAT(said("aten::mm, sizes = [[64, 32], [32, 64]]"), HasSubstr("no number"));
  EXPECT_THAT(said("aten::mm, op_id = 5, sizes = [[64, 0], [0, 64]]"), HasSubstr("matmul of nothing"));
  EXPECT_THAT(said("aten::mm, op_id = 5, sizes = [[64, 32], [31, 64]]"), HasSubstr("do not multiply"));
  EXPECT_THAT(said("aten::mm, op_id = 5, sizes = [[64, 32], [32"), HasSubstr("without shapes"));
  EXPECT_THAT(said("aten::bmm, op_id = 5, sizes = [[4, 64, 32], [4, 32, 64]]"), HasSubstr("of another operator"));
  EXPECT_EQ(said("aten::mm, op_id = 5, sizes = [[64, 32], [32, 64]]"), "matmul");
}

TEST(Nsys, AddsUpKernelsOfOneMatmulAlone) {
  const auto imported = [](const std::string& other_sizes) {
    const auto row = [](int start, const std::string& sizes) {
      return std::to_string(start) + ",300,\"aten::mm, op_id = 5, sizes = " + sizes + "/nvjet_tst_64x64\"\n";
    };
    return import_text("Start (ns),Duration (ns),Name\n" + row(1000, "[[64, 32], [32, 16]]") + row(2000, other_sizes),
                       {.dtype = planner::DType::Bf16});
  };
  const auto one = imported("[[64, 32], [32, 16]]"), two = imported("[[64, 32], [32, 8]]");
  EXPECT_THAT(timings_text(one.timings), ElementsAre("matmul 64 16 32 bf16 600 ns"));
  EXPECT_EQ(std::ranges::count(one.lines, "a further kernel of the matmul of line 2", &SaidOfLine::text), 1);
  EXPECT_TRUE(timings_text(two.timings).empty());
  EXPECT_THAT(two.lines.back().text, HasSubstr("with another one's number"));
}

TEST(Nsys, RefusesRowsOutOfTheOrderOfTheirStart) {
  const std::string head = "Start (ns),Duration (ns),Name\n",
                    row = ",400000,ncclDevKernel_AllReduce_Sum_bf16_RING_LL()\n";
  const ImportedLog imported = import_text(head + "500000" + row + "7" + row + "x" + row, {.message_bytes = 4096});
  EXPECT_THAT(imported.first(Verdict::Bad), HasSubstr("3: starts before the row above"));
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("'x' is no start"))));
  // A second report in the same log has an order of its own.
  EXPECT_EQ(import_text(head + "500000" + row + head + "7" + row, {.message_bytes = 4096}).first(Verdict::Bad), "");
}

TEST(Nsys, SeveralFilesAndReportsMayStandInOneOutput) {
  const std::string first = read_log("nsys_cuda_gpu_trace.csv"), trace = first.substr(first.find("Start (ns)")),
                    other =
                        "\nProcessing [b.sqlite] with [/opt/nsys/reports/cuda_gpu_kern_sum.py]... \n\n"
                        "Time (%),Total Time (ns),Instances,Avg (ns),Name\n50.1,99,3,33,ncclDevKernel_AllReduce\n",
                    next = "\nProcessing [b.sqlite] with [/opt/nsys/reports/cuda_gpu_trace.py]... \n\n";
  const auto count = [](const std::string& log) {
    const ImportedLog imported = import_text(log, {.world_size = 4, .message_bytes = 67108864});
    EXPECT_EQ(imported.first(Verdict::Bad), "") << log;
    EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, "row of another report"))) << log;
    return imported.timings.groups().begin()->second.count;
  };
  EXPECT_EQ(count(first + other), 2);
  EXPECT_EQ(count(other.substr(1) + next + trace), 2);
  EXPECT_EQ(count(first + other + next + trace), 4); // the starts of the second file begin anew
}

TEST(Nsys, LogsOfSeveralRanksAreOfSeveralRuns) {
  const std::string log = "Start (ns),Duration (ns),Name\n1,400000,ncclDevKernel_AllReduce_Sum_bf16_RING_LL()\n";
  ImportedLog imported = import_text(log, {.message_bytes = 4096});
  std::string other = log;
  other.replace(other.find("1,400000"), 8, "2,410000");
  const auto source = memory_log(other);
  EXPECT_TRUE(import_log(*source, "", {.message_bytes = 4096}, imported.timings));
  const TimingGroup& group = imported.timings.groups().begin()->second;
  ASSERT_EQ(group.events.size(), 2U);
  for (const TimedEvent& event : group.events) EXPECT_FALSE(event.is_torn);
}

TEST(Nsys, LeavesTheReportsBehindAnotherProgramsOutputAlone) {
  const ImportedLog imported = import_text(read_log("nccl_tests.log") + "\n" + read_log("nsys_cuda_gpu_trace.csv"));
  EXPECT_EQ(imported.summary.value().format, "nccl_tests");
}

TEST(Nsys, ReadsTheUnitThatTheHeadingNames) {
  const auto time_of = [](const std::string& unit, const std::string& duration) {
    const std::string log = "Start (" + unit + "),Duration (" + unit + "),Name\n1," + duration +
                            ",ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)\n";
    const ImportedLog imported = import_text(log, {.message_bytes = 4096});
    return imported.timings.groups().empty() ? std::chrono::nanoseconds(0)
                                             : imported.timings.groups().begin()->second.events.front().shortest.time;
  };
  EXPECT_EQ(time_of("ns", "412330").count(), 412330);
  EXPECT_EQ(time_of("us", "412.33").count(), 412330);
  EXPECT_EQ(time_of("ms", "0.41233").count(), 412330);
  EXPECT_EQ(time_of("min", "1").count(), 0);
  EXPECT_EQ(time_of("ns", "-5").count(), 0);
}

TEST(Nsys, NamesTheReportThatListsEachKernel) {
  for (const char* other : {"Time (%),Total Time (ns),Instances,Avg (ns),Name\n50.1,99,3,33,ncclDevKernel_AllReduce\n",
                            " Start (ns)  Duration (ns)  CorrId  Name\n 1 2 3 ncclDevKernel_AllReduce\n"})
    EXPECT_THAT(import_text(other).summary.error().message, HasSubstr("--report cuda_gpu_trace:nvtx-name --format csv"))
        << other;
  EXPECT_THAT(
      import_text(database_text("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)")).summary.error().message,
      HasSubstr("Nsight Systems"));
}

TEST(TorchNpu, TakesARunLessWhatItWaitedBeforeItBegan) {
  const std::string log = read_log("torch_npu_communication.json");
  EXPECT_THAT(import_text(log).summary.value().questions, ElementsAre(HasSubstr("--bytes")));
  const ImportedLog imported = import_text(log, {.world_size = 8, .message_bytes = 67108864});
  EXPECT_EQ(imported.summary.value().format, "torch_npu");
  ASSERT_EQ(imported.timings.groups().size(), 1U);
  std::vector<std::int64_t> times;
  for (const TimedRound& run : imported.timings.groups().begin()->second.kept) times.push_back(run.time.count());
  EXPECT_THAT(times, UnorderedElementsAre(1'071'000, 1'070'900)); // without the 4 ms that the second run waited
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("no collective that mc2 plans"))));
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("a sum over runs"))));
}

TEST(TorchNpu, OfAllRanksTheOneThatCameLastTellsTheTime) {
  const auto rank = [](const char* elapsed_ms) {
    return R"x({"Communication Time Info": {"Elapse Time(ms)": )x" + std::string(elapsed_ms) +
           R"x(, "Synchronization Time(ms)": 0.5}, "Communication Bandwidth Info": {}})x";
  };
  const std::string log = R"json({"(0, 1)": {"step1": {"hcom_allReduce__501_0_1@62972": {"0": )json" + rank("121.7") +
                          R"(, "1": )" + rank("20.8") + R"(}, "Total Op Info": {"0": )" + rank("121.7") + "}}}}";
  const ImportedLog imported = import_text(log, {.message_bytes = 4096});
  ASSERT_EQ(imported.timings.groups().size(), 1U);
  const auto& [key, group] = *imported.timings.groups().begin();
  EXPECT_EQ(key.world_size, 2);
  ASSERT_EQ(group.events.size(), 1U);
  EXPECT_TRUE(group.events.front().is_complete(2));
  EXPECT_EQ(group.events.front().shortest.time.count(), 20'800'000);
}

TEST(TorchNpu, RefusesWhatItCannotKnow) {
  const std::string matrix =
      R"x({"step": {"collective": {"allreduce-top1@1": {"0-1": {"Transit Size(MB)": 1, "Transit Time(ms)": 1}}}}})x";
  EXPECT_THAT(import_text(matrix).summary.error().message, HasSubstr("import communication.json"));
  const auto said = [](const std::string& times) {
    return import_text(
               R"({"step": {"collective": {"hcom_allReduce__1_0_1@1": {"Communication Time Info": )" + times + "}}}}",
               {.message_bytes = 4096})
        .lines.back()
        .text;
  };
  EXPECT_THAT(said(R"x({"Elapse Time(ms)": NaN, "Synchronization Time(ms)": 0})x"), HasSubstr("NaN or Infinity"));
  EXPECT_THAT(said(R"x({"Elapse Time(ms)": -Infinity})x"), HasSubstr("NaN or Infinity"));
  EXPECT_THAT(said(R"x({"Elapse Time(ms)": 1, "Synchronization Time(ms)": 2})x"),
              HasSubstr("step, collective, hcom_allReduce__1_0_1@1: it takes no time"));
  EXPECT_THAT(said(R"x({"Elapse Time(ms)": "1", "Synchronization Time(ms)": 0})x"), HasSubstr("is no number"));
  EXPECT_THAT(said(R"x({"Elapse Time(ms)": 1, "Synchronization Time(ms)": 2})x"), HasSubstr("waited for longer"));
  EXPECT_EQ(import_text(R"x({"Communication Time Info": {"Elapse Time(ms)": 1}})x").summary.value().bad_count, 0);
  EXPECT_THAT(said(R"x({"Synchronization Time(ms)": 2})x"), HasSubstr("is no number"));
  EXPECT_THAT(import_text("{\"Communication Time Info\": " + std::string(64, '[')).first(Verdict::Bad),
              HasSubstr("nested deeper"));
  const std::string whole = read_log("torch_npu_communication.json");
  EXPECT_THAT(import_text(whole.substr(0, whole.size() - 20), {.message_bytes = 4096}).first(Verdict::Bad),
              HasSubstr("cut or damaged"));
}

/// A table of four ranks in the form of nccl-tests 2.13 and later.
std::string nccl_table(const std::string& rows, const std::string& before = "") {
  std::string log =
      before +
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n#\n# Using devices\n";
  for (int rank = 0; rank < 4; ++rank)
    log += "#  Rank  " + std::to_string(rank) + " Group  0 Pid   1 on h device  0 [0x1b] NVIDIA H100\n";
  return log +
         "#       size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
         "#        (B)  (elements)  (us)  (GB/s)  (GB/s)  (us)  (GB/s)  (GB/s)\n" +
         rows + "# Out of bounds values : 0 OK\n";
}

TEST(NcclTests, IsKnownBehindWhatALauncherSaysOfEachOfThousandsOfRanks) {
  std::string before;
  for (int rank = 0; rank < 4096; ++rank)
    before += std::to_string(rank) + ": cpu-bind=MASK - nid005318, task 0 0 [12345]: mask 0xff00 set\n";
  const ImportedLog imported = import_text(nccl_table("8192 512 float none -1 40 0.2 0.2 0 40 0.2 0.2 0\n", before),
                                           {.collective = planner::Collective::AllGather});
  EXPECT_EQ(imported.summary.value().format, "nccl_tests");
  EXPECT_EQ(imported.timings.groups().size(), 1U);
}

TEST(NcclTests, ATestWithARootOrAnotherCountIsNoneOfOurs) {
  const auto said = [](const std::string& row, planner::Collective collective) {
    return import_text(nccl_table(row), {.collective = collective}).first(Verdict::Bad);
  };
  EXPECT_THAT(said("8192 2048 float sum 0 40 0.2 0.2 0 40 0.2 0.2 0\n", planner::Collective::AllReduce),
              HasSubstr("it has a root, rank 0"));
  EXPECT_THAT(said("8192 2048 float none -1 40 0.2 0.2 0 40 0.2 0.2 0\n", planner::Collective::AllGather),
              HasSubstr("not of one rank's part of its size among 4 ranks"));
  EXPECT_EQ(said("8192 512 float none -1 40 0.2 0.2 0 40 0.2 0.2 0\n", planner::Collective::AllGather), "");
}

TEST(NcclTests, ASecondListOfDevicesReplacesTheFirst) {
  const std::string table = nccl_table("8192 512 float none -1 40 0.2 0.2 0 40 0.2 0.2 0\n");
  const std::string without_options = table.substr(table.find("# Using devices"));
  const ImportedLog imported = import_text(table + without_options, {.collective = planner::Collective::AllGather});
  EXPECT_EQ(imported.first(Verdict::Bad), "");
  EXPECT_EQ(imported.timings.groups().begin()->first.world_size, 4);
}

/// A test of 8 MiB behind a list of ranks.
std::string listed_log(const std::string& list, const std::string& program, const std::string& row) {
  return "# Collective test starting: " + program + "\n" + list +
         "# size count type redop root time algbw busbw #wrong\n# (B) (elements) (us) (GB/s) (GB/s)\n8388608 " + row +
         " 0\n# Out of bounds values : 0 OK\n";
}

std::string rank_line(int rank, int process) {
  return "#  Rank  " + std::to_string(rank) + " Group  0 Pid  " + std::to_string(process) +
         " on h device  0 [0000:1b:00] NVIDIA H100\n";
}

/// Busbw/algbw of 16 ranks is 2 * 15 / 16 = 1.875.
constexpr const char* kReducedBy16 = "2097152 float sum -1 83.89 100.00 187.50";

TEST(NcclTests, CutPartsOfTheListAreCountedByTheirLaunch) {
  const std::string launch = "# nThread 1 nGpus 8 minBytes 8\n",
                    first =
                        rank_line(0, 1) + rank_line(1, 1) + "#  Rank  2 Group  0 Pid  1 on h device  2 [0000:1b:00] NV",
                    second = rank_line(8, 2) + rank_line(9, 2);
  // NVIDIA's tool marks what it cuts. AMD's writes the next line behind it, here with a cut number of a rank, too.
  for (const std::string& list : {first + "...\n" + second, first + second, first + second + "#  Rank  1#\n"}) {
    const ImportedLog imported = import_text(listed_log(launch + list, "all_reduce_perf", kReducedBy16));
    EXPECT_THAT(timings_text(imported.timings), ElementsAre("all_reduce x16 8388608 B 83890 ns"))
        << imported.first(Verdict::Bad);
    EXPECT_EQ(imported.summary.value().facts.at("device"), "NVIDIA H100");
  }
  // One process of the launch lists nothing at all.
  const std::string third = rank_line(16, 3);
  EXPECT_THAT(
      import_text(listed_log(launch + first + "...\n" + third, "all_reduce_perf", kReducedBy16)).first(Verdict::Bad),
      HasSubstr("the list of ranks is not whole, rank 3 is not in it"));
}

TEST(NcclTests, AListThatLacksItsBeginningTellsNoNumberOfRanks) {
  std::string list;
  for (int rank = 5; rank < 16; ++rank) list += rank_line(rank, rank);
  const std::string log = listed_log(list, "all_reduce_perf", kReducedBy16);
  EXPECT_THAT(import_text(log).first(Verdict::Bad),
              HasSubstr("rank 0 is not in it; say how many ranks took part (--ranks)"));
  EXPECT_EQ(import_text(log).summary.value().took_count, 0);
  EXPECT_THAT(timings_text(import_text(log, {.world_size = 16}).timings),
              ElementsAre("all_reduce x0 8388608 B 83890 ns"));
  EXPECT_THAT(import_text(log, {.world_size = 8}).first(Verdict::Bad),
              HasSubstr("it lists rank 15, which a test of 8 ranks does not have"));
  // One line that is left is no test of one rank.
  EXPECT_THAT(import_text(listed_log(rank_line(15, 15), "all_reduce_perf", kReducedBy16)).first(Verdict::Bad),
              HasSubstr("rank 0 is not in it"));
  // 2097152 elements in all, 131072 of each rank.
  const std::string gathered = listed_log(list, "all_gather_perf", "131072 float none -1 83.89 100.00 93.75");
  EXPECT_THAT(timings_text(import_text(gathered).timings), ElementsAre("all_gather x16 8388608 B 83890 ns"));
}

TEST(NcclTests, BandwidthsTellANumberOfRanksFromTheNext) {
  std::string list;
  for (int rank = 0; rank < 8; ++rank) list += rank_line(rank, rank);
  const auto bad = [&](const std::string& numbers) {
    return import_text(listed_log(list, "all_reduce_perf", "2097152 float sum -1 " + numbers)).first(Verdict::Bad);
  };
  // 2 * 8 / 9 of 9 ranks are 1.778, 2 * 7 / 8 of 8 ranks are 1.75.
  EXPECT_THAT(bad("83.89 100.00 177.78"), HasSubstr("1.78, which all_reduce of 8 ranks does not have"));
  EXPECT_EQ(bad("83.89 100.00 175.00"), "");
  // The tool may print fewer decimals: of 9986.4 and 17476.2, of 1.04 and 1.82.
  EXPECT_EQ(bad("0.84 9986 17476"), "");
  EXPECT_EQ(bad("8063 1.04 1.8"), "");
}

TEST(Imb, IsKnownWithoutItsBannerAndIndented) {
  const std::string table =
      "  # Benchmarking Allreduce\n  # ( #processes = 2 )\n  # ( 2 additional processes waiting in MPI_Barrier)\n"
      "  #bytes #repetitions t_min[usec] t_max[usec] t_avg[usec]\n  4 1000 1.10 1.30 1.20\n";
  const ImportedLog imported = import_text(table);
  EXPECT_EQ(imported.summary.value().format, "imb");
  ASSERT_EQ(imported.timings.groups().size(), 1U);
  EXPECT_EQ(imported.timings.groups().begin()->first.world_size, 2);
  std::string mapped = table;
  mapped.replace(mapped.find("( #processes = 2 )"), 18, "#processes = 2; rank order (rowwise):\n  #    0    1");
  EXPECT_THAT(timings_text(import_text(mapped).timings), ElementsAre("all_reduce x2 4 B 1300 ns"));
  std::string alone = table;
  alone.replace(alone.find("= 2"), 3, "= 1");
  EXPECT_THAT(import_text(alone).lines, Contains(Field(&SaidOfLine::text, HasSubstr("of one process"))));
}

TEST(Imb, SizesThatWereNotMeasuredAreSkipped) {
  const std::string table =
      "# Benchmarking Alltoall\n# #processes = 4\n#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec]\n"
      "  1024 1000 1.10 1.30 1.20\n";
  for (const char* why : {"time-out.; Time limit (secs_per_sample * msg_sizes_list_len) is over; use \"-time X\"",
                          "out-of-mem.; needed X=   2.000 GB; use flag \"-mem X\"",
                          "int-overflow.; The production rank*size caused int overflow for given sample"}) {
    const ImportedLog imported = import_text(table + "  2048 " + why + "\n");
    EXPECT_THAT(timings_text(imported.timings), ElementsAre("all_to_all x4 4096 B 1300 ns"));
    EXPECT_EQ(imported.summary.value().bad_count, 0) << imported.first(Verdict::Bad);
  }
}

TEST(Nsys, IsKnownBehindTheNoticeOfAnExport) {
  const ImportedLog imported = import_text(
      "NOTICE: Existing SQLite export found: report.sqlite\n        It is assumed file was previously exported from: "
      "report.nsys-rep\n        Consider using --force-export=true if needed.\n\n" +
          read_log("nsys_cuda_gpu_trace.csv"),
      {.world_size = 8, .message_bytes = 4096});
  EXPECT_EQ(imported.summary.value().format, "nsys");
  EXPECT_GT(imported.summary.value().took_count, 0);
}

TEST(NcclInspector, SkipsRecordsOfOtherKinds) {
  const ImportedLog imported = import_text(
      read_log("nccl_inspector.log") + R"({"header": {"id": "0x1", "rank": 0, "n_ranks": 8}, "dump_stats": {"n": 3}})"
                                       "\n");
  EXPECT_EQ(imported.first(Verdict::Bad), "");
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("another kind than coll_perf"))));
}

TEST(HcclTest, ReadsACommandOfSeveralLinesAndNoProseAsAHeading) {
  const ImportedLog imported = import_text(
      "# Data size (-b) from 8 KB to 64 MB, increment factor (-f) of 2\n"
      "mpirun -n 8 ./bin/all_reduce_test -b 8K -e 64M \\\n  -f 2 -d fp16 -o sum -p 8\n"
      "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n8192 | 30.5 | 0.27 | success\n");
  EXPECT_EQ(imported.first(Verdict::Bad), "");
  ASSERT_EQ(imported.timings.groups().size(), 1U);
  EXPECT_EQ(imported.timings.groups().begin()->first.world_size, 8);
}

TEST(HcclTest, ATableWithoutItsCommandIsOfNoOtherTablesCollective) {
  const std::string table =
      "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n8192 | 30.5 | 0.27 | success\n";
  const std::string log = "mpirun -n 8 ./bin/all_gather_test -d fp16\n" + table + table;
  const ImportedLog asked = import_text(log);
  EXPECT_THAT(timings_text(asked.timings), ElementsAre("all_gather x8 8192 B 30500 ns"));
  EXPECT_THAT(asked.summary.value().questions,
              ElementsAre(HasSubstr("--collective"), HasSubstr("--ranks"), HasSubstr("--dtype")));
  const ImportedLog said =
      import_text(log, {.collective = Collective::AllReduce, .dtype = planner::DType::F16, .world_size = 8});
  EXPECT_THAT(timings_text(said.timings),
              UnorderedElementsAre("all_gather x8 8192 B 30500 ns", "all_reduce x0 8192 B 30500 ns"));
}

TEST(HcclTest, TestsOfOtherCollectivesAreNotWhatIsSaid) {
  const std::string table =
      "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n8192 | 30.5 | 0.27 | success\n";
  const ImportAnswers said{.collective = Collective::AllReduce, .dtype = planner::DType::F16, .world_size = 8};
  for (const std::string test : {"broadcast_test", "reduce_test", "scatter_test", "reduce_scatter_v_test",
                                 "all_gather_v_test", "alltoallv_test"}) {
    const ImportedLog other =
        import_text("mpirun -n 8 ./bin/" + test + " -b 8K -e 32M -f 2 -d fp16 -p 8\n" + table, said);
    EXPECT_EQ(timings_text(other.timings).size(), 0U) << test;
    EXPECT_THAT(other.lines, Contains(Field(&SaidOfLine::text, test + " is no collective that mc2 plans")));
  }
  // The next table has a command of its own, or none.
  const std::string other = "mpirun -n 8 ./bin/broadcast_test \\\n -b 8K -d fp16 -p 8\n" + table;
  EXPECT_THAT(timings_text(import_text(other + "mpirun -n 4 ./bin/all_gather_test -d fp16\n" + table, said).timings),
              ElementsAre("all_gather x4 8192 B 30500 ns"));
  EXPECT_THAT(timings_text(import_text(other + table, said).timings), ElementsAre("all_reduce x0 8192 B 30500 ns"));
}

TEST(HcclTest, ALineOfAnotherProgramWithAsManyBarsIsNoRow) {
  const std::string begin =
      "mpirun -n 8 ./bin/all_gather_test -d fp16\n"
      "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n";
  for (const std::string line : {"[WARNING] HCCL(12,python): retry 3 | x | y | z", "retry | x | y | z", " | x | y | z",
                                 "3 retries | x | y | z"}) {
    const ImportedLog imported = import_text(begin + line + "\n8192 | 30.5 | 0.27 | success\n");
    EXPECT_EQ(imported.first(Verdict::Bad), "") << line;
    EXPECT_EQ(timings_text(imported.timings).size(), 1U) << line;
  }
}

TEST(HcclTest, MessagesOf0BytesAreSkipped) {
  const ImportedLog imported = import_text(
      "mpirun -n 8 ./bin/all_gather_test -d fp16\n"
      "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n0 | 3.5 | 0.00000 | success\n");
  EXPECT_EQ(imported.first(Verdict::Bad), "");
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, "a message of 0 bytes")));
}

TEST(Osu, TheMeanOfTheRanksIsBetweenTheirTimes) {
  const auto bad = [](const std::string& times) {
    return import_text(
               "# OSU MPI Allreduce Latency Test v7.4\n"
               "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n1024 " +
               times + " 1000\n")
        .first(Verdict::Bad);
  };
  EXPECT_EQ(bad("20.00 19.00 21.00"), "");
  EXPECT_EQ(bad("20.00 20.00 20.00"), "");
  EXPECT_EQ(bad("20.00 19.00 12.00"), "3: its Avg Latency(us), 20.00, is above its Max Latency(us), 12.00");
  EXPECT_EQ(bad("20.00 25.00 31.00"), "3: its Min Latency(us), 25.00, is above its Avg Latency(us), 20.00");
}

TEST(Imb, TheMeanOfTheProcessesIsBetweenTheirTimes) {
  const auto bad = [](const std::string& times) {
    return import_text(
               "#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part\n# Benchmarking Allreduce\n# #processes = 4\n"
               "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n         1024         1000 " +
               times + "\n")
        .first(Verdict::Bad);
  };
  EXPECT_EQ(bad("9.10 9.90 9.50"), "");
  EXPECT_THAT(bad("9.90 9.10 9.50"), HasSubstr("its t_min[usec], 9.90, is above its t_avg[usec], 9.50"));
  EXPECT_THAT(bad("9.10 9.90 99.50"), HasSubstr("its t_avg[usec], 99.50, is above its t_max[usec], 9.90"));
}

/// With -D a test sends strided or indexed parts of what Size names.
TEST(Osu, OfDerivedDatatypesTheBytesThatWereMovedCount) {
  const ImportedLog imported = import_text(
      "$ mpirun -n 4 ./osu_allgather -D vect:8:4\n# OSU MPI Allgather Latency Test v7.4\n# Datatype: MPI_CHAR.\n"
      "# Size       Avg Latency(us)     Transmit Size\n"
      "1                       1.50                 0\n"
      "1024                   20.50               512\n"
      "2048                   30.50               N/A\n");
  EXPECT_THAT(timings_text(imported.timings), ElementsAre("all_gather x4 2048 B 20500 ns")); // 4 parts of 512 B
  EXPECT_EQ(imported.first(Verdict::Took), "6: all_gather, Avg Latency(us), Transmit Size");
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, "a message of 0 bytes")));
  EXPECT_EQ(imported.first(Verdict::Bad), "7: 'N/A' is no size in bytes");
}

TEST(Osu, ARowWhoseTimeIsNoNumberIsBad) {
  const std::string test = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n",
                    full =
                        "# OSU MPI Allreduce Latency Test v7.4\n"
                        "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n";
  for (const std::string time : {"N/A", "abc", "nan"}) {
    EXPECT_EQ(import_text(test + "1024  " + time + "\n").first(Verdict::Bad), "3: '" + time + "' is no number");
    EXPECT_EQ(import_text(full + "1024 20.00 19.00 " + time + " 1000\n").first(Verdict::Bad),
              "3: '" + time + "' is no number");
  }
  EXPECT_NE(import_text(full + "1024 N/A 19.00 21.00 1000\n").first(Verdict::Bad), "");
  EXPECT_EQ(import_text(test + "4 of the nodes are slow\n4  1.5\n").first(Verdict::Bad), "");
}

TEST(Osu, ACommandLineIsOfTheTestBehindItAlone) {
  const std::string test = "# OSU MPI Allgather Latency Test v7.3\n# Size       Avg Latency(us)\n64      5.00\n",
                    pure =
                        "# OSU MPI Non-blocking Allgather Latency Test v7.3\n"
                        "# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)\n"
                        "64               20.00              10.00              6.00              40.00\n";
  EXPECT_THAT(
      timings_text(import_text("$ mpirun -n 4 ./osu_allgather\n" + test + "$ mpirun -n 8 ./osu_iallgather\n" + pure +
                               "$ srun -n 16 ./osu_allgather_persistent\n" + test)
                       .timings),
      ElementsAre("all_gather x4 256 B 5000 ns", "all_gather x8 512 B 6000 ns", "all_gather x16 1024 B 5000 ns"));
  // Without a command line of its own a test is asked for.
  const ImportedLog asked = import_text("$ mpirun -n 4 ./osu_allgather\n" + test + "$ ./run-with-8-ranks\n" + test);
  EXPECT_THAT(timings_text(asked.timings), ElementsAre("all_gather x4 256 B 5000 ns"));
  EXPECT_THAT(asked.summary.value().questions, ElementsAre("how many ranks took part (--ranks)"));
}

TEST(MsprofTrace, TakesFusedOperatorsWithTheTimesOfTheirBlocks) {
  const std::string log = read_log("msprof_trace.json");
  const ImportedLog unnamed = import_text(log);
  EXPECT_EQ(unnamed.summary.value().format, "msprof_trace");
  EXPECT_THAT(unnamed.summary.value().questions, ElementsAre(HasSubstr("--blocks 512,4x896")));
  const ImportedLog imported = import_text(log, {.blocks = "512,4x896"});
  ASSERT_EQ(imported.timings.fused().size(), 5U);
  const FusedTiming& run = imported.timings.fused()[2];
  EXPECT_EQ(run.collective, planner::Collective::AllReduce);
  EXPECT_DOUBLE_EQ(run.fused_us, 1263.02);
  EXPECT_NEAR(run.compute_blocks_us, 108.1 + 166.2 + 168.4 + 167.9 + 171.3, 0.01);
  EXPECT_NEAR(run.communication_blocks_us, 141.0 + 231.5 + 228.6 + 230.9 + 214.2, 0.01);
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("msprof_*.db"))));
}

TEST(MsprofTrace, RefusesAnotherNumberOfBlocksThanWasNamed) {
  const ImportedLog imported = import_text(read_log("msprof_trace.json"), {.blocks = "2x2048"});
  EXPECT_TRUE(imported.timings.fused().empty());
  EXPECT_THAT(imported.first(Verdict::Bad), HasSubstr("in 5 turns, and the cut that is named has 2 blocks"));
}

/// A trace of one operator that runs once per duration, one run after the other.
std::string fused_trace(const std::vector<double>& durations_us, const std::string& turns = "") {
  std::string log = R"([{"name":"process_name","pid":7,"ph":"M"})";
  double at_us = 0;
  for (const double us : durations_us) {
    log += R"(,{"name":"MatmulReduceScatter","pid":7,"ph":"X","ts":")" + std::to_string(at_us) + R"(","dur":)" +
           std::to_string(us) + R"(,"args":{"Task Type":"MIX_AIC"}})";
    at_us += 2 * us;
  }
  return log + turns + "]";
}

TEST(MsprofTrace, LeavesOutRunsThatAreOfSeveralShapes) {
  const auto count = [](const std::vector<double>& us) {
    return import_text(fused_trace(us), {.blocks = "2x2048"}).timings.fused().size();
  };
  EXPECT_EQ(count({500, 502, 498, 501, 1900}), 5U); // one slow run is accepted, as a first run is slow
  EXPECT_EQ(count({500, 900, 501, 905, 499, 898}), 0U);
}

TEST(MsprofTrace, TakesARunWithoutTurnsAndRefusesWhatHasNoTime) {
  const auto only = [](const std::string& log) { return import_text(log, {.blocks = "2x2048"}); };
  const ImportedLog plain = only(fused_trace({500}));
  ASSERT_EQ(plain.timings.fused().size(), 1U);
  EXPECT_EQ(plain.timings.fused().front().communication_blocks_us, 0);
  // This turn belongs to another device and starts before the run.
  EXPECT_EQ(only(fused_trace({500}, R"(,{"name":"TaskExecute 0","pid":8,"ph":"X","ts":3,"dur":100})"))
                .timings.fused()
                .front()
                .communication_blocks_us,
            0);
  EXPECT_THAT(only(R"([{"name":"MatmulAllReduce","pid":7,"ph":"X","ts":1,"dur":-3,"args":{"Task Type":"x"}}])")
                  .first(Verdict::Bad),
              HasSubstr("no start and no time above 0"));
  // This event is a call on the host.
  EXPECT_TRUE(only(R"([{"name":"aclnnMatmulAllReduce","pid":7,"ph":"X","ts":1,"dur":3,"args":{"Thread Id":4}}])")
                  .timings.fused()
                  .empty());
  EXPECT_THAT(only(R"([{"name":"CANN","ph":"X","pid":1},)" + std::string(64, '[')).first(Verdict::Bad),
              HasSubstr("nested deeper"));
  EXPECT_THAT(only(R"([{"name":"CANN","ph":"X","pid":1)").first(Verdict::Bad), HasSubstr("ends or breaks"));
}

TEST(MsprofTrace, TurnsBeyondTheirRunAreCutToItAndNoSumOverflows) {
  const std::string turn =
      R"(,{"name":"TaskExecute 0","pid":7,"ph":"X","ts":"-4600000000000000","dur":9200000000000600})";
  const ImportedLog imported = import_text(fused_trace({1000}, turn + turn), {.blocks = "4096"});
  EXPECT_TRUE(imported.timings.fused().empty());
  EXPECT_THAT(imported.first(Verdict::Bad), HasSubstr("longer than the whole"));
}

/// A database of all-reduces of two ranks.
/// @param map  rows of RANK_DEVICE_MAP; empty where there is no such table
/// @param columns  further columns of a run
std::string communication_database(const std::string& map, const std::string& group, const std::string& runs,
                                   const std::string& columns = "") {
  const std::string map_sql =
      "CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER);"
      "INSERT INTO RANK_DEVICE_MAP VALUES " +
      map + ";";
  return database_text(
      "CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);"
      "CREATE TABLE COMMUNICATION_OP (opName INTEGER,startNs INTEGER,endNs INTEGER,groupName INTEGER,dataType "
      "INTEGER,count NUMERIC,opType INTEGER,rankSize INTEGER" +
      columns + ");INSERT INTO STRING_IDS VALUES (1,'hcom_allReduce__428_0_1'),(2,'hcom_allReduce_'),(3,'" + group +
      "');" + (map.empty() ? "" : map_sql) + "INSERT INTO COMMUNICATION_OP VALUES " + runs + ";");
}

TEST(MsprofDatabase, OfAllRanksTheOneThatCameLastTellsTheTime) {
  const auto database = [](int rank, std::int64_t end_ns, const char* group) {
    return communication_database("(" + std::to_string(rank) + ",0)", group,
                                  "(1,1000," + std::to_string(end_ns) + ",3,3,4194304,2,2)");
  };
  const ImportedLog both = import_both(database(0, 900'000, "90943"), database(1, 180'000, "90943"));
  ASSERT_EQ(both.timings.groups().size(), 1U);
  const TimingGroup& group = both.timings.groups().begin()->second;
  ASSERT_EQ(group.events.size(), 1U);
  EXPECT_TRUE(group.events.front().is_complete(2));
  EXPECT_EQ(group.events.front().shortest.time.count(), 179'000);
  // Without the group's name nothing tells that the runs in two databases are the same one.
  const ImportedLog unnamed = import_both(database(0, 900'000, "N/A"), database(1, 180'000, "N/A"));
  ASSERT_EQ(unnamed.timings.groups().begin()->second.events.size(), 2U);
  for (const TimedEvent& event : unnamed.timings.groups().begin()->second.events) EXPECT_FALSE(event.is_complete(2));
}

TEST(MsprofDatabase, RunsOfSeveralDevicesAreMatchedWhereTheirDeviceIsTold) {
  const std::string first = "(1,1000,901000,3,3,4194304,2,2", second = "(1,722000,901000,3,3,4194304,2,2";
  for (const char* map : {"(4,0),(5,1)", "(-1,0),(-1,1)", ""}) {
    const ImportedLog told =
        import_text(communication_database(map, "90943", first + ",0)," + second + ",1)", ",deviceId INTEGER"));
    ASSERT_EQ(told.timings.groups().size(), 1U) << map;
    const TimingGroup& group = told.timings.groups().begin()->second;
    ASSERT_EQ(group.events.size(), 1U) << map;
    EXPECT_TRUE(group.events.front().is_complete(2)) << map;
    EXPECT_EQ(group.events.front().shortest.time.count(), 179'000) << map;
    // Without their device the runs may include waiting, which their times must show.
    const ImportedLog untold = import_text(communication_database(map, "90943", first + ")," + second + ")"));
    ASSERT_EQ(untold.timings.groups().begin()->second.events.size(), 2U) << map;
    EXPECT_TRUE(untold.timings.groups().begin()->second.kept.empty()) << map;
    for (const TimedEvent& event : untold.timings.groups().begin()->second.events)
      EXPECT_FALSE(event.is_complete(2)) << map;
  }
}

TEST(NcclTests, SkipsWhatIsNotTheTimeOfOneCollective) {
  std::string log = read_log("nccl_tests.log");
  for (std::size_t at = 0; (at = log.find("agg iters: 1", at)) != std::string::npos;)
    log.replace(at, 12, "agg iters: 4");
  const ImportedLog imported = import_text(log);
  EXPECT_TRUE(imported.timings.groups().empty());
  EXPECT_THAT(imported.lines, Contains(Field(&SaidOfLine::text, HasSubstr("its launch ran 4 collectives at once"))));
  const std::string whole = read_log("nccl_tests.log");
  const auto blocking = [&](const std::string& line) {
    std::string changed = whole;
    changed.insert(changed.find("#", changed.find("# nThread") + 1), "# Blocking Enabled: " + line + "\n");
    return import_text(changed).first(Verdict::Skipped).find("barrier") != std::string::npos ||
           import_text(changed).summary.value().took_count < import_text(whole).summary.value().took_count;
  };
  EXPECT_TRUE(blocking("wait for completion and barrier after each collective"));
  EXPECT_TRUE(blocking("wait and barrier after each inner iteration (-m)"));
  EXPECT_FALSE(blocking("wait after each inner iteration (-m), no barrier"));
}

TEST(NcclTests, SkipsGroupsThatRunAtOnce) { // their list has the ranks of all
  const auto log = [](const std::string& second_group) {
    const auto rank = [](const std::string& number, const std::string& group) {
      return "#  Rank  " + number + " Group  " + group + " Pid 7 on a device  " + number + " [0000:1b:00] H100\n";
    };
    return "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 1024\n" + rank("0", "0") +
           rank("1", second_group) + rank("2", "0") + rank("3", second_group) +
           "# size count type redop root time algbw busbw #wrong\n1024 256 float sum -1 9.00 0.11 0.17 0\n"
           "# Out of bounds values : 0 OK\n";
  };
  EXPECT_THAT(timings_text(import_text(log("0")).timings), ElementsAre("all_reduce x4 1024 B 9000 ns"));
  const ImportedLog split = import_text(log("1"));
  EXPECT_TRUE(split.timings.groups().empty());
  EXPECT_THAT(split.lines, Contains(Field(&SaidOfLine::text, "of 2 groups at once (NCCL_TESTS_SPLIT)")));
  const auto grouped = [](int rank, const std::string& group) {
    std::string text = device(rank, rank);
    return text.insert(1, R"("group": )" + group + ", ");
  };
  const auto took = [&](const std::string& second_group) {
    return import_text(json_log("all_reduce_perf", 1, 1, grouped(0, "0") + "," + grouped(1, second_group),
                                row("sum", 100, 100)))
        .summary.value()
        .took_count;
  };
  EXPECT_EQ(took("0"), 1);
  EXPECT_EQ(took("1"), 0);
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

TEST(MsprofNeighbours, RowsThatDoNotStandInTheOrderOfTheirStartTellNone) {
  std::vector<std::string> rows;
  std::istringstream log(read_log("op_summary.csv"));
  for (std::string row; std::getline(log, row);) rows.push_back(row + "\n");
  // The rows are sorted by duration, so the all-reduce follows a matmul that ran before the one it really followed.
  const std::string sorted = rows[0] + rows[1] + rows[3] + rows[4] + rows[2] + rows[6] + rows[5];
  const ImportAnswers neighbour{.bytes_from_neighbour = true};
  const auto refused = import_text(sorted, neighbour).summary;
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(),
              HasSubstr("line 5 starts before line 3, at 1717575960209020.758 us: the matmul beside a collective is "
                        "told by rows in the order of their start; sort them by their start time, or say --bytes N"));
  // A bad line in the same log does not hide the wrong order.
  EXPECT_FALSE(import_text(sorted + "0,x\n", neighbour).summary.ok());
  const ImportedLog said = import_text(sorted, {.message_bytes = 4096});
  EXPECT_THAT(timings_text(said.timings), Contains("all_reduce x0 4096 B 170250 ns"));
  // Each device has an order of its own, and so has each of several files in sequence.
  std::string other = rows[1];
  other.replace(0, 1, "1");
  const std::string whole = read_log("op_summary.csv");
  EXPECT_TRUE(import_text(whole + other + whole, neighbour).summary.ok());
}

TEST(MsprofNeighbours, AnotherFilesMatmulIsNone) {
  const std::string log =
      std::string(kHeading) + kLargeMatmul + kHeading + "0,hcom_allReduce__1,hcom_allReduce_,900,N/A,N/A,N/A\n";
  EXPECT_EQ(import_text(log, {.bytes_from_neighbour = true}).lines.back().text,
            "no matmul stands before this collective");
}

/// A log may hold what several programs printed one after the other.
TEST(Tables, OfAnotherToolBehindTheFirstAreNamed) {
  const std::string hccl =
                        "mpirun -n 8 ./bin/all_gather_test -d fp16\n"
                        "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n"
                        "8192 | 30.5 | 0.27 | success\n",
                    nccl = read_log("nccl_tests.log"), osu = read_log("osu_allreduce.txt"),
                    imb = read_log("imb_mpi1.txt");
  const auto reasons = [](const std::string& text, std::string_view format = {}) {
    std::set<std::string> texts;
    for (const SaidOfLine& said : import_text(text, {.world_size = 4}, format).lines) texts.insert(said.text);
    return texts;
  };
  const auto begins = [](const std::string& format) {
    return Contains("begins a table of " + format + "; to take it, import the file again with --format " + format);
  };
  EXPECT_THAT(reasons(hccl + nccl), begins("nccl_tests"));
  EXPECT_THAT(reasons(hccl + osu), begins("osu"));
  EXPECT_THAT(reasons(hccl + imb), begins("imb"));
  EXPECT_THAT(reasons(osu + nccl), begins("nccl_tests"));
  EXPECT_THAT(reasons(imb + nccl), begins("nccl_tests"));
  for (const std::string& text : {osu + nccl, osu + imb, imb + nccl, imb + hccl})
    EXPECT_EQ(import_text(text, {.world_size = 4}, {}).summary.value().bad_count, 0);
  for (const char* format : {"hccl_test", "osu", "imb"})
    EXPECT_THAT(reasons(nccl + hccl + osu + imb, "nccl_tests"), begins(format));
  for (const std::string& alone : {hccl, nccl, osu, imb})
    EXPECT_THAT(reasons(alone), ::testing::Not(Contains(HasSubstr("begins a table of"))));
  // The file can be taken in two turns.
  EXPECT_EQ(timings_text(import_text(hccl + nccl, {}, "nccl_tests").timings), timings_text(import_text(nccl).timings));
}

TEST(NewerFormats, AreTold) {
  const auto notes = [](const std::string& file, const std::string& version, const std::string& other) {
    return import_text(replaced(read_log(file), version, other)).summary.value().notes;
  };
  EXPECT_THAT(notes("nccl_inspector.log", "\"v4.0\"", "\"v5.0\""),
              ElementsAre("is of format v5.0, and the newest that mc2 knows is v4.0: what it calls times and sizes may "
                          "have changed"));
  EXPECT_THAT(notes("nccl_inspector.log", "\"v4.0\"", "\"v4.1\""), ElementsAre(HasSubstr("format v4.1")));
  EXPECT_THAT(notes("nccl_inspector.log", "\"v4.0\"", "\"next\""), ElementsAre(HasSubstr("format next")));
  EXPECT_THAT(notes("nccl_inspector.log", "\"v4.0\"", "\"v3.0\""), ElementsAre());
  EXPECT_THAT(notes("nccl_tests.json", "\"version\":3", "\"version\":4"), ElementsAre(HasSubstr("format 4, and")));
  EXPECT_THAT(notes("nccl_tests.json", "\"version\":3", "\"version\":2"), ElementsAre());
}

TEST(NcclTestsJson, AFieldThatStandsThereTwiceIsNamed) {
  const std::string log = read_log("nccl_tests.json");
  EXPECT_EQ(import_text(replaced(log, "\"time\":18.125", "\"time\":18.125,\"time\":18.2")).first(Verdict::Bad),
            "3: results[0], out of place: 'out_of_place/time' stands there twice");
  EXPECT_THAT(import_text(replaced(log, "\"size\":1048576", "\"size\":1048576,\"size\":1048576")).first(Verdict::Bad),
              HasSubstr("'size' stands there twice"));
  EXPECT_THAT(import_text(replaced(read_log("rccl_tests.json"), "\"time\":12.34", "\"time\":1,\"time\":12.34"))
                  .first(Verdict::Bad),
              HasSubstr("'time' stands there twice"));
}

TEST(NcclTestsJson, ASizeThatIsNoWholeNumberIsNamed) {
  const std::string log = replaced(read_log("nccl_tests.json"), "\"size\":1048576", "\"size\":1048576.0");
  EXPECT_THAT(import_text(log).first(Verdict::Bad),
              HasSubstr("'1048576.0' is no size: must be a whole number of bytes"));
}

TEST(Bandwidths, ATimeThatTheBandwidthBesideItContradictsIsNamed) {
  const auto bad = [](const std::string& file, const std::string& time, const std::string& wrong) {
    return import_text(replaced(read_log(file), time, wrong)).first(Verdict::Bad);
  };
  EXPECT_EQ(bad("nccl_tests.log", "21.50   48.77", "2150.   48.77"),
            "14: all_reduce: its algbw is 48.77 GB/s where 1048576 B in 2150 us are 0.4877 GB/s");
  EXPECT_THAT(bad("nccl_tests.json", "\"time\":18.125", "\"time\":1812.5"),
              HasSubstr("its algbw is 57.85 GB/s where 1048576 B in 1812 us are 0.5785 GB/s"));
  EXPECT_THAT(bad("rccl_tests.json", "\"time\":12.340000", "\"time\":0.012340"), HasSubstr("its algbw is 84.97 GB/s"));
  EXPECT_EQ(bad("hccl_test.txt", "60.70 ", "6070.0"),
            "4: all_gather: its alg_bandwidth is 0.135 GB/s where 8192 B in 6070 us are 0.00135 GB/s");
  EXPECT_THAT(bad("nccl_inspector.log", "\"coll_exec_time_us\":36", "\"coll_exec_time_us\":36000"),
              HasSubstr("its algbw is 116.5 GB/s"));
}

TEST(Bandwidths, PrintedDigitsMayBeRoundedAndFewTellNothing) {
  const auto nccl = [](const std::string& time_and_bandwidth) {
    return import_text(columns_log("time algbw busbw #wrong", "4096 1024 float sum -1 " + time_and_bandwidth + " 0"))
        .first(Verdict::Bad);
  };
  // 4096 B in 10.5 us are 0.3901 GB/s. Few digits allow much: 0.04 GB/s stands for any time from 91 to 117 us, and 0.00
  // for any above 819 us.
  EXPECT_EQ(nccl("10.5 0.39 0.39"), "");
  EXPECT_EQ(nccl("10.9 0.38 0.38"), "");
  EXPECT_EQ(nccl("116 0.04 0.04"), "");
  EXPECT_THAT(nccl("0.9 0.04 0.04"), HasSubstr("its algbw is 0.04 GB/s where 4096 B in 0.9 us are 4.551 GB/s"));
  EXPECT_EQ(nccl("9000 0.00 0.00"), "");
  EXPECT_THAT(nccl("10.5 0.00 0.00"), HasSubstr("its algbw is 0 GB/s where 4096 B in 10.5 us are 0.3901 GB/s"));
  EXPECT_EQ(nccl("10.5 N/A N/A"), "");
  for (const char* cell : {"inf", "nan", "-0.39", "abc"})
    EXPECT_THAT(nccl("10.5 " + std::string(cell) + " 0.39"), HasSubstr("algbw is '" + std::string(cell) + "'"));
  EXPECT_THAT(nccl("10.5 0.39 inf"), HasSubstr("busbw is 'inf'; must be a number of GB/s"));
  EXPECT_EQ(nccl("10.5 0.4 0.4"), "");
  EXPECT_EQ(nccl("10.5 3.9e-1 3.9e-1"), "");
  EXPECT_THAT(nccl("12.5 0.39 0.39"), HasSubstr("4096 B in 12.5 us are 0.3277 GB/s"));
  EXPECT_THAT(nccl("10.5 390e+00 390"), HasSubstr("its algbw is 390 GB/s"));
  // hccl_test prints the bandwidth of the bytes that really moved: here 6 parts of one f16 each.
  const auto hccl = [](const std::string& row) {
    return import_text(
               "mpirun -n 6 ./bin/all_gather_test -d fp16\n"
               "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n" +
               row + " | success\n")
        .first(Verdict::Bad);
  };
  EXPECT_EQ(hccl("2 | 10.00 | 0.00120"), "");
  EXPECT_EQ(hccl("65536 | 10.00 | 7.37280"), ""); // 6 parts of 12288 B
  EXPECT_THAT(hccl("65536 | 10.00 | 73.72800"), HasSubstr("its alg_bandwidth is 73.73 GB/s"));
  for (const char* cell : {"0.00000", "1e9"})
    EXPECT_THAT(hccl("65536 | 10.00 | " + std::string(cell)), HasSubstr("its alg_bandwidth is")) << cell;
  for (const char* cell : {"-5.0", "inf", "nan", "abc"})
    EXPECT_THAT(hccl("65536 | 10.00 | " + std::string(cell)),
                HasSubstr("alg_bandwidth is '" + std::string(cell) + "'"));
  // Old versions have 2^30 B in a GB: 12582912 B in 1000 us are 12.58291 of 10^9, and 11.71875.
  EXPECT_EQ(hccl("12582912 | 1000.00 | 11.71875"), "");
  EXPECT_THAT(hccl("12582912 | 1000.00 | 11.00000"), HasSubstr("its alg_bandwidth is 11 GB/s"));
}

} // namespace
} // namespace mc2::profiler::importer_checks_test
