#include "mc2/profiler/import_report.hpp"

#include <gtest/gtest.h>

#include "mc2/profiler/import_terms.hpp"

namespace mc2::profiler::import_report_test {
namespace {

TEST(ImportReport, LinesOfOneFateAreGroupedInRuns) {
  ImportReport report;
  for (const std::int64_t line : {1, 2, 3, 7}) report.add({line, Verdict::Took, "a matmul"});
  report.add({4, Verdict::Bad, "cut"});
  ASSERT_EQ(report.groups().size(), 2U);
  const auto& [key, group] = *report.groups().begin();
  EXPECT_EQ(key, ImportReport::Key(Verdict::Took, "a matmul"));
  EXPECT_EQ(group.count, 4);
  EXPECT_EQ(group.runs, (std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 3}, {7, 7}}));
  EXPECT_EQ(report.groups().rbegin()->first.first, Verdict::Bad) << "bad lines come last";
}

TEST(ImportReport, MemoryIsBoundedForAnyNumberOfFates) {
  ImportReport report;
  constexpr std::int64_t kLineCount = 10'000;
  for (std::int64_t line = 1; line <= kLineCount; ++line)
    report.add({2 * line, Verdict::Skipped, "fate " + std::to_string(line)});
  EXPECT_LE(report.groups().size(), ImportReport::kMaxGroups + 1);
  std::int64_t count = 0;
  for (const auto& [key, group] : report.groups()) {
    count += group.count;
    EXPECT_LE(group.runs.size(), ImportReport::kMaxRuns);
  }
  EXPECT_EQ(count, kLineCount);
}

LogSummary summary(std::int64_t took, std::map<std::string, std::string> facts = {}) {
  LogSummary result;
  result.took_count = took;
  result.facts = std::move(facts);
  return result;
}

TEST(ImportedLogs, LogsOfDifferentMachinesAreRefused) {
  ImportedLogs logs;
  ASSERT_TRUE(logs.add("a", summary(1, {{"device", "x"}})).ok());
  const auto refused = logs.add("b", summary(1, {{"device", "y"}}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
}

TEST(ImportedLogs, TwoLogsOfOneRankAreTold) {
  ImportedLogs logs;
  LogSummary zero = summary(1), one = summary(1);
  zero.rank = 0;
  one.rank = 1;
  for (const auto& [name, log] : {std::pair("a", zero), {"b", one}, {"c", summary(1)}, {"d", summary(1)}})
    ASSERT_TRUE(logs.add(name, log).ok());
  EXPECT_TRUE(logs.notes.empty());
  ASSERT_TRUE(logs.add("e", zero).ok());
  ASSERT_EQ(logs.notes.size(), 1U);
  EXPECT_NE(logs.notes[0].find("e calls itself rank 0, as a does"), std::string::npos);
}

TEST(ImportedLogs, FirstBadLineIsNamedWithItsLog) {
  ImportedLogs logs;
  LogSummary bad = summary(1);
  bad.bad_count = 3;
  bad.first_bad = "cut";
  bad.first_bad_line = 7;
  ASSERT_TRUE(logs.add("a.csv", bad).ok());
  EXPECT_EQ(logs.first_bad, "a.csv:7: cut (and 2 more)");
}

TEST(ImportedLogs, WithoutTimingsSaysWhatIsMissing) {
  ImportedLogs logs;
  EXPECT_EQ(logs.require_timings().error().code, ErrorCode::CannotFit);
  LogSummary asking = summary(0);
  asking.questions = {"the ranks", "the type"};
  ASSERT_TRUE(logs.add("a", asking).ok());
  EXPECT_EQ(logs.require_timings().error().message, "no timing was taken; say the ranks; the type");
  ASSERT_TRUE(logs.add("b", summary(2)).ok());
  EXPECT_TRUE(logs.require_timings().ok());
}

TEST(ImportTerms, WordsBecomeAnswers) {
  ImportTerms terms{.op = "matmul_all_reduce",
                    .dtype = "f16",
                    .collective = "all_gather",
                    .bytes = "4096",
                    .buffers = "both",
                    .device = "npu"};
  terms.ranks = 8;
  const auto answers = terms.answers();
  ASSERT_TRUE(answers.ok());
  EXPECT_EQ(answers.value().collective, planner::Collective::AllGather);
  EXPECT_EQ(answers.value().message_bytes, 4096);
  EXPECT_EQ(answers.value().buffers, Buffers::Both);
  EXPECT_EQ(answers.value().world_size, 8);
  const auto question = terms.question();
  ASSERT_TRUE(question.ok());
  EXPECT_EQ(question.value().kind, planner::OpKind::MatmulAllReduce);
  EXPECT_EQ(question.value().dtype, planner::DType::F16);
  terms.bytes = "neighbour";
  EXPECT_TRUE(terms.answers().value().bytes_from_neighbour);
}

TEST(ImportTerms, IllegalWordsNameTheirTerm) {
  const auto field_of = [](const ImportTerms& terms) {
    const auto answers = terms.answers();
    if (!answers) return answers.error().field;
    const auto question = terms.question();
    return question ? std::string() : question.error().field;
  };
  EXPECT_EQ(field_of({.op = "x"}), "op");
  EXPECT_EQ(field_of({.dtype = "x"}), "dtype");
  EXPECT_EQ(field_of({.collective = "x"}), "collective");
  EXPECT_EQ(field_of({.buffers = "x"}), "buffers");
  for (const char* bytes : {"x", "0", "-1", "1.5", "1125899906842625", "99999999999999999999"}) // the limit is 2^50
    EXPECT_EQ(field_of({.bytes = bytes}), "bytes") << bytes;
  EXPECT_EQ(field_of({.m = 0}), "m");
  EXPECT_EQ(field_of({.ranks = std::int64_t{1} << 32}), "ranks");
}

} // namespace
} // namespace mc2::profiler::import_report_test
