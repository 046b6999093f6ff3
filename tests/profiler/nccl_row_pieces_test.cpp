#include "importers/nccl_row_pieces.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imported_log.hpp"

namespace mc2::profiler::nccl_row_pieces_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Two ranks of all_reduce_perf with these lines for rows, each behind the launcher's tag.
ImportedLog import_rows(const std::string& rows, const std::string& tag = "", Buffers buffers = Buffers::OutOfPlace) {
  const std::string head = tag + "# Collective test starting: all_reduce_perf\n" + tag +
                           "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152\n" + tag +
                           "#  Rank  0 Group  0 Pid 7 on node-1 device  0 [0000:1b:00] H100\n" + tag +
                           "#  Rank  1 Group  0 Pid 8 on node-1 device  1 [0000:2b:00] H100\n" + tag +
                           "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
  return import_text(head + rows + tag + "# Out of bounds values : 0 OK\n", {.buffers = buffers});
}

// 1048576 B in 50 us are 20.97 GB/s, in 40 us 26.21; 2097152 B in 100 us are 20.97, in 80 us 26.21. The buses of two
// ranks carry as much.
TEST(NcclRowPieces, TagsBetweenThePiecesAreLeftOut) {
  const auto row = [](const std::string& tag) {
    return tag + "  1048576 262144 float sum -1" + tag + "   50.00 20.97 20.97 0" + tag + "   40.00 26.21 26.21 0\n";
  };
  for (const char* tag : {"[1,0]<stdout>:", "[0] ", "[12] ", "[prterun-node-7@1,0]<stdout>:"}) {
    EXPECT_THAT(timings_text(import_rows(row(tag), tag).timings), ElementsAre("all_reduce x2 1048576 B 50000 ns"))
        << tag;
    EXPECT_THAT(timings_text(import_rows(row(tag), tag, Buffers::InPlace).timings),
                ElementsAre("all_reduce x2 1048576 B 40000 ns"))
        << tag;
  }
  const std::string wrong = "1048576 262144 float sum -1 50.00 20.97 20.97 3[1,0]<stdout>: 40.00 26.21 26.21 0\n";
  EXPECT_THAT(import_rows(wrong).first(Verdict::Bad), HasSubstr("the result check found 3 wrong elements"));
}

TEST(NcclRowPieces, MessagesBetweenThePiecesAreLeftOut) {
  for (const char* node : {"node-1", "10-4-3-3", "0node"}) {
    const std::string message =
        std::string(node) + ":4978:4990 [0] NCCL INFO 1048576 Bytes -> Algo 1 proto 2 time 9.5\n";
    const ImportedLog imported =
        import_rows("  1048576 262144 float sum -1" + message + message + "   50.00 20.97 20.97 0" + message + message +
                    "   40.00 26.21 26.21 0\n" + message + "  2097152 524288 float sum -1   100.0 20.97 20.97 N/A" +
                    message + "   80.00 26.21 26.21 N/A\n");
    EXPECT_THAT(timings_text(imported.timings),
                ElementsAre("all_reduce x2 1048576 B 50000 ns", "all_reduce x2 2097152 B 100000 ns"))
        << imported.first(Verdict::Bad);
    EXPECT_EQ(imported.summary.value().bad_count, 0);
  }
  const std::string tagged =
      "[0] 1048576 262144 float sum -1[0] node-1:4978:4990 [0] NCCL INFO Connected all rings\n"
      "[0]   50.00 20.97 20.97 0[0]   40.00 26.21 26.21 0\n";
  EXPECT_THAT(timings_text(import_rows(tagged, "[0] ").timings), ElementsAre("all_reduce x2 1048576 B 50000 ns"));
}

TEST(NcclRowPieces, ARowThatDoesNotGoOnIsNamed) {
  const std::string begun = "1048576 262144 float sum -1node-1:4978:4990 [0] NCCL WARN Call to connect timed out\n";
  const std::string whole = "2097152 524288 float sum -1 100.0 20.97 20.97 0 80.00 26.21 26.21 0\n";
  for (const std::string& rows : {begun, begun + whole, begun + "50.00 20.97 20.97 0\n" + whole})
    EXPECT_THAT(import_rows(rows).first(Verdict::Bad), HasSubstr("6: a message of NCCL breaks this row")) << rows;
  EXPECT_THAT(timings_text(import_rows(begun + whole).timings), ElementsAre("all_reduce x2 2097152 B 100000 ns"));
  // Five wrong elements: the row has a cell too few, and is none.
  const std::string wrong =
      "1048576 262144 float sum -1 50.00 20.97 20.97 5node-1:4978:4990 [0] NCCL INFO x\n"
      "   40.00 26.21 26.21 0\n";
  EXPECT_EQ(import_rows(wrong).summary.value().took_count, 0);
  EXPECT_EQ(import_rows(wrong).summary.value().bad_count, 1);
}

TEST(NcclRowPieces, MessagesAloneAreNoRows) {
  EXPECT_EQ(before_message("node-1:4978:4990 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P"), "");
  EXPECT_EQ(before_message("16 4 float sum -1 node-1:4978:4990 [0] NCCL INFO x"), "16 4 float sum -1 ");
  EXPECT_EQ(before_message("no message of it"), std::nullopt);
  EXPECT_EQ(without_inner_tags("0000 [0000:1b:00] H100 x[a] "), "0000 [0000:1b:00] H100 x[a] ");
}

} // namespace
} // namespace mc2::profiler::nccl_row_pieces_test
