#include "importers/fields.hpp"

#include <gtest/gtest.h>

namespace mc2::profiler::fields_test {
namespace {

using planner::Collective;
using planner::DType;
using std::chrono::nanoseconds;

TEST(Fields, ReadsTimeStampsToTheNanosecond) {
  // The stamp has 19 digits, and a double holds only 15.9.
  EXPECT_EQ(parse_us("1780676244313289.001"), nanoseconds(1'780'676'244'313'289'001));
  EXPECT_EQ(parse_us("0.1"), nanoseconds(100));
  EXPECT_EQ(parse_us("803"), nanoseconds(803'000));
  EXPECT_EQ(parse_us("-20.5"), nanoseconds(-20'500));
  EXPECT_EQ(parse_us("1.0005"), nanoseconds(1'001)); // rounded to three decimals
  EXPECT_EQ(parse_us("1.0004999"), nanoseconds(1'000));
  EXPECT_EQ(parse_us("1.2e+03"), nanoseconds(1'200'000));
}

TEST(Fields, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "-", ".", "nan", "inf", "1,5", "1 ", " 1", "1x", "0x10", "1e400", "9223372036854775807", "1..2", "--1"})
    EXPECT_EQ(parse_us(text), std::nullopt) << text;
  EXPECT_EQ(from_us(1e30), std::nullopt);
}

TEST(Fields, KnowsEveryToolsSpellings) {
  for (const char* text : {"half", "float16", "FLOAT16", "DT_FLOAT16", "fp16", "FP16"})
    EXPECT_EQ(find_dtype(text), DType::F16) << text;
  for (const char* text : {"bfloat16", "DT_BF16", "BFP16", "bf16"}) EXPECT_EQ(find_dtype(text), DType::Bf16) << text;
  for (const char* text : {"float", "DT_FLOAT", "fp32", "MPI_FLOAT"}) EXPECT_EQ(find_dtype(text), DType::F32) << text;
  for (const char* text : {"double", "MPI_CHAR", "int64", "", "dt", "x"})
    EXPECT_EQ(find_dtype(text), std::nullopt) << text;
  EXPECT_EQ(find_element_bytes("double"), 8);
  for (const char* text :
       {"all_reduce_perf", "./build/all_reduce_perf_mpi", "osu_allreduce", "/opt/osu/osu_allreduce", "all_reduce_test"})
    EXPECT_EQ(find_program(text), Collective::AllReduce) << text;
  EXPECT_EQ(find_program("alltoall_perf"), Collective::AllToAll);
  for (const char* text : {"osu_iallgather", "osu_allgather_persistent", "/opt/osu/osu_allgather"})
    EXPECT_EQ(find_program(text), Collective::AllGather) << text;
  EXPECT_EQ(find_program("osu_reduce_scatter_block"), Collective::ReduceScatter);
  EXPECT_EQ(find_program("osu_ireduce_scatter"), Collective::ReduceScatter);
  for (const char* text : {"sendrecv_perf", "all_reduce", "osu_bcast", "osu_ibcast", "osu_alltoallv", "_perf"})
    EXPECT_EQ(find_program(text), std::nullopt) << text;
}

TEST(Fields, PrefixesOfHostsMayBeginWithADigitAndNumbersAreNone) {
  for (const char* line : {"10.0.0.4: row", "3f2a91b0c4d5: row", "0node: row", "10.0.0.4  | row", "node-1: row",
                           "2026-11-24 10:00:00 row", "10:00:00 10.0.0.4: row"})
    EXPECT_EQ(without_launcher_tag(line), "row") << line;
  for (const char* line : {"1048576   262144", "1.5: row", "10.0.0: row", "10..0.4: row", "8192 | 2.5 | 0.4",
                           "1e3 | 2.5 | 0.4", "10.0.0.4:4978:4990 row", "2026-11-24 row"})
    EXPECT_EQ(without_launcher_tag(line), line) << line;
}

TEST(Fields, ReadsCommandLines) {
  const auto launch =
      read_launch_line("$ mpirun -np 8 -x NCCL_DEBUG=INFO ./bin/reduce_scatter_test -b 8K -n 20 -d bfp16");
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->collective, Collective::ReduceScatter);
  EXPECT_EQ(launch->world_size, 8); // -n after the program's name counts iterations
  EXPECT_EQ(launch->element_type, "bfp16");
  EXPECT_FALSE(read_launch_line("mpirun -np 8 hostname"));
}

TEST(Fields, CountsTheRanksThatTheLauncherIsTold) {
  const auto ranks = [](const char* line) { return read_launch_line(line).value_or(LaunchLine{}).world_size; };
  EXPECT_EQ(ranks("srun -n 8 -c 16 ./osu_allgather"), 8); // 16 CPUs a task
  EXPECT_EQ(ranks("srun -c 4 -n 8 ./bin/all_gather_test -d fp16"), 8);
  EXPECT_EQ(ranks("mpirun -c 8 ./osu_allgather"), 8); // in Open MPI -c means -np
  EXPECT_EQ(ranks("mpirun -np 8 taskset -c 3 ./osu_allgather"), 8);
  EXPECT_EQ(ranks("mpirun --oversubscribe numactl -c 1 ./osu_allgather"), std::nullopt);
  EXPECT_EQ(ranks("numactl -c 1 ./osu_allgather"), std::nullopt);
  EXPECT_EQ(ranks("numactl -c 1 /usr/bin/mpirun -np 8 ./osu_allgather -c 2"), 8);
  EXPECT_EQ(ranks("mpirun --mca btl tcp,self -x A=1 -np 8 ./wrap -n 3 ./osu_allgather"), 8);
  EXPECT_EQ(ranks("mpirun --hostfile hosts ./wrap -n 3 ./osu_allgather"), std::nullopt);
  EXPECT_EQ(ranks("mpirun --oversubscribe ./all_reduce_perf -n 20"), std::nullopt); // -n counts iterations
  EXPECT_EQ(ranks("srun -N 1 -n 1 mpirun -np 8 ./osu_allgather"), 8);
  EXPECT_EQ(ranks("mpirun -np 4 ./osu_allgather : -np 4 ./osu_allgather -m 8"), 8);
  EXPECT_EQ(ranks("mpirun -np 4 ./osu_allgather : ./osu_allgather"), std::nullopt);
  EXPECT_EQ(ranks("mpirun -np 0 ./osu_allgather"), 0);
  EXPECT_EQ(ranks("mpirun -np 600000 ./osu_allgather : -np 600000 ./osu_allgather"), std::nullopt);
}

TEST(Fields, NamesUnitsThatAreNotTheLegalOne) {
  EXPECT_EQ(unit_fault("Duration(us)", "us"), "");
  EXPECT_EQ(unit_fault("Duration", "us"), "");
  EXPECT_NE(unit_fault("Duration(ms)", "us"), "");
}

TEST(Fields, CutsForeignTextShortAndPrintable) {
  EXPECT_EQ(shown("a\x01\xC3"), "a??");
  EXPECT_EQ(shown(std::string(100, 'x')).size(), 51U);
}

} // namespace
} // namespace mc2::profiler::fields_test
