#include "mc2/profiler/importer.hpp"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "imported_log.hpp"

namespace mc2::profiler::importer_test {
namespace {

using planner::Collective;
using planner::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// One sample log, what is said beside it, and every timing that it holds.
struct Sample {
  const char* file;
  const char* format;
  ImportAnswers answers;
  std::int64_t bad_count;
  std::vector<std::string> timings;
};

std::ostream& operator<<(std::ostream& out, const Sample& sample) { return out << sample.file; }

class SampleLog : public ::testing::TestWithParam<Sample> {};

TEST_P(SampleLog, GivesItsRowsBytesAndMicroseconds) {
  const Sample& sample = GetParam();
  const ImportedLog imported = import_text(read_log(sample.file), sample.answers);
  ASSERT_TRUE(imported.summary) << imported.summary.error().text();
  EXPECT_EQ(imported.summary.value().format, sample.format);
  EXPECT_EQ(imported.summary.value().bad_count, sample.bad_count) << imported.summary.value().first_bad;
  EXPECT_THAT(timings_text(imported.timings), ::testing::UnorderedElementsAreArray(sample.timings));
}

INSTANTIATE_TEST_SUITE_P(
    Data, SampleLog,
    ::testing::Values(
        Sample{"nccl_tests.log",
               "nccl_tests",
               {},
               0,
               {"all_reduce x4 1048576 B 21500 ns", "all_reduce x4 2097152 B 30750 ns",
                "all_gather x4 1048576 B 15120 ns"}},
        Sample{"nccl_tests.log",
               "nccl_tests",
               {.buffers = Buffers::Both},
               0,
               {"all_reduce x4 1048576 B 21500 ns", "all_reduce x4 1048576 B 20250 ns",
                "all_reduce x4 2097152 B 30750 ns", "all_reduce x4 2097152 B 29000 ns",
                "all_gather x4 1048576 B 15120 ns", "all_gather x4 1048576 B 14000 ns"}},
        Sample{"nccl_tests_tagged.log",
               "nccl_tests",
               {},
               0,
               {"all_reduce x4 1048576 B 21500 ns", "all_reduce x4 2097152 B 30750 ns",
                "all_gather x4 1048576 B 15120 ns"}},
        Sample{"nccl_tests_iterations.log", "nccl_tests", {}, 0, {"all_reduce x2 4096 B 10500 ns"}},
        Sample{"nccl_tests_host_time.log", "nccl_tests", {}, 1, {}},
        Sample{"osu_reduce_scatter_block.txt",
               "osu",
               {.world_size = 8},
               0,
               {"reduce_scatter x0 4 B 2610 ns", "reduce_scatter x0 1024 B 4870 ns",
                "reduce_scatter x0 1048576 B 311920 ns"}},
        Sample{"torch_npu_cluster_communication.json",
               "torch_npu",
               {.message_bytes = 4096},
               0,
               {"all_reduce x2 4096 B 20800000 ns"}},
        Sample{"msprof.db",
               "msprof_db",
               {.world_size = 8},
               0,
               {"all_reduce x0 67108864 B 1071000 ns", "matmul 4096 8192 3072 f16 803000 ns"}},
        // The collective is named by the command line. The "error" column of old versions does not count elements.
        Sample{"nccl_tests_old.log", "nccl_tests", {}, 0, {"reduce_scatter x2 8388608 B 120900 ns"}},
        Sample{"rccl_tests.log", "nccl_tests", {}, 0, {"all_to_all x2 8388608 B 91100 ns"}},
        Sample{"nccl_tests.json",
               "nccl_tests_json",
               {.buffers = Buffers::InPlace},
               0,
               {"all_reduce x2 1048576 B 17500 ns", "all_reduce x2 2097152 B 25750 ns"}},
        // 8200 B of f16 are 4100 elements. On 8 ranks they become 513 on each, 8208 B in all.
        Sample{
            "hccl_test.txt",
            "hccl_test",
            {},
            0,
            {"all_gather x8 8192 B 60700 ns", "all_gather x8 8208 B 61100 ns", "all_gather x8 67108864 B 1042380 ns"}},
        Sample{"hccl_test_failed.txt",
               "hccl_test",
               {.collective = Collective::AllReduce, .dtype = DType::F32, .world_size = 8},
               2,
               {"all_reduce x0 1048576 B 118250 ns"}},
        Sample{"osu_allreduce.txt", "osu", {}, 0, {"all_reduce x0 4 B 21760 ns", "all_reduce x0 1048576 B 3291210 ns"}},
        // The log has one table of 2 processes and one of 4.
        Sample{"imb_mpi1.txt", "imb", {}, 0, {"all_reduce x2 1024 B 6790 ns", "all_reduce x4 1024 B 19830 ns"}},
        // The shorter of the two ranks' times counts, because the other rank waited.
        Sample{"nccl_inspector.log",
               "nccl_inspector",
               {},
               0,
               {"all_reduce x2 4194304 B 36000 ns", "all_reduce x2 8388608 B 61000 ns",
                "reduce_scatter x2 4194304 B 21000 ns", "all_gather x2 4194304 B 21000 ns"}},
        // The log has bytes per peer, which count 4 times for 4 ranks. The time is the slowest rank's.
        Sample{"osu_alltoall_full.txt",
               "osu",
               {.world_size = 4},
               0,
               {"all_to_all x0 4096 B 22250 ns", "all_to_all x0 262144 B 140500 ns"}},
        Sample{"op_summary.csv",
               "msprof",
               {},
               0,
               {"matmul 4096 8192 3072 f16 803000 ns", "matmul 512 8192 3072 f16 101500 ns"}},
        // The all-reduce has the size of the product of the matmul before it: 512 x 8192 elements of 2 bytes.
        Sample{"op_summary.csv",
               "msprof",
               {.bytes_from_neighbour = true},
               0,
               {"matmul 4096 8192 3072 f16 803000 ns", "matmul 512 8192 3072 f16 101500 ns",
                "all_reduce x0 8388608 B 170250 ns"}},
        // One matmul has a transposed A. The other has 4 x 512 rows, and B in tiles of 16 x 16.
        Sample{"kernel_details.csv",
               "msprof",
               {},
               0,
               {"matmul 4096 512 8192 bf16 185504 ns", "matmul 2048 4096 8192 bf16 90250 ns"}},
        Sample{"communication_statistic.csv",
               "msprof_statistic",
               {.message_bytes = 8388608},
               0,
               {"all_reduce x0 8388608 B 170000 ns"}},
        Sample{"op_statistic.csv",
               "msprof_statistic",
               {.dtype = DType::F16, .m = 4096, .n = 8192, .k = 3072},
               0,
               {"matmul 4096 8192 3072 f16 803000 ns"}}));

/// One cell of the table in docs/importing.md: the full array's bytes where a tool says 1024 bytes among 4 ranks.
struct ByteCell {
  std::string log;
  ImportAnswers answers;
  std::string timing;
};

std::string nccl_log(const std::string& program, int count) {
  return "# nccl-tests version 2.17.8\n# Collective test starting: " + program +
         "\n# nThread 1 nGpus 4 minBytes 1024\n#  Rank  0 Group 0 on a\n#  Rank  1 Group 0 on a\n#  Rank  2 Group 0 "
         "on a\n#  Rank  3 Group 0 on a\n"
         "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n# (B) (elements) (us) (GB/s) "
         "(GB/s) (us) (GB/s) (GB/s)\n"
         "1024 " +
         std::to_string(count) + (program.find("reduce") != std::string::npos ? " float sum" : " float none") +
         " -1 2.5 0.4 0.4 0 2.5 0.4 0.4 0\n# Out of bounds values : 0 OK\n";
}
std::string imb_log(const std::string& name) {
  const bool is_overlapped = name == "Ialltoall";
  return "#    Intel(R) MPI Benchmarks 2021.11, MPI-1 part\n# Benchmarking " + name +
         " \n# #processes = 4 \n # ( 4 additional processes waiting in MPI_Barrier )\n" +
         (is_overlapped
              ? "  #bytes #repetitions t_ovrl[usec] t_pure[usec] t_CPU[usec] overlap[%] defects\n 0 9 1 1 1 1 0.00\n"
                " 1024 9 4.00 2.50 2.00 25.00 0.00\n"
              : "  #bytes #repetitions t_min[usec] t_max[usec] t_avg[usec]\n 0 9 0.04 0.05 0.05\n 1024 9 2.00 2.50 "
                "2.25\n");
}

std::string osu_log(const std::string& name) {
  return "# OSU MPI " + name + " Latency Test v7.4\n# Size       Avg Latency(us)\n1024                      2.50\n";
}
std::string hccl_log(const std::string& program) {
  return "mpirun -n 4 ./bin/" + program +
         " -d fp32\ndata_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n"
         "1024 | 2.50 | 0.4 | success\n";
}

class ByteTable : public ::testing::TestWithParam<ByteCell> {};

TEST_P(ByteTable, NormalisesToTheFullArray) {
  const ImportedLog imported = import_text(GetParam().log, GetParam().answers);
  ASSERT_TRUE(imported.summary) << imported.summary.error().text();
  EXPECT_THAT(timings_text(imported.timings), ElementsAre(GetParam().timing));
}

const ImportAnswers kFourRanks{.world_size = 4};
INSTANTIATE_TEST_SUITE_P(
    Tools, ByteTable,
    ::testing::Values(ByteCell{nccl_log("all_reduce_perf", 256), {}, "all_reduce x4 1024 B 2500 ns"},
                      ByteCell{nccl_log("reduce_scatter_perf", 64), {}, "reduce_scatter x4 1024 B 2500 ns"},
                      ByteCell{nccl_log("all_gather_perf", 64), {}, "all_gather x4 1024 B 2500 ns"},
                      ByteCell{nccl_log("alltoall_perf", 64), {}, "all_to_all x4 1024 B 2500 ns"},
                      ByteCell{osu_log("Allreduce"), kFourRanks, "all_reduce x0 1024 B 2500 ns"},
                      ByteCell{osu_log("Reduce_scatter"), kFourRanks, "reduce_scatter x0 1024 B 2500 ns"},
                      ByteCell{osu_log("Allgather"), kFourRanks, "all_gather x0 4096 B 2500 ns"},
                      ByteCell{osu_log("All-to-All Personalized Exchange"), kFourRanks, "all_to_all x0 4096 B 2500 ns"},
                      ByteCell{osu_log("Reduce_scatter_block"), kFourRanks, "reduce_scatter x0 1024 B 2500 ns"},
                      ByteCell{osu_log("Non-blocking Reduce_scatter_block"), kFourRanks,
                               "reduce_scatter x0 1024 B 2500 ns"},
                      ByteCell{osu_log("Allgather Persistent"), kFourRanks, "all_gather x0 4096 B 2500 ns"},
                      ByteCell{imb_log("Allreduce"), {}, "all_reduce x4 1024 B 2500 ns"},
                      ByteCell{imb_log("Reduce_scatter"), {}, "reduce_scatter x4 1024 B 2500 ns"},
                      ByteCell{imb_log("Reduce_scatter_block"), {}, "reduce_scatter x4 4096 B 2500 ns"},
                      ByteCell{imb_log("Allgather"), {}, "all_gather x4 4096 B 2500 ns"},
                      ByteCell{imb_log("Iallgather_pure"), {}, "all_gather x4 4096 B 2500 ns"},
                      ByteCell{imb_log("Ialltoall"), {}, "all_to_all x4 4096 B 2500 ns"},
                      ByteCell{hccl_log("all_reduce_test"), {}, "all_reduce x4 1024 B 2500 ns"},
                      ByteCell{hccl_log("reduce_scatter_test"), {}, "reduce_scatter x4 1024 B 2500 ns"},
                      ByteCell{hccl_log("all_gather_test"), {}, "all_gather x4 1024 B 2500 ns"},
                      ByteCell{hccl_log("alltoall_test"), {}, "all_to_all x4 1024 B 2500 ns"}));

TEST(Importer, KeepsOfTheEnvironmentOnlySettingsOfNccl) {
  const ImportedLog imported = import_text(read_log("nccl_tests.json"));
  ASSERT_TRUE(imported.summary);
  const auto& facts = imported.summary.value().facts;
  EXPECT_EQ(facts, (std::map<std::string, std::string>{
                       {"device", "NVIDIA H100 80GB HBM3"}, {"nccl", "2.29.2"}, {"nccl_algo", "Ring"}}));
  for (const SaidOfLine& said : imported.lines) EXPECT_THAT(said.text, ::testing::Not(HasSubstr("secret")));
}

TEST(Importer, TellsTheDeviceAndTheLibraries) {
  const ImportedLog imported = import_text(read_log("nccl_tests.log"));
  ASSERT_TRUE(imported.summary);
  EXPECT_EQ(imported.summary.value().facts,
            (std::map<std::string, std::string>{
                {"device", "NVIDIA H100 80GB HBM3"}, {"nccl", "2.29.2"}, {"nccl_tests", "2.17.8"}}));
}

TEST(Importer, AsksWhatTheLogCannotKnow) {
  const auto asked = [](const std::string& text, const ImportAnswers& answers = {}) {
    const ImportedLog imported = import_text(text, answers);
    EXPECT_TRUE(imported.timings.groups().empty());
    return imported.summary ? imported.summary.value().questions
                            : std::vector<std::string>{imported.summary.error().text()};
  };
  EXPECT_THAT(asked(osu_log("Allgather")), ElementsAre(HasSubstr("--ranks")));
  EXPECT_THAT(asked("data_size(Bytes): | aveg_time(us): | x | check_result:\n1024 | 2.50 | 0.4 | success\n"),
              ElementsAre(HasSubstr("--collective"), HasSubstr("--ranks"), HasSubstr("--dtype")));
  EXPECT_THAT(asked(read_log("communication_statistic.csv")), ElementsAre(HasSubstr("--bytes")));
  EXPECT_THAT(asked(read_log("op_statistic.csv")), ElementsAre(HasSubstr("--m, --n, --k, --dtype")));
  std::string nameless = nccl_log("all_reduce_perf", 256);
  nameless.erase(nameless.find("# Collective"), 49);
  EXPECT_THAT(asked(nameless), ElementsAre(HasSubstr("--collective")));
}

TEST(Importer, AsksForTheBytesOfCommunicationRowsAndTakesTheMatmuls) {
  const ImportedLog imported = import_text(read_log("op_summary.csv"));
  ASSERT_TRUE(imported.summary);
  EXPECT_THAT(imported.summary.value().questions, ElementsAre(HasSubstr("--bytes neighbour")));
}

TEST(Importer, TakesTheAOfTheMatmulBehindAnAllGather) {
  const std::string log =
      "Device_id,Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes\n"
      "0,hcom_allGather__1,hcom_allGather_,10.5,N/A,N/A,N/A\n"
      "1,MatMulV3,MatMulV3,20.5,\"\"\"9,9;9,9\"\"\",DT_BF16;DT_BF16,\"\"\"9,9\"\"\"\n"
      "0,MatMulV3,MatMulV3,20.5,\"\"\"64,32;32,16\"\"\",DT_BF16;DT_BF16,\"\"\"64,16\"\"\"\n";
  const ImportedLog imported = import_text(log, {.bytes_from_neighbour = true});
  ASSERT_TRUE(imported.summary) << imported.summary.error().text();
  // The size is that of device 0's next matmul, not of device 1's. Its A is 64 x 32 elements of 2 bytes.
  EXPECT_THAT(timings_text(imported.timings), ::testing::Contains("all_gather x0 4096 B 10500 ns"));
}

const std::string kMatmul = "0,MatMulV3,MatMulV3,20.5,\"\"\"64,32;32,16\"\"\",DT_BF16;DT_BF16,\"\"\"64,16\"\"\"\n";
const std::string kKernels =
    "Device_id,Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes\n" + kMatmul;
constexpr const char* kReduced = "0,hcom_allReduce__1,hcom_allReduce_,10.5,N/A,N/A,N/A\n";
constexpr const char* kGathered = "0,hcom_allGather__1,hcom_allGather_,11.5,N/A,N/A,N/A\n";
constexpr const char* kShapeless = "0,MatMulV3,MatMulV3,20.5,N/A,DT_BF16;DT_BF16,N/A\n";

TEST(Importer, SkipsACollectiveBesideAMatmulThatTellsNoSize) {
  // The matmul directly before the collective tells no size. The one before that, of 64 x 16, must not be used instead.
  for (const std::string matmul :
       {kShapeless, "0,BatchMatMulV2,BatchMatMulV2,20.5,\"\"\"4,8,8;4,8,8\"\"\",DT_BF16;DT_BF16,\"\"\"4,8,8\"\"\"\n",
        "0,MatmulAllReduce,MatmulAllReduce,20.5,\"\"\"8,8;8,8\"\"\",DT_BF16;DT_BF16,\"\"\"8,8\"\"\"\n",
        "0,MatMulV3,MatMulV3,20.5,\"\"\"8,8;8,8\"\"\",INT64;INT64,\"\"\"8,8\"\"\"\n",
        "0,MatMulV3,MatMulV3,20.5,\"\"\"8,8;9,9\"\"\",DT_BF16;DT_BF16,\"\"\"8,8\"\"\"\n"}) {
    const ImportedLog imported = import_text(kKernels + matmul + kReduced, {.bytes_from_neighbour = true});
    ASSERT_TRUE(imported.summary) << imported.summary.error().text();
    EXPECT_EQ(imported.summary.value().took_count, 1) << matmul;
    EXPECT_EQ(imported.lines.back().text,
              "the matmul before this collective has no shapes and element type that give its size");
  }
  const ImportedLog imported = import_text(kKernels + "0,MatMulV3,Mat\n" + kReduced, {.bytes_from_neighbour = true});
  EXPECT_EQ(imported.lines.back().text, "the matmul before this collective may be on a row that cannot be read");
}

TEST(Importer, SkipsAnAllGatherBeforeAMatmulThatTellsNoSize) {
  const ImportedLog imported = import_text(kKernels + kGathered + kShapeless + kMatmul, {.bytes_from_neighbour = true});
  EXPECT_EQ(imported.summary.value().took_count, 2); // the two matmuls
  EXPECT_THAT(imported.lines, ::testing::Contains(::testing::Field(
                                  &SaidOfLine::text, HasSubstr("the matmul behind this all-gather has no shapes"))));
}

TEST(Importer, NoAllGatherTakesTheSizeOfTheMatmulBeforeIt) {
  std::string log = kKernels;
  for (std::size_t i = 0; i < kMaxTimingsPerSize + 1; ++i) log += kGathered;
  const ImportedLog imported = import_text(log, {.bytes_from_neighbour = true});
  EXPECT_EQ(imported.summary.value().took_count, 1); // only the matmul
}

TEST(Importer, TakesTheSizeOfAMatmulWhoseTimeIsWrong) {
  const std::string log =
      kKernels + "0,MatMulV3,MatMulV3,nan,\"\"\"8,8;8,8\"\"\",DT_BF16;DT_BF16,\"\"\"8,8\"\"\"\n" + kReduced;
  const ImportedLog imported = import_text(log, {.bytes_from_neighbour = true});
  EXPECT_EQ(imported.summary.value().bad_count, 1);
  // The size is 8 x 8 elements of 2 bytes.
  EXPECT_THAT(timings_text(imported.timings), ::testing::Contains("all_reduce x0 128 B 10500 ns"));
}

constexpr const char* kDatabase =
    "CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);"
    "CREATE TABLE ENUM_HCCL_DATA_TYPE (id INTEGER PRIMARY KEY, name TEXT);"
    "CREATE TABLE COMMUNICATION_OP (opName INTEGER,startNs INTEGER,endNs INTEGER,connectionId INTEGER,groupName "
    "INTEGER,"
    "opId INTEGER PRIMARY KEY,relay INTEGER,retry INTEGER,dataType INTEGER,algType INTEGER,count NUMERIC,opType "
    "INTEGER);"
    "INSERT INTO STRING_IDS VALUES (1,'hcom_allReduce__428_0_1'),(2,'hcom_allReduce_'),(3,'hcom_allGather__428_1_1'),"
    "(4,'hcom_allGather_'),(5,'hcom_send__1'),(6,'hcom_send_');"
    "INSERT INTO ENUM_HCCL_DATA_TYPE VALUES (3,'FP16'),(11,'BFP16');"
    "INSERT INTO COMMUNICATION_OP VALUES (1,1717575960208020758,1717575960208191008,1,7,1,0,0,3,9,4194304,2),"
    "(3,1717575960309020758,1717575960309030758,2,7,2,0,0,11,9,512,4),(5,100,200,3,7,3,0,0,3,9,10,6),"
    "(1,1717575960208020758,1717575960208020758,4,7,4,0,0,3,9,4194304,2);";

TEST(Importer, ReadsTheDatabaseOfMsprof) {
  const ImportedLog imported = import_text(database_text(kDatabase), {.world_size = 8});
  ASSERT_TRUE(imported.summary) << imported.summary.error().text();
  EXPECT_EQ(imported.summary.value().format, "msprof_db");
  // The all-reduce has 4194304 f16 elements, the all-gather 512 bf16 elements of each of 8 ranks. Times are exact
  // differences of 19-digit stamps in ns.
  EXPECT_THAT(timings_text(imported.timings),
              UnorderedElementsAre("all_reduce x0 8388608 B 170250 ns", "all_gather x0 8192 B 10000 ns"));
  EXPECT_THAT(imported.first(Verdict::Bad), HasSubstr("4: it ends before it starts, or takes no time"));
}

constexpr const char* kLevel0 =
    "CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);"
    "CREATE TABLE COMMUNICATION_OP (opName INTEGER,startNs INTEGER,endNs INTEGER,dataType INTEGER,count NUMERIC,"
    "opType INTEGER,rankSize INTEGER);"
    "INSERT INTO STRING_IDS VALUES (1,'hcom_allReduce__428_0_1'),(2,'N/A');"
    "INSERT INTO COMMUNICATION_OP VALUES (1,1000,11000,65534,-1,2,8);";

TEST(Importer, ADatabaseOfLevel0HasNoSizes) {
  const ImportedLog asked = import_text(database_text(kLevel0));
  EXPECT_THAT(asked.first(Verdict::Skipped), HasSubstr("profiled at level 0, which has no sizes"));
  EXPECT_THAT(asked.summary.value().questions, ::testing::ElementsAre(HasSubstr("--bytes")));
  EXPECT_THAT(timings_text(import_text(database_text(kLevel0), {.message_bytes = 4096}).timings),
              ::testing::ElementsAre("all_reduce x8 4096 B 10000 ns"));
}

TEST(Importer, ADatabaseInWalModeIsReadAndLeftAlone) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("msprof_wal_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto path = folder / "msprof.db";
  {
    SQLite::Database writer(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    writer.exec("PRAGMA journal_mode = WAL");
    writer.exec(kLevel0);
    writer.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    writer.exec("INSERT INTO COMMUNICATION_OP VALUES (1,1000,31000,65534,-1,2,8)"); // this row is only in the WAL file
    const auto files = [&] {
      std::vector<std::string> names;
      for (const auto& entry : std::filesystem::directory_iterator(folder))
        names.push_back(entry.path().filename().string() + " " + std::to_string(entry.file_size()));
      std::ranges::sort(names);
      return names;
    };
    // A killed profiler leaves the database in this state, without the WAL's index (-shm).
    std::filesystem::copy(folder, folder.string() + "_left");
    std::filesystem::remove(folder.string() + "_left/msprof.db-shm");
    const auto before = files();
    const auto source = open_log(folder.string() + "_left/msprof.db");
    ASSERT_TRUE(source);
    TimingSet timings;
    ASSERT_TRUE(import_log(*source.value(), "", {.message_bytes = 4096}, timings));
    EXPECT_THAT(timings_text(timings),
                UnorderedElementsAre("all_reduce x8 4096 B 10000 ns", "all_reduce x8 4096 B 30000 ns"));
    EXPECT_EQ(files(), before);
    EXPECT_FALSE(std::filesystem::exists(folder.string() + "_left/msprof.db-shm"));
  }
  std::filesystem::remove_all(folder);
  std::filesystem::remove_all(folder.string() + "_left");
}

TEST(Importer, RefusesDatabasesWithoutPlainCommunicationRows) {
  EXPECT_THAT(import_text(database_text("CREATE TABLE TASK (a INTEGER);")).summary.error().message,
              HasSubstr("neither table COMMUNICATION_OP"));
  EXPECT_THAT(
      import_text(database_text("CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER);"))
          .summary.error()
          .message,
      HasSubstr("no column count"));
  // Views are refused, because the query behind a view may never end.
  EXPECT_THAT(import_text(database_text("CREATE VIEW COMMUNICATION_OP AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL "
                                        "SELECT n FROM r) SELECT n FROM r;"))
                  .summary.error()
                  .message,
              HasSubstr("neither table COMMUNICATION_OP"));
  std::string cut = database_text(kDatabase);
  cut.resize(cut.size() / 2);
  const ImportedLog imported = import_text(cut);
  ASSERT_TRUE(!imported.summary || imported.summary.value().bad_count > 0);
}

constexpr const char* kFusedHeading = "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes\n";

TEST(Importer, ReadsATableOfMeasuredCuts) {
  const ImportedLog imported = import_text(read_log("cuts.csv"));
  EXPECT_EQ(imported.summary.value().format, "cuts");
  ASSERT_EQ(imported.timings.fused().size(), 3U);
  const FusedTiming& first = imported.timings.fused()[0];
  EXPECT_EQ(first.blocks, "512+4x896");
  EXPECT_EQ(first.fused_us, 1262);
  EXPECT_EQ(first.serial_us, 1874);
  EXPECT_EQ(imported.timings.fused()[2].blocks, "640,3x1152");
  EXPECT_EQ(imported.timings.fused()[2].compute_us, 0);
}

TEST(Importer, ABadCutIsNamed) {
  for (const auto& [row, why] : {std::pair{"512+4x896,-1", "no time above 0"},
                                 {"512+x,1262", "cannot read 'x'"},
                                 {"512", "has 1 cells"},
                                 {"512,1e30", "no time above 0"}})
    EXPECT_THAT(import_text(std::string("blocks,fused_us\n") + row + "\n").first(Verdict::Bad), HasSubstr(why)) << row;
}

TEST(Importer, UncutTimesOfACutInAnotherUnitAreNamed) {
  const auto bad = [](const std::string& row) {
    return import_text("blocks,fused_us,serial_us,compute_us,communication_us\n" + row + "\n").first(Verdict::Bad);
  };
  EXPECT_EQ(bad("512+4x896,700,965,600,500"), "");
  EXPECT_THAT(
      bad("640+3x1152,690,0.965,,"),
      HasSubstr("2: a measured cut: its fused_us, 690 us, and its serial_us, 0.965 us, differ by more than 100"));
  EXPECT_THAT(bad("640+3x1152,690,965,803000,"),
              HasSubstr("its compute_us, 803000 us, is longer than its serial_us, 965"));
  EXPECT_THAT(bad("640+3x1152,690,,,107100"),
              HasSubstr("its communication_us, 107100 us, is longer than its fused_us"));
  EXPECT_THAT(bad("640+3x1152,690,965,0.6,0.5"), HasSubstr("1.1 us together, are far below its serial_us, 965 us"));
}

TEST(Importer, HeadingsThatAreNamedLikeATimeAreNoneOfTheOthers) {
  const auto bad = [](const std::string& column) {
    return import_text("blocks,fused_us," + column + "\n512+4x896,700,965\n").first(Verdict::Bad);
  };
  for (const char* column : {"serial_msec", "seral_us", "serial [msec]"})
    EXPECT_THAT(bad(column), HasSubstr("1: column '" + std::string(column) + "' is named like a time")) << column;
  for (const char* column : {"note", "runs", "status", "us", "GB/s", "tokens/s", "start_time"})
    EXPECT_EQ(bad(column), "") << column;
}

TEST(Importer, ACutThatIsNoneOfTheStatedOperatorIsABadLine) {
  const ImportAnswers stated{.dtype = planner::DType::F16,
                             .world_size = 8,
                             .m = 4096,
                             .n = 8192,
                             .k = 3072,
                             .kind = planner::OpKind::MatmulAllReduce};
  const std::string log = "blocks,fused_us\n512+4x896,1262\n512+4x800,1262\n";
  EXPECT_THAT(import_text(log, stated).first(Verdict::Bad), HasSubstr("3: a measured cut: '512+4x800': sum to 3712"));
  EXPECT_EQ(import_text(log).first(Verdict::Bad), "");
}

TEST(Importer, SaysOfWhichRowsNoBlockIs) {
  const std::string log = std::string(kFusedHeading) +
                          "x,MatMulV3,42,\"\"\"128,3072;3072,8192\"\"\",FLOAT16;FLOAT16,\"\"\"128,8192\"\"\"\n";
  const auto took = [&](int ranks) {
    return import_text(log, {.world_size = ranks, .kind = planner::OpKind::AllGatherMatmul}).first(Verdict::Took);
  };
  EXPECT_THAT(took(4), HasSubstr("not used: the rows of a block of all_gather_matmul are a multiple of 3"));
  EXPECT_THAT(took(3), ::testing::Not(HasSubstr("not used"))); // 128 = 2 x 64
}

TEST(Importer, AFusedOperatorIsARunOfTheCutThatIsNamed) {
  const std::string log = std::string(kFusedHeading) +
                          "a,MatmulReduceScatter,900,\"4096,3072;3072,8192\",FLOAT16;FLOAT16,\"512,8192\"\n"
                          "b,AllGatherMatmul,950,\"512,3072;8192,3072\",DT_BF16;DT_BF16,\"4096,8192\"\n"
                          "c,MatmulAllReduce,1000,\"4096,3072;999,8192\",FLOAT16;FLOAT16,\"4096,8192\"\n";
  const ImportedLog unnamed = import_text(log);
  EXPECT_THAT(unnamed.first(Verdict::Skipped), HasSubstr("heading"));
  EXPECT_EQ(unnamed.summary.value().skipped_count, 4);
  EXPECT_THAT(unnamed.summary.value().questions.front(), HasSubstr("--blocks"));
  const ImportedLog named = import_text(log, {.blocks = "512,4x896"});
  ASSERT_EQ(named.timings.fused().size(), 2U);
  for (const FusedTiming& timing : named.timings.fused()) {
    EXPECT_EQ(timing.m, 4096);
    EXPECT_EQ(timing.n, 8192);
    EXPECT_EQ(timing.k, 3072);
    EXPECT_EQ(timing.blocks, "512,4x896");
  }
  EXPECT_EQ(named.timings.fused()[0].shards, 8);
  for (const char* types : {"DT_FLOAT8_E4M3FN;DT_FLOAT8_E4M3FN", "FLOAT16;FLOAT"}) {
    const std::string other =
        std::string(kFusedHeading) + "a,MatmulAllReduce,900,\"4096,3072;3072,8192\"," + types + ",\"4096,8192\"\n";
    const ImportedLog imported = import_text(other, {.blocks = "512,4x896"});
    EXPECT_TRUE(imported.timings.fused().empty()) << types;
    EXPECT_THAT(imported.lines.back().text, HasSubstr("which mc2 does not plan"));
  }
  EXPECT_EQ(named.timings.fused()[1].collective, Collective::AllGather);
  EXPECT_EQ(named.timings.fused()[1].dtype, DType::Bf16);
}

TEST(Importer, AFusedOperatorThatIsMoreThanTheNamedOneIsSkippedForItsReason) {
  const std::string shapes = ",900,\"4096,3072;3072,8192\",FLOAT16;FLOAT16,\"4096,8192\"\n";
  const auto skipped = [&](const std::string& type) {
    const ImportedLog imported =
        import_text(std::string(kFusedHeading) + "a," + type + shapes, {.blocks = "512,4x896"});
    EXPECT_TRUE(imported.timings.fused().empty()) << type;
    EXPECT_EQ(imported.summary.value().skipped_count, 2) << type;
    return imported.lines.back().text;
  };
  EXPECT_EQ(skipped("MatmulAllReduceAddRmsNorm"),
            "MatmulAllReduceAddRmsNorm does other work beside its matmul and collective");
  EXPECT_EQ(skipped("GroupedMatMulAllReduce"), "a batched, grouped or quantised matmul");
  EXPECT_EQ(skipped("GroupedMatMulAlltoAllv"), "a batched, grouped or quantised matmul");
  EXPECT_EQ(skipped("GemmaRmsNorm"), "another operator");
}

/// 4096 x 8192 in tiles of 16 x 16 is 512,256,16,16.
TEST(Importer, AMatmulWhoseRowsAreTiledIsSkipped) {
  const std::string heading =
      "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Formats\n";
  const auto last = [&](const std::string& type, const std::string& inputs, const std::string& formats,
                        const std::string& output, const std::string& format) {
    return import_text(heading + "a," + type + ",900,\"" + inputs + "\",FLOAT16;FLOAT16," + formats + ",\"" + output +
                           "\"," + format + "\n",
                       {.blocks = "512,4x896"})
        .lines.back();
  };
  const std::string tiled = "192,256,16,16;512,192,16,16", reason = "a matmul whose A or product is tiled (FRACTAL_NZ)";
  for (const char* type : {"MatMulV3", "MatmulAllReduce"}) {
    const SaidOfLine said = last(type, tiled, "FRACTAL_NZ;FRACTAL_NZ", "512,256,16,16", "FRACTAL_NZ");
    EXPECT_EQ(said.verdict, Verdict::Skipped) << type;
    EXPECT_THAT(said.text, HasSubstr(reason)) << type;
  }
  EXPECT_THAT(last("MatMulV3", "4096,3072;512,192,16,16", "ND;FRACTAL_NZ", "512,256,16,16", "FRACTAL_NZ").text,
              HasSubstr(reason));
  EXPECT_EQ(last("MatMulV3", "4096,3072;512,192,16,16", "ND;FRACTAL_NZ", "4096,8192", "ND").verdict, Verdict::Took);
  // 8190 columns fill 512 tiles of 16, the last of them in part.
  EXPECT_EQ(last("MatMulV3", "4096,3072;512,192,16,16", "ND;FRACTAL_NZ", "4096,8190", "ND").verdict, Verdict::Took);
  EXPECT_EQ(last("MatMulV3", "0,3072;3072,8192", "ND;ND", "0,8192", "ND").text, "no rows");
  EXPECT_EQ(last("MatMulV3", "4096,3072;512,193,16,16", "ND;FRACTAL_NZ", "4096,8192", "ND").verdict, Verdict::Bad);
}

/// The product and the messages have the element type of A, whatever the type of the weights B.
TEST(Importer, WeightsOfAFusedOperatorMayBeQuantised) {
  const ImportedLog imported =
      import_text(std::string(kFusedHeading) +
                      "a,WeightQuantMatmulAllReduce,900,\"4096,3072;3072,8192\",FLOAT16;INT8,\"4096,8192\"\n",
                  {.blocks = "512,4x896"});
  ASSERT_EQ(imported.timings.fused().size(), 1U);
  EXPECT_EQ(imported.timings.fused()[0].dtype, DType::F16);
}

/// AlltoAllMatmul communicates first, so its runs do not count as matmul_all_to_all.
TEST(Importer, AFusedOperatorIsOfTheKindWhoseLaneComesFirst) {
  const ImportedLog imported = import_text(
      std::string(kFusedHeading) + "a,AlltoAllMatmul,900,\"512,2048;2048,1024\",FLOAT16;FLOAT16,\"512,1024\"\n",
      {.blocks = "4x32"}); // of each rank's 512 / 4 rows
  const auto cuts_of = [&](planner::OpKind kind) {
    return assemble_profile(imported.timings, {}, {kind, DType::F16, 4, 512, 1024, 2048, "npu"});
  };
  const auto right = cuts_of(planner::OpKind::AllToAllMatmul);
  ASSERT_TRUE(right) << right.error().text();
  EXPECT_EQ(right.value().cuts.size(), 1U);
  EXPECT_THAT(cuts_of(planner::OpKind::MatmulAllToAll).error().message, HasSubstr("nothing in the logs is of"));
}

constexpr const char* kKernelTables =
    "CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);"
    "CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER);"
    "CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER, blockDim INTEGER, opType INTEGER, "
    "inputDataTypes INTEGER, inputShapes INTEGER, outputShapes INTEGER);"
    "INSERT INTO STRING_IDS VALUES (1,'MatMulV3_1'),(2,'MatMulV3'),(3,'FLOAT16;FLOAT16'),(4,'\"4096,3072;3072,8192\"'),"
    "(5,'\"4096,8192\"'),(6,'aclnnMatmulAllReduce_1'),(7,'MatmulAllReduce'),(8,'Add');"
    "INSERT INTO TASK VALUES (1000,804000,0,1,11),(2000000,3262000,0,2,12),(1,2,0,3,13),(9,9,0,4,14);"
    "INSERT INTO COMPUTE_TASK_INFO VALUES (1,11,20,2,3,4,5),(6,12,20,7,3,4,5),(8,13,1,8,3,4,5),(1,14,20,2,3,4,5);";

/// The tables are those of the profiler's manual. Texts are stored as numbers of rows in STRING_IDS.
TEST(Importer, ADatabaseHasMatmulsAndFusedOperators) {
  const ImportedLog imported = import_text(database_text(kKernelTables), {.blocks = "512,4x896"});
  EXPECT_THAT(timings_text(imported.timings), ::testing::ElementsAre("matmul 4096 8192 3072 f16 803000 ns"));
  ASSERT_EQ(imported.timings.fused().size(), 1U);
  EXPECT_EQ(imported.timings.fused()[0].fused_us, 1262);
  EXPECT_THAT(imported.first(Verdict::Bad), HasSubstr("a duration of 0.000 us"));
}

TEST(Importer, ADatabaseTellsTheFormatsOfAMatmul) {
  const ImportedLog imported = import_text(database_text(
      std::string(kKernelTables) +
      "ALTER TABLE COMPUTE_TASK_INFO ADD inputFormats INTEGER; ALTER TABLE COMPUTE_TASK_INFO ADD outputFormats INTEGER;"
      "INSERT INTO STRING_IDS VALUES (9,'FRACTAL_NZ;ND'),(10,'ND');"
      "UPDATE COMPUTE_TASK_INFO SET inputFormats = 9, outputFormats = 10;"
      "UPDATE STRING_IDS SET value = '192,256,16,16;3072,8192' WHERE id = 4;"));
  EXPECT_THAT(imported.lines, ::testing::Contains(::testing::Field(&SaidOfLine::text, HasSubstr("(FRACTAL_NZ)"))));
  EXPECT_TRUE(imported.timings.groups().empty());
}

TEST(Importer, NamesEveryFormatItKnows) {
  const ImportedLog imported = import_text("hello\n", {}, "nvprof");
  EXPECT_EQ(imported.summary.error().code, ErrorCode::UnknownName);
  for (const Importer& importer : importer_registry())
    EXPECT_THAT(imported.summary.error().message, HasSubstr(importer.name));
}

TEST(Importer, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(import_text("hello\n").summary.error().code, ErrorCode::Malformed);
  EXPECT_THAT(import_text("").summary.error().message, HasSubstr("empty"));
}

} // namespace
} // namespace mc2::profiler::importer_test
