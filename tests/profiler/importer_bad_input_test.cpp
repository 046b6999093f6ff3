#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zstd.h>

#include <string>
#include <tuple>

#include "gzipped.hpp"
#include "imported_log.hpp"

namespace mc2::profiler::importer_bad_input_test {
namespace {

using planner::Collective;
using planner::DType;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kKernels =
    "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes,Task ID\n";
constexpr const char* kMatmul = "MatMulV3,MatMulV3,20.5,\"\"\"64,32;32,16\"\"\",DT_BF16;DT_BF16,\"\"\"64,16\"\"\",1\n";
constexpr const char* kOsu = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n";
constexpr const char* kHccl = "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n";
const ImportAnswers kHcclAnswers{.collective = Collective::AllReduce, .dtype = DType::F32, .world_size = 8};

/// "number: text" of the first bad line, or the import's error.
std::string bad_line(const std::string& text, const ImportAnswers& answers = {}) {
  const ImportedLog imported = import_text(text, answers);
  return imported.summary ? imported.first(Verdict::Bad) : imported.summary.error().text();
}

std::size_t timing_count(const std::string& text, const ImportAnswers& answers = {}) {
  return timings_text(import_text(text, answers).timings).size();
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  text.replace(text.find(what), what.size(), with);
  return text;
}

TEST(BadInput, TruncatedRowsAreNamedAndTheGoodOnesTaken) {
  EXPECT_THAT(bad_line(std::string(kKernels) + kMatmul + "MatMulV3,MatM"),
              HasSubstr("3: the row has 2 cells where the heading has 7"));
  EXPECT_EQ(timing_count(std::string(kKernels) + kMatmul + "MatMulV3,MatM"), 1U);
  EXPECT_THAT(bad_line(std::string(kOsu) + "4  21.76\n8  2"), HasSubstr("4: the log ends inside this row"));
  EXPECT_THAT(bad_line(std::string(kOsu) + "4  21.76\n8"),
              HasSubstr("4: the row has 1 numbers where the heading has 2"));
  EXPECT_THAT(bad_line(std::string(kHccl) + "8 | 2.5 | 0.4\n", kHcclAnswers),
              HasSubstr("2: the row has 3 cells where the heading has 4"));
  std::string nccl = read_log("nccl_tests.log");
  nccl.resize(nccl.find("# Out of bounds"));
  EXPECT_THAT(bad_line(nccl), HasSubstr("the log is cut"));
  EXPECT_EQ(timing_count(nccl), 2U);
}

TEST(BadInput, RowsWithoutAWholeSizeAreNamedAndNotTakenForComments) {
  const std::string log = read_log("nccl_tests.log");
  for (const std::string size : {"1e3", "1024.5", "1K", "99999999999999999999999"}) {
    EXPECT_EQ(bad_line(std::string(kOsu) + size + "  21.76\n4  1.5\n"), "3: '" + size + "' is no size in bytes");
    EXPECT_EQ(timing_count(std::string(kOsu) + size + "  21.76\n4  1.5\n"), 1U);
    EXPECT_EQ(bad_line(std::string(kHccl) + size + " | 2.5 | 0.4 | success\n", kHcclAnswers),
              "2: '" + size + "' is no size in bytes");
  }
  EXPECT_EQ(bad_line(std::string(kOsu) + "# 2026-11-22 10:00\nranks 4\n4  1.5\n"), "")
      << "a comment, and a line of another program";
  for (const std::string size : {"2.097152e6", "99999999999999999999999", "2097152.5", "2097152x", "nan", "N/A"}) {
    const std::string text = replaced(log, "    2097152        524288", "    " + size + "        524288");
    EXPECT_EQ(bad_line(text), "16: '" + size + "' is no size in bytes");
    EXPECT_EQ(timing_count(text), timing_count(log) - 1);
  }
  EXPECT_EQ(bad_line(replaced(log, " 524288 ", " 5.24288e5 ")), "16: '5.24288e5' is no number of elements");
  // A line that starts with '#' is a comment.
  EXPECT_EQ(bad_line(replaced(log, "    2097152        524288", "#   2.1e6        524288")), "");
}

TEST(BadInput, ALogThatEndsInTheNextTestsHeadingIsCut) {
  const std::string whole = read_log("nccl_tests.log");
  EXPECT_EQ(bad_line(whole), "");
  const std::string cut = whole + whole.substr(0, whole.find("#       size"));
  for (const std::string& text : {cut, whole + whole.substr(0, whole.find('\n', whole.find("nThread")) + 1)}) {
    EXPECT_THAT(bad_line(text), HasSubstr("the log is cut")) << text;
    EXPECT_EQ(timing_count(text), timing_count(whole));
  }
  EXPECT_EQ(bad_line(whole + whole), "");
}

TEST(BadInput, ALastRowWithoutLineBreakIsWholeWhereItsLastCellDoesNotMatter) {
  std::string text = std::string(kKernels) + kMatmul; // the last column, Task ID, identifies the event
  text.pop_back();
  EXPECT_THAT(bad_line(text), HasSubstr("2: the log ends inside this row"));
  text = replaced(text, "Task ID", "aicore_time(us)");
  EXPECT_EQ(bad_line(text), "");
  EXPECT_EQ(timing_count(text), 1U);
}

TEST(BadInput, TruncatedJsonKeepsItsWholeResults) {
  std::string json = read_log("nccl_tests.json");
  json.resize(json.find("\"in_place\":{\"time\":25.75"));
  EXPECT_THAT(bad_line(json), StartsWith("4: the JSON document ends or breaks here"));
  EXPECT_EQ(timing_count(json), 1U);
}

TEST(BadInput, JsonTimesThatAreNoNumbers) {
  EXPECT_THAT(bad_line(replaced(read_log("nccl_tests.json"), "\"time\":18.125", "\"time\":nan")),
              StartsWith("3: results[0], out of place: its time is no number"));
  EXPECT_THAT(bad_line(replaced(read_log("nccl_tests.json"), "\"nwrong\":0.0", "\"nwrong\":3")),
              HasSubstr("found 3 wrong elements"));
  EXPECT_THAT(bad_line(replaced(read_log("nccl_tests.json"), "\"time\":26.5,", "")),
              StartsWith("4: results[1], out of place: has no time"));
  EXPECT_THAT(bad_line(replaced(read_log("nccl_tests.json"), "\"okay\":\"true\"", "\"okay\":\"false\"")),
              HasSubstr("out_of_bounds"));
  EXPECT_THAT(bad_line("{\"nccl_version\":1,\"a\":" + std::string(40, '[')), HasSubstr("nested deeper than 32"));
}

TEST(BadInput, TimesThatAreNotAboveZero) {
  for (const char* time : {"-20.5", "0", "0.000"})
    EXPECT_THAT(bad_line(std::string(kKernels) + replaced(kMatmul, "20.5", time)),
                HasSubstr("2: a duration of " + std::string(time)))
        << time;
  for (const char* time : {"nan", "inf", "N/A", "", "4294967295", "12x", "1e400"})
    EXPECT_THAT(bad_line(std::string(kKernels) + replaced(kMatmul, "20.5", time)),
                HasSubstr("2: '" + std::string(time) + "' is no duration"))
        << time;
  EXPECT_THAT(bad_line(std::string(kOsu) + "4  -1.0\n"), HasSubstr("its time is not above 0"));
  EXPECT_THAT(bad_line(std::string(kOsu) + "4  nan\n"), HasSubstr("'nan' is no number"));
  EXPECT_THAT(bad_line(std::string(kOsu) + "4  99999999999999\n"), HasSubstr("above 11 days"));
  EXPECT_THAT(bad_line(std::string(kHccl) + "8 | 0.00 | 0.4 | success\n", kHcclAnswers),
              HasSubstr("its time is not above 0"));
  EXPECT_THAT(bad_line(std::string(kHccl) + "-8 | 1.00 | 0.4 | success\n", kHcclAnswers),
              HasSubstr("its size is outside"));
}

TEST(BadInput, FailedChecks) {
  EXPECT_THAT(bad_line(read_log("hccl_test_failed.txt"), kHcclAnswers),
              HasSubstr("3: the result check failed on a rank"));
  EXPECT_THAT(bad_line(replaced(read_log("osu_alltoall_full.txt"), "Pass", "Fail"), {.world_size = 4}),
              HasSubstr("5: validation failed: Fail"));
  EXPECT_THAT(bad_line(replaced(read_log("nccl_tests.log"), "73.16       0", "73.16       7")),
              HasSubstr("14: out of place: the result check found 7 wrong"));
  EXPECT_THAT(bad_line(replaced(read_log("nccl_tests_old.log"), "values : 0 OK", "values : 2 FAILED")),
              HasSubstr("11: the test's results were out of bounds"));
  EXPECT_THAT(bad_line(replaced(read_log("nccl_tests_old.log"), "1e-06", "3e+01*")), HasSubstr("above the threshold"));
}

TEST(BadInput, LinesThatALauncherTagged) {
  const auto tagged = [](const std::string& text, const std::string& tag) {
    std::string result = tag;
    for (const char c : text) result += c == '\n' ? "\n" + tag : std::string(1, c);
    return result.substr(0, result.size() - tag.size());
  };
  const auto expected = timings_text(import_text(read_log("nccl_tests.log")).timings);
  for (const char* tag : {"[1,0]<stdout>:", "[prterun-node-7@1,0]<stdout>: ", "Tue Dec  1 10:00:00 2026<stdout>:",
                          "Tue Dec  1 10:00:00 2026[1,0]<stdout>:", "0: ", "  3: ", "[0] ", "[15] ", "10:00:00 ",
                          "[2026-11-24 10:00:00.123] ", "10:00:00  [1,0]<stdout>:", "gpu-node.7: ", "worker-1  | ",
                          "10.0.0.4: ", "3f2a91b0c4d5: ", "2026-11-24 10:00:00 ",
                          "2026-11-24T10:00:00.123456789Z stdout F ", "\x1b[36m"}) {
    EXPECT_EQ(timings_text(import_text(tagged(read_log("nccl_tests.log"), tag)).timings), expected) << tag;
    EXPECT_EQ(timing_count(tagged(read_log("osu_allreduce.txt"), tag)), 2U) << tag;
    EXPECT_EQ(timing_count(tagged(read_log("hccl_test.txt"), tag)), 3U) << tag;
  }
}

TEST(BadInput, ATestOfOneRankIsBadOnlyWithTimes) {
  const std::string lone = "$ mpirun -np 1 ./osu_allreduce\n", log = read_log("osu_allreduce.txt");
  EXPECT_EQ(timing_count(lone + "This test requires at least two processes\n$ mpirun -np 2 ./osu_allreduce\n" + log),
            2U);
  EXPECT_THAT(bad_line(lone + log), HasSubstr("says 1 rank, and a collective is among 2 or more"));
  const std::string not_planned = "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n4               1.00\n";
  EXPECT_EQ(timing_count(lone + not_planned + log), 2U);
  EXPECT_EQ(import_text(lone + not_planned + log).summary.value().bad_count, 0);
}

TEST(BadInput, ColoursOfTerminalsAreLeftOut) {
  std::istringstream lines(read_log("nccl_tests.log"));
  std::string coloured;
  for (std::string line; std::getline(lines, line);)
    coloured += "\x1b[1;36mnode_2:\x1b[0m \x1b[32m" + line + "\x1b[0m\r\n";
  EXPECT_EQ(timings_text(import_text(coloured).timings), timings_text(import_text(read_log("nccl_tests.log")).timings));
  const std::string cut = std::string(kOsu) + "4 1.0\x1b[";
  EXPECT_EQ(timing_count(cut + "\n"), 1U); // a code without its end
}

TEST(BadInput, UnitsThatAreNotMicroseconds) {
  EXPECT_THAT(bad_line(replaced(kKernels, "(us)", "(ms)") + kMatmul),
              HasSubstr("1: column 'Task Duration(ms)' is in ms; legal: us"));
  EXPECT_THAT(bad_line(replaced(kOsu, "(us)", "(ms)") + "4  1.0\n"), HasSubstr("2: column 'Avg Latency(ms)' is in ms"));
  EXPECT_THAT(bad_line(replaced(kHccl, "(Bytes)", "(MB)") + "8 | 1.0 | 0.4 | success\n", kHcclAnswers),
              HasSubstr("1: column 'data_size(MB):' is in MB"));
  EXPECT_THAT(bad_line(replaced(read_log("nccl_tests.log"), "(us)", "(ms)")), HasSubstr("13: the heading's unit (ms)"));
  EXPECT_EQ(timing_count(replaced(kOsu, "(us)", "(ms)") + "4  1.0\n"), 0U);
  for (const auto& [heading, column] : {std::pair("blocks,fused_us,serial (ms),compute (ms)", "serial (ms)"),
                                        {"blocks,fused (ms),serial (ms),compute (ms)", "fused (ms)"},
                                        {"blocks,fused_us,serial_us,compute_blocks_ms", "compute_blocks_ms"},
                                        {"blocks,fused_ms,serial_ms,compute_ms", "fused_ms"}}) {
    const ImportedLog imported = import_text(std::string(heading) + "\n4x256,7000,9,2.7\n");
    ASSERT_TRUE(imported.summary) << imported.summary.error().text();
    EXPECT_TRUE(imported.timings.fused().empty());
    EXPECT_EQ(imported.first(Verdict::Bad), "1: column '" + std::string(column) + "' is in ms; legal: us");
  }
  const ImportedLog named = import_text("blocks,fused (us),serial(us)\n4x256,7000,9000\n");
  ASSERT_EQ(named.timings.fused().size(), 1U);
  EXPECT_EQ(named.timings.fused().front().serial_us, 9000);
}

TEST(BadInput, OtherDividersOfColumnsThanCommasAreNamed) {
  const auto heading_fault = [](const std::string& text) {
    return import_text(text, {}, "msprof").first(Verdict::Bad);
  };
  for (const auto& [divider, name] : {std::pair{';', "semicolons"}, {'\t', "tabs"}}) {
    std::string text = std::string(kKernels) + kMatmul;
    std::ranges::replace(text, ',', divider);
    EXPECT_THAT(heading_fault(text), HasSubstr(std::string(name) + " divide its columns: save the table with commas"));
  }
  EXPECT_THAT(heading_fault("sep=,\n" + std::string(kKernels) + kMatmul), HasSubstr("remove it"));
}

TEST(BadInput, ColumnsThatAreMissingRepeatedOrInAnotherOrder) {
  EXPECT_THAT(bad_line(replaced(kKernels, "Op Name", "Kind") + kMatmul),
              HasSubstr("1: the heading has no column 'Op Name' or 'Name'"));
  EXPECT_THAT(bad_line(replaced(kKernels, "Task Duration(us)", "Length") + kMatmul),
              HasSubstr("1: the heading has no column 'Task Duration(us)' or 'Duration(us)'"));
  EXPECT_THAT(bad_line(replaced(kKernels, "Task ID", "Duration(us)") + kMatmul),
              HasSubstr("1: 'Duration(us)' is a column twice, or stands beside its other name"));
  EXPECT_THAT(bad_line(std::string(
                  "# OSU MPI Allreduce Latency Test v7.4\n# Size  Avg Latency(us)  Avg Latency(us)\n4  1.0  1.0\n")),
              HasSubstr("2: 'Avg Latency(us)' is a column twice"));
  const std::string imb =
      "# Benchmarking Allreduce\n# #processes = 2\n#bytes #repetitions t_max[usec] t_max[usec]\n4 9 1.5 2.5\n";
  EXPECT_EQ(bad_line(imb), "3: 't_max[usec]' is a column twice");
  EXPECT_EQ(timing_count(imb), 0U);
  EXPECT_THAT(bad_line("aveg_time(us) | avg_time(us) | data_size(Bytes)\n", kHcclAnswers),
              HasSubstr("is no log that mc2 knows"));
  EXPECT_THAT(bad_line("data_size(Bytes) | aveg_time(us) | avg_time(us)\n", kHcclAnswers),
              HasSubstr("1: 'avg_time(us)' is a column twice"));
  const ImportedLog reordered =
      import_text("check_result | data_size(Bytes) | avg_time(us)\n", kHcclAnswers, "hccl_test");
  EXPECT_TRUE(reordered.timings.groups().empty());
  EXPECT_EQ(timing_count("Output Shapes,Input Data Types,Duration(us),Type,Name,Input "
                         "Shapes\n\"\"\"64,16\"\"\",DT_BF16;DT_BF16,20.5,MatMulV3,x,\"\"\"64,32;32,16\"\"\"\n"),
            1U);
}

TEST(BadInput, FilesThatWerePutTogether) {
  const std::string twice = std::string(kKernels) + kMatmul + kKernels + kMatmul;
  EXPECT_EQ(bad_line(twice), "");
  EXPECT_THAT(import_text(twice).lines.at(2).text, HasSubstr("the heading again"));
  EXPECT_THAT(bad_line(std::string(kKernels) + kMatmul + read_log("osu_allreduce.txt")),
              HasSubstr("3: the row has 1 cells"));
}

TEST(BadInput, ProcessesThatDoNotKnowEachOther) {
  EXPECT_THAT(bad_line(replaced(read_log("rccl_tests.log"), "Rank  1", "Rank  0")), HasSubstr("built without MPI=1"));
}

TEST(BadInput, ShapesThatDoNotMultiply) {
  for (const char* shapes : {"65,32;32,16", "64,32;33,16", "64,32", "64;32", "64,0;0,16", "64,-32;-32,16", "a,b;c,d"})
    EXPECT_THAT(bad_line(std::string(kKernels) + replaced(kMatmul, "64,32;32,16", shapes)),
                HasSubstr("2: the shapes do not multiply"))
        << shapes;
  EXPECT_THAT(bad_line(std::string(kKernels) + replaced(kMatmul, "64,32;32,16", "9223372036854775807,2;2,16")),
              HasSubstr("2: a size is outside 1 to 1000000000"));
}

std::string utf16(const std::string& text, bool is_big, bool has_mark) {
  std::string bytes = !has_mark ? "" : is_big ? "\xFE\xFF" : "\xFF\xFE";
  for (const char c : text) bytes += is_big ? std::string{'\0', c} : std::string{c, '\0'};
  return bytes;
}

std::string xz(const std::string& text) {
  std::string bytes(text.size() + 1024, '\0');
  std::size_t count = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                                    text.size(), reinterpret_cast<std::uint8_t*>(bytes.data()), &count, bytes.size()),
            LZMA_OK);
  bytes.resize(count);
  return bytes;
}

/// Compresses with a checksum, as the program zstd does.
std::string zstd(const std::string& text) {
  std::string bytes(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  const std::size_t count = ZSTD_compress2(context, bytes.data(), bytes.size(), text.data(), text.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(count));
  bytes.resize(count);
  return bytes;
}

/// Compresses two halves as pzstd does, which writes the size of each in a frame that decoders skip.
std::string pzstd(const std::string& text) {
  std::string bytes;
  for (const std::string& half : {text.substr(0, text.size() / 2), text.substr(text.size() / 2)}) {
    const std::string frame = zstd(half);
    bytes += std::string("\x50\x2A\x4D\x18\x04\0\0\0", 8);
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>((frame.size() >> shift) & 0xFF);
    bytes += frame;
  }
  return bytes;
}

TEST(BadInput, EncodingsThatSpreadsheetsAndShellsWrite) {
  const std::string log = read_log("nccl_tests.log");
  const auto expected = timings_text(import_text(log).timings);
  ASSERT_EQ(expected.size(), 3U);
  std::string windows;
  for (const char c : log) windows += c == '\n' ? "\r\n" : std::string(1, c);
  for (const std::string& text :
       {"\xEF\xBB\xBF" + log, windows, utf16(log, false, true), utf16(log, true, true), utf16(log, false, false),
        utf16(windows, true, false), gzipped(log), gzipped(utf16(windows, false, true)), gzipped(log) + gzipped("\n"),
        xz(log), xz(windows) + xz("\n"), zstd(log), zstd(utf16(log, true, true)), zstd(log) + zstd("\n"), pzstd(log),
        pzstd(log) + pzstd("\n")})
    EXPECT_EQ(timings_text(import_text(text).timings), expected);
}

TEST(BadInput, CutAndDamagedCompressedFiles) {
  const std::string log = read_log("nccl_tests.log");
  const auto is_taken = [](const std::string& bytes) {
    const auto summary = import_text(bytes).summary;
    return summary && summary.value().bad_count == 0;
  };
  for (const auto& [name, whole] : {std::pair("gzip", gzipped(log)), {"xz", xz(log)}, {"zstd", zstd(log)}}) {
    ASSERT_TRUE(is_taken(whole)) << name;
    for (std::size_t size = 6; size < whole.size(); ++size) ASSERT_FALSE(is_taken(whole.substr(0, size))) << size;
    const auto cut = import_text(whole.substr(0, whole.size() - 1)).summary;
    EXPECT_THAT(cut ? cut.value().first_bad : cut.error().text(),
                HasSubstr(std::string("the ") + name + " file is cut: its end is missing"));
    std::string damaged = whole;
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
    EXPECT_FALSE(is_taken(damaged)) << name;
  }
}

TEST(BadInput, WhatStandsBehindCompressedDataIsNamed) {
  const std::string log = read_log("nccl_tests.log"), padding(70'000, '\0');
  const auto expected = timings_text(import_text(log).timings);
  for (const auto& [name, whole, more] :
       {std::tuple("gzip", gzipped(log), gzipped("\n")), {"xz", xz(log), xz("\n")}, {"zstd", zstd(log), zstd("\n")}}) {
    for (const std::string& padded : {whole + padding, whole + padding + more}) {
      const ImportedLog imported = import_text(padded);
      EXPECT_EQ(timings_text(imported.timings), expected) << name;
      EXPECT_EQ(imported.summary.value().bad_count, 0) << name;
    }
    for (const std::string& other : {std::string("4  1.5\n"), padding + "rest", whole.substr(0, 1)}) {
      const ImportedLog imported = import_text(whole + other);
      EXPECT_EQ(timings_text(imported.timings), expected) << name;
      EXPECT_EQ(imported.summary.value().first_bad,
                "behind the " + std::string(name) + " data stands something else, which is not read");
    }
  }
}

TEST(BadInput, WindowsOfCompressedFilesAreBounded) {
  std::string bytes(1 << 20, '\0');
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 27);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_enableLongDistanceMatching, 1);
  const std::string log = read_log("nccl_tests.log");
  ZSTD_inBuffer in{log.data(), log.size(), 0};
  ZSTD_outBuffer out{bytes.data(), bytes.size(), 0};
  ASSERT_FALSE(ZSTD_isError(ZSTD_compressStream2(context, &out, &in, ZSTD_e_continue)));
  ZSTD_compressStream2(context, &out, &in, ZSTD_e_end);
  ZSTD_freeCCtx(context);
  bytes.resize(out.pos);
  const auto refused = import_text(bytes).summary;
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("the zstd file is damaged"));
}

TEST(BadInput, LinesWithoutEndAreRefusedInBoundedMemory) {
  const ImportedLog imported = import_text(std::string(kOsu) + std::string(3 << 20, '7') + "\n");
  ASSERT_TRUE(imported.summary);
  EXPECT_THAT(imported.summary.value().first_bad, HasSubstr("line 3 is longer than 1 MiB"));
}

TEST(BadInput, MoreSizesThanCanBeKeptAreSaid) {
  std::string text = kOsu;
  for (std::size_t i = 1; i <= kMaxTimingSizes + 5; ++i) text += std::to_string(i) + "  1.0\n";
  const ImportedLog imported = import_text(text);
  EXPECT_EQ(imported.timings.groups().size(), kMaxTimingSizes);
  EXPECT_THAT(imported.lines.back().text, HasSubstr("more than 4096 different sizes"));
}

TEST(BadInput, RepeatedTimingsOfASizeAreDrawnEvenly) {
  std::string text = kOsu;
  for (int i = 1; i <= 20'000; ++i) text += "4  " + std::to_string(i) + ".0\n";
  const ImportedLog imported = import_text(text);
  const TimingGroup& group = imported.timings.groups().begin()->second;
  EXPECT_EQ(group.count, 20'000);
  ASSERT_EQ(group.kept.size(), kMaxTimingsPerSize);
  double sum = 0;
  for (const TimedRound& timed : group.kept) sum += static_cast<double>(timed.time.count()) / 1000;
  // The mean of 512 random numbers of 1..20000 is 10000 with a standard deviation of 20000 / sqrt(12 x 512) = 255.
  EXPECT_NEAR(sum / 512, 10'000, 6 * 255);
}

} // namespace
} // namespace mc2::profiler::importer_bad_input_test
