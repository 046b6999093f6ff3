#include "mc2/store/exporter.hpp"
#include "exporters/parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "examples.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::store::exporter_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

planner::Plan plan_of(std::vector<std::int64_t> blocks, std::int64_t m = 1024) {
  planner::Plan plan = examples::plan(m);
  plan.cut.block_rows = std::move(blocks);
  plan.timeline = {};
  for (std::size_t i = 0; i < plan.cut.block_rows.size(); ++i) {
    const auto start_us = 10.0 * static_cast<double>(i);
    plan.timeline.first.push_back({start_us, start_us + 10});
    plan.timeline.second.push_back({start_us + 10, start_us + 20});
    plan.timeline.makespan_us = start_us + 20;
  }
  return plan;
}
ExportItem short_first() { return {plan_of({128, 448, 448}), {}}; }

std::string written(const char* format, const std::vector<ExportItem>& items, const ExportOptions& options = {}) {
  const auto text = find_exporter(format).value()->write(items, options);
  EXPECT_TRUE(text) << text.error().text();
  return text ? text.value() : "";
}

TEST(Exporter, TwoWayFormatsGiveTheSamePlansToTheByte) {
  std::vector<ExportItem> table{short_first(), {plan_of({1024, 1024}, 2048), 0.1 + 0.2}};
  for (const Exporter& exporter : exporter_registry()) {
    if (!exporter.read) continue;
    const std::vector<ExportItem> items = exporter.takes_many ? table : std::vector{short_first()};
    const std::string text = written(std::string(exporter.name).c_str(), items);
    const auto back = exporter.read(text);
    ASSERT_TRUE(back) << exporter.name << ": " << back.error().text();
    ASSERT_EQ(back.value().size(), items.size()) << exporter.name;
    for (std::size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(encode(back.value()[i].plan), encode(items[i].plan)) << exporter.name;
      EXPECT_EQ(back.value()[i].neighbour_loss, items[i].neighbour_loss) << exporter.name;
    }
  }
}

TEST(Exporter, WhatWasEditedOrCutIsRefused) {
  for (const Exporter& exporter : exporter_registry()) {
    if (!exporter.read) continue;
    std::string text = written(std::string(exporter.name).c_str(), {short_first()});
    const std::size_t at = text.find("448");
    ASSERT_NE(at, std::string::npos) << exporter.name;
    std::string edited = text;
    edited.replace(
        text.rfind("448") > text.find("mc2-plan") && exporter.name.starts_with("ascendc") ? text.rfind("448") : at, 3,
        "449");
    const auto back = exporter.read(edited);
    ASSERT_FALSE(back) << exporter.name;
    EXPECT_EQ(back.error().code, ErrorCode::Malformed) << exporter.name;
    for (const std::size_t size : {std::size_t{0}, text.size() / 2, text.size() - 2})
      EXPECT_FALSE(exporter.read(text.substr(0, size))) << exporter.name << size;
  }
}

TEST(Exporter, TheSampleCallsTileWhatRunsFirst) {
  const std::string first = written("ascendc", {short_first()});
  for (const char* field : {"tileM(tiling, 128, 0);", "tileNum(tiling, 1, 0);", "tailM(tiling, 448, 0);",
                            "tailNum(tiling, 2, 0);", "rankDim(tiling, 2, 0);"})
    EXPECT_THAT(first, HasSubstr(field)) << first;
  const std::string last = written("ascendc", {{plan_of({448, 448, 128}), {}}});
  for (const char* field :
       {"tileM(tiling, 448, 0);", "tileNum(tiling, 2, 0);", "tailM(tiling, 128, 0);", "tailNum(tiling, 1, 0);"})
    EXPECT_THAT(last, HasSubstr(field));
  const std::string uncut = written("ascendc", {{plan_of({1024}), {}}});
  for (const char* field :
       {"tileM(tiling, 1024, 0);", "tileNum(tiling, 1, 0);", "tailM(tiling, 0, 0);", "tailNum(tiling, 0, 0);"})
    EXPECT_THAT(uncut, HasSubstr(field));
  const std::string library = written("ascendc-lib", {short_first()});
  for (const char* field :
       {"tileCnt(tiling, 1, 0);", "tailM(tiling, 448, 0);", "tailCnt(tiling, 2, 0);", "first_group_m = 128;"})
    EXPECT_THAT(library, HasSubstr(field));
}

Result<planner::Plan> read_tiling(const char* format, const std::string& text) {
  auto items = find_exporter(format).value()->read(text);
  if (!items) return items.error();
  return std::move(items.value().front().plan);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.rfind(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Exporter, EditedTilingsAreReadByValueAndTheirChangesNamed) {
  // The edits turn 128 + 2 x 448 of 1024 rows into 256 + 2 x 384.
  for (const char* format : {"ascendc", "ascendc-lib"}) {
    const std::string text = written(format, {short_first()});
    std::string edited = replaced(text, "tailM(tiling, 448", "tailM(tiling, 384");
    edited = std::string_view(format) == "ascendc" ? replaced(edited, "tileM(tiling, 128", "tileM(tiling, 256")
                                                   : replaced(edited, "first_group_m = 128", "first_group_m = 256");
    const auto plan = read_tiling(format, edited);
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_THAT(plan.value().cut.block_rows, ElementsAre(256, 384, 384)) << format;
    EXPECT_THAT(plan.value().reason, HasSubstr("tailM is 384 where the plan in the file has 448"));
    EXPECT_EQ(plan.value().makespan.us, 0); // the prediction was for other blocks
    EXPECT_EQ(plan.value().fingerprint, short_first().plan.fingerprint);
    // An added comment changes nothing.
    EXPECT_EQ(read_tiling(format, "// mine\n" + text).value(), short_first().plan);
  }
  const std::string text = written("ascendc", {short_first()});
  EXPECT_THAT(
      read_tiling("ascendc", replaced(text, "tailNum(tiling, 2", "tailNum(tiling, 3")).error().message,
      AllOf(HasSubstr("tailNum is 3 where the plan in the file has 2"), HasSubstr("sum to more than 1024 rows")));
  const auto by_constant = read_tiling("ascendc", replaced(replaced(text, "kMc2TailRows = 448", "kMc2TailRows = 384"),
                                                           "kMc2TileRows = 128", "kMc2TileRows = 256"));
  ASSERT_TRUE(by_constant) << by_constant.error().text();
  EXPECT_THAT(by_constant.value().cut.block_rows, ElementsAre(256, 384, 384));
  EXPECT_THAT(read_tiling("ascendc", replaced(replaced(text, "kMc2TailRows = 448", "kMc2TailRows = 384"),
                                              "tailM(tiling, 448", "tailM(tiling, 400"))
                  .error()
                  .text(),
              HasSubstr("kMc2TailRows: "));
  EXPECT_THAT(read_tiling("ascendc", replaced(text, "rankK(tiling, ", "rankK(tiling, 1")).error().message,
              HasSubstr("its plan is of another operator"));
  EXPECT_THAT(read_tiling("ascendc", replaced(text, "tileM(tiling, 128", "tileM(tiling, kTile")).error().text(),
              HasSubstr("sets tileM to something other than a whole number"));
}

TEST(Exporter, EditedTablesAreReadByValueAndTheirChangesNamed) {
  for (const auto& [format, from, to] :
       {std::tuple{"csv", "128 + 2 x 448", "2x512"}, {"m-table", "\"rows\": 448", "\"rows\": 448"}}) {
    const auto* exporter = find_exporter(format).value();
    const std::string text = written(format, {short_first(), {plan_of({1024, 1024}, 2048), 0.25}});
    std::string edited = text;
    edited.replace(edited.find(from), std::string_view(from).size(), to);
    if (std::string_view(format) == "m-table") { // 128 + 2 x 448 becomes 1 x 576 + 1 x 448
      edited.replace(edited.find("\"rows\": 128"), 11, "\"rows\": 576");
      edited.replace(edited.find("\"count\": 2"), 10, "\"count\": 1");
    }
    const auto back = exporter->read(edited);
    ASSERT_TRUE(back) << format << ": " << back.error().text();
    ASSERT_EQ(back.value().size(), 2U);
    const planner::Plan& plan = back.value()[0].plan;
    EXPECT_EQ(plan.cut.block_rows.size(), 2U) << plan.cut.text();
    EXPECT_THAT(plan.reason, HasSubstr("where its plan has 128 + 2 x 448")) << format;
    EXPECT_EQ(plan.makespan.us, 0); // the prediction was for other blocks
    EXPECT_EQ(plan.fingerprint, short_first().plan.fingerprint);
    EXPECT_EQ(encode(back.value()[1].plan), encode(plan_of({1024, 1024}, 2048))) << format;
    EXPECT_EQ(back.value()[1].neighbour_loss, 0.25) << format;
  }
}

TEST(Exporter, AVariantThatWasEmptiedIsNoOther) {
  const auto* csv = find_exporter("csv").value();
  const std::string text = written("csv", {short_first()}), variant = short_first().plan.variant.text();
  for (const char* empty : {",,", ",  ,"}) {
    std::string edited = text;
    edited.replace(edited.find("," + variant + ","), variant.size() + 2, empty);
    const auto refused = csv->read(edited);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text(),
                HasSubstr("variant: is empty where its plan has " + variant + "; restore it, or name another"));
  }
}

TEST(Exporter, TablesHaveWhatWasMeasuredApartFromWhatWasPredicted) {
  ExportItem raced = short_first();
  raced.plan.validation = planner::Validation{.fused_us = 91.5,
                                              .serial_us = 121.5,
                                              .benefit = 0.25,
                                              .benefit_low = 0.125,
                                              .benefit_high = 0.375,
                                              .pair_count = 40};
  ExportItem other = raced;
  other.plan = plan_of({1024, 1024}, 2048);
  other.plan.validation.reset();
  const std::string csv = written("csv", {raced, other});
  EXPECT_THAT(
      csv,
      HasSubstr(",provenance,measured_us,measured_serial_us,measured_benefit,measured_benefit_low,"
                "measured_benefit_high,neighbour_loss,experts_per_rank,epilogue,imbalance,experts,top_k,document\n"));
  EXPECT_THAT(csv, HasSubstr(",91.5,121.5,0.25,0.125,0.375,,"));
  EXPECT_THAT(csv, HasSubstr(",interpolated,,,,,,,")); // the other plan ran in no race
  EXPECT_THAT(written("markdown", {raced}), HasSubstr("| 91.5 | 121.5 | 0.25 | 0.125 | 0.375 |"));
  const std::string table = written("m-table", {raced, other});
  EXPECT_THAT(table, HasSubstr("\"measured_benefit_low\": 0.125"));
  EXPECT_EQ(table.find("\"measured_us\""), table.rfind("\"measured_us\""));
  for (const char* format : {"csv", "m-table"}) {
    const auto back = find_exporter(format).value()->read(written(format, {raced, other}));
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(encode(back.value()[0].plan), encode(raced.plan)) << format;
  }
}

TEST(Exporter, UncutRowsAreReadByValue) {
  const auto* csv = find_exporter("csv").value();
  const auto* table = find_exporter("m-table").value();
  const ExportItem uncut{plan_of({1024}), {}};
  for (const auto* exporter : {csv, table})
    EXPECT_EQ(encode(exporter->read(written(std::string(exporter->name).c_str(), {uncut})).value()[0].plan),
              encode(uncut.plan));
  const auto by_hand = csv->read("kind,m,n,k,dtype,ranks,blocks\nmatmul_all_reduce,512,64,64,f16,2,uncut\n\n");
  ASSERT_TRUE(by_hand) << by_hand.error().text();
  EXPECT_THAT(by_hand.value()[0].plan.cut.block_rows, ElementsAre(512));
  const std::string head = R"({"kind": "matmul_all_reduce", "n": 64, "k": 64, "dtype": "f16", "ranks": 2, "plans": {)";
  EXPECT_TRUE(table->read(head + R"("512": {"blocks": [{"rows": 512, "count": 1}]}}})"));
  EXPECT_FALSE(table->read(head + R"("1024": {"blocks": [{"rows": 512, "count": 1}]}}})"));
  EXPECT_THAT(table->read(R"({"schema": "mc2.plan_table/2", "plans": {}})").error().text(), HasSubstr("plan_table/2"));
  // Only the m of an uncut row was edited.
  std::string text = written("csv", {uncut});
  text.replace(text.find(",1024,"), 6, ",1025,");
  EXPECT_THAT(csv->read(text).value()[0].plan.reason, HasSubstr("m is 1025 where its plan has 1024"));
  EXPECT_THAT(csv->read("blocks,blocks\n").error().text(), HasSubstr("line 1, column 8: 'blocks' is a column twice"));
}

TEST(Exporter, ASpreadsheetsWayOfWritingATableChangesNoPlan) {
  const auto* csv = find_exporter("csv").value();
  std::string text = written("csv", {short_first()});
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\r\n");
  EXPECT_EQ(encode(csv->read("\xEF\xBB\xBF" + text).value()[0].plan), encode(short_first().plan));
  const std::string predicted = number_cell(short_first().plan.makespan.us);
  const std::string more = text.replace(text.find(predicted), predicted.size(), predicted + "1");
  EXPECT_THAT(csv->read(more).error().message, HasSubstr("predictions cannot be edited"));
}

TEST(Exporter, RowsOfATableMayBeWrittenByHand) {
  const auto* csv = find_exporter("csv").value();
  const auto items = csv->read(
      "note,blocks,kind,m,n,k,dtype,ranks\n"
      "mine,\"512,4x896\",matmul_all_reduce,4096,8192,3072,f16,8\n");
  ASSERT_TRUE(items) << items.error().text();
  EXPECT_THAT(items.value()[0].plan.cut.block_rows, ElementsAre(512, 896, 896, 896, 896));
  EXPECT_THAT(items.value()[0].plan.reason, HasSubstr("written by hand"));
  EXPECT_THAT(csv->read("blocks,kind,m\n512,matmul_all_reduce,512\n").error().text(),
              AllOf(HasSubstr("line 2"), HasSubstr("lacks n, k, dtype, ranks")));
  EXPECT_THAT(csv->read("blocks,kind,m,n,k,dtype,ranks\n512,matmul_all_reduce,x,8,8,f16,2\n").error().text(),
              HasSubstr("line 2, column 23: m: 'x' is no whole number"));
  EXPECT_THAT(csv->read("kind,m\n").error().text(), HasSubstr("has no column blocks"));
  // Columns that people add may hold anything: numbers that are marked by '#', more than a line of shapes may have.
  const auto noted = csv->read("#,blocks,kind,m,n,k,dtype,ranks,note\n#1, 512 ,matmul_all_reduce,512,8,8,f16,2,\v" +
                               std::string(70'000, 'x') + "\n");
  ASSERT_TRUE(noted) << noted.error().text();
  EXPECT_THAT(noted.value()[0].plan.cut.block_rows, ElementsAre(512));
  const char* grouped = "blocks,kind,m,n,k,dtype,ranks,experts,top_k\n";
  const auto chosen = csv->read(std::string(grouped) + "256,grouped_matmul_reduce_scatter,512,8,8,f16,2,8,2\n");
  ASSERT_TRUE(chosen) << chosen.error().text();
  EXPECT_EQ(chosen.value()[0].plan.op.experts, (planner::ChosenExperts{.count = 8, .top_k = 2}));
  EXPECT_THAT(csv->read(std::string(grouped) + "256,grouped_matmul_reduce_scatter,512,8,8,f16,2,8,\n").error().text(),
              HasSubstr("top_k"));
  EXPECT_THAT(csv->read("blocks,m\n1\n").error().message, HasSubstr("has 1 cells where the heading has 2"));
  const auto* table = find_exporter("m-table").value();
  EXPECT_THAT(table->read(R"({"plans": {"512": {"blocks": [{"rows": 512}]}}})").error().message,
              HasSubstr("no list of groups"));
  EXPECT_TRUE(table->read(R"({"kind": "matmul_all_reduce", "n": 64, "k": 64, "dtype": "f16", "ranks": 2,
                              "plans": {"512": {"blocks": [{"rows": 256, "count": 2}]}}})"));
}

TEST(Exporter, TilingsWrittenByHandAreReadByValue) {
  const auto plan = read_tiling("ascendc",
                                "// AllGatherMatmul, rankDim = 8, dataType = 3\n"
                                "tiling->cfg.rankM = 512;\n tiling->cfg.rankN = 8192u;\n tiling->cfg.rankK=3072;\n"
                                "tiling->cfg.tileNum = 1; tiling->cfg.tailM = 64; tiling->cfg.tailNum = 1;\n");
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(plan.value().op,
            (planner::OpSpec{planner::OpKind::AllGatherMatmul, 4096, 8192, 3072, planner::DType::F16, 8}));
  EXPECT_THAT(plan.value().cut.block_rows, ElementsAre(448, 64));
  // In tailM, the sample code of MatmulReduceScatter counts the rows of all ranks, the library those of one rank.
  const std::string scatter =
      "// matmul_reduce_scatter\n tiling.set_rankDim(8); tiling.set_rankM(4096); tiling.set_rankN(8192);\n"
      "tiling.set_rankK(3072); tiling.set_dataType(11); tiling.set_tileCnt(3); tiling.set_tailCnt(1); "
      "tiling.set_tailM(";
  EXPECT_THAT(read_tiling("ascendc", scatter + "1024);\n").value().cut.block_rows, ElementsAre(128, 128, 128, 128));
  EXPECT_THAT(read_tiling("ascendc-lib", scatter + "128);\n").value().cut.block_rows, ElementsAre(128, 128, 128, 128));
  EXPECT_THAT(read_tiling("ascendc", "// MatmulAllReduce\n t.rankM = 64;\n").error().message,
              HasSubstr("sets no rankDim, rankN, rankK, dataType"));
  EXPECT_THAT(read_tiling("ascendc", "t.rankM = 64;\n").error().message, HasSubstr("names no operator"));
  EXPECT_THAT(read_tiling("ascendc", scatter + "1024); // MatmulAllReduce\n").error().message,
              HasSubstr("names two operators"));
  EXPECT_EQ(read_tiling("ascendc", scatter + "99999999999999999999);\n").error().code, ErrorCode::Malformed);
}

TEST(Exporter, TilingsSetNumbersNotExpressions) {
  const std::string text = written("ascendc", {short_first()});
  for (const char* value : {"64 * 2", "64 + 64", "256 / 2", "64 << 1", "1'28", "64*2", "128 /* rows */ * 2", "0x80"})
    EXPECT_THAT(read_tiling("ascendc", replaced(text, "tileM(tiling, 128", "tileM(tiling, " + std::string(value)))
                    .error()
                    .message,
                HasSubstr("sets tileM to something other than a whole number"))
        << value;
  for (const char* set :
       {"t.tileM += 128;", "t.set_tileM(std::max(rows, 512));", "t.set_tileM(std::max(512));", "t.set_tileM(kTile);",
        "t.set_tileM(rows / 2);", "t->set_tileM((uint32_t)256);", "set_tileM(&t, f(a, 512));", "{set_tileM(t, x, 0);}",
        "CHECK(t.set_tileM(n));", "if (big) t.x(); else set_tileM(n);", "t.set_tileM(m / 2).set_tailM(4);"})
    EXPECT_THAT(read_tiling("ascendc", text + "void f(T& t) { " + set + " }\n").error().message,
                HasSubstr("sets tileM to something other than a whole number"))
        << set;
  for (const char* no_value :
       {"struct T { void set_tileM(std::uint32_t rows); };", "T& set_tileM(uint32_t);", "void set_tileM(uint32_t);",
        "void T::set_tileM(uint32_t rows);", "std::optional<T> set_tileM(int rows);", "T::T(int m) : tileM(m) {}"})
    EXPECT_EQ(read_tiling("ascendc", text + no_value + "\n").value(), short_first().plan) << no_value;
}

TEST(Exporter, CommentsOfTilingsGiveOnlyWhatTheCodeDoesNotSet) {
  const std::string text = written("ascendc", {short_first()});
  for (const char* aside : {"// was mc2_set_tileM(tiling, 256, 0);\n", "/* t.tileM = 256;\n t.tileM = 512;\n */\n",
                            "const char* note = \"tileM = 7\";\n", "auto raw = R\"x(t.tileM = 7; \" )x\";\n",
                            "/* tileM */ int x; // (7 rows)\n", "// the last is tileCnt = 9\n"})
    EXPECT_EQ(read_tiling("ascendc", text + aside).value(), short_first().plan) << aside;
  const std::string code =
      "t.rankM = 4096; t.rankN = 8192;\n auto raw = R\"(a \"b)\"; t.rankK = 3072;\n t.tileM = 1024; t.tileNum = 4;\n";
  for (const char* told :
       {"// MatmulAllReduce, rankDim = 8, dataType = 3.\n", "// MatmulAllReduce | rankDim = 8 | dataType = 3\n",
        "/* MatmulAllReduce: dataType = 3 */\n"
        "// rankDim = 8 - the ranks of one server\n"})
    EXPECT_EQ(read_tiling("ascendc", told + code).value().op.world_size, 8) << told;
  EXPECT_THAT(read_tiling("ascendc", "// MatmulAllReduce, dataType = 3; no rankDim\nint x;\n// (4 blocks)\n" + code)
                  .error()
                  .message,
              HasSubstr("rankDim"));
}

TEST(Exporter, CommentsOfTilingsGiveNumbersNotExpressions) {
  const std::string code = "t.rankN = 8192; t.rankK = 3072; t.tileNum = 1; // MatmulAllReduce, dataType = 3\n";
  for (const char* told :
       {"512 * rankDim", "512*(8)", "8 * 512 = 4096", "4 * kBase = 512", "512 / ranks", "512 - 8", "512 + x"})
    EXPECT_THAT(read_tiling("ascendc", code + "// rankDim = 8\n// rankM = " + told + "\n").error().message,
                HasSubstr("sets no rankM"))
        << told;
  for (const char* told : {"512", "512 // rows", "512 - the rows of a rank", "512.", "512, of 4096"})
    EXPECT_EQ(read_tiling("ascendc", code + "// rankDim = 8\n// rankM = " + told + "\n").value().op.m, 512) << told;
  // A comment that is not closed keeps its last digits, and a name that ends in R begins no raw string.
  EXPECT_EQ(read_tiling("ascendc", code + "/* rankDim = 8, rankM = 512").value().op.m, 512);
  EXPECT_EQ(read_tiling("ascendc", "auto s = STR\"(\"; // rankDim = 8\n" + code + "t.rankM = 512;\n").value().op.m,
            512);
}

TEST(Exporter, CodeOfATilingWinsOverCommentsOfTheSameNumberUnderAnotherName) {
  // 512 rows: one block of 128 by the code, then one of 384. The comment's 256 is not read.
  const auto plan = read_tiling("ascendc-lib",
                                "// MatmulAllReduce, dataType = 3, rankDim = 8, tileM = 256\n"
                                "t.rankM = 512; t.rankN = 8192; t.rankK = 3072; t.tileCnt = 1; first_group_m = 128;\n"
                                "t.tailCnt = 1; t.tailM = 384;\n");
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_THAT(plan.value().cut.block_rows, ElementsAre(128, 384));
}

TEST(Exporter, TilingsNameRowsThatTheRanksDoNotShare) {
  EXPECT_EQ(read_tiling("ascendc",
                        "// MatmulReduceScatter, rankDim = 8, dataType = 3\n t.rankM = 4096; t.rankN = 8192; "
                        "t.rankK = 3072;\n t.tileM = 1200; t.tileNum = 3; t.tailM = 495; t.tailNum = 1;\n")
                .error()
                .text(),
            "tailM: is 495, no multiple of the 8 ranks, whose rows it counts");
}

TEST(Exporter, TilingsRefuseWhatTheyCannotExpress) {
  const auto* exporter = find_exporter("ascendc").value();
  EXPECT_EQ(exporter->write(std::vector{ExportItem{plan_of({128, 256, 640}), {}}}, {}).error().code,
            ErrorCode::Infeasible);
  EXPECT_EQ(exporter->write(std::vector{short_first(), short_first()}, {}).error().code, ErrorCode::InvalidSpec);
  ExportItem normed = short_first();
  normed.plan.op.epilogue.norm = planner::Norm::Rms;
  EXPECT_THAT(exporter->write(std::vector{normed}, {}).error().message, HasSubstr("no field for a norm"));
  ExportItem columns{plan_of({1024}), {}};
  columns.plan.op.kind = planner::OpKind::MatmulAllReduce;
  columns.plan.op.m = 4; // so few rows are cut along n
  columns.plan.cut.block_rows = {columns.plan.op.n};
  EXPECT_THAT(exporter->write(std::vector{columns}, {}).error().message, HasSubstr("cuts columns"));
}

TEST(Exporter, CommentsCannotBreakOutOfTheSnippet) {
  ExportItem item = short_first();
  item.plan.makespan.reason = "line\nbreak and a backslash \\";
  const std::string text = written("ascendc", {item});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_FALSE(line.starts_with("//") && line.ends_with('\\')) << line;
  EXPECT_THAT(text, HasSubstr("line break"));
}

/// A plan from imported logs, which do not tell what exchanges its blocks.
ExportItem of_imported_logs() {
  ExportItem item = short_first();
  item.plan.fingerprint.fields = {{"backend", "imported"}};
  return item;
}

TEST(Exporter, TunersAskWhatAPlanDoesNotName) {
  const std::vector<ExportItem> items{of_imported_logs()};
  const auto* nccl = find_exporter("nccl-tuner").value();
  EXPECT_EQ(nccl->write(items, {}).error().field, "--algorithm");
  EXPECT_EQ(nccl->write(items, {"ring", ""}).error().field, "--protocol");
  EXPECT_EQ(nccl->write(items, {"rings", "simple"}).error().code, ErrorCode::InvalidSpec);
  const auto* hccl = find_exporter("hccl-tuner").value();
  for (const char* algorithm : {"", "aicpu", "aicpu:sole", "aicpu:sole:", "x:sole:nhr", "aicpu:x:nhr",
                                "aicpu:sole:N H R", "aicpu:sole:meshconcurnhrnhr", "aiv:sole:nhr", "dpu:sole:nhr"})
    EXPECT_EQ(hccl->write(items, {algorithm, ""}).error().field, "--algorithm") << algorithm;
}

TEST(Exporter, NcclRowsCarryTheBlocksBytes) {
  ExportItem item = short_first();
  item.plan.variant = {"nccl", {{"ctas", "16"}}};
  const auto& op = item.plan.op;
  const std::int64_t row_bytes = planner::traits_of(op.kind).message_bytes_per_unit(op);
  const std::string text = written("nccl-tuner", {item}, {"nvls", "simple"});
  const std::string bytes = std::to_string(128 * row_bytes);
  EXPECT_THAT(
      text, HasSubstr("," + bytes + "," + bytes + ",nvls,simple,16,-1," + std::to_string(op.world_size) + ",-1,-1\n"));
  for (std::size_t at = 0; at < text.size();) { // the plugin reads lines of 256 characters
    const std::size_t end = text.find('\n', at);
    EXPECT_LT(end - at, 255U);
    at = end + 1;
  }
  item.plan.op.kind = planner::OpKind::MatmulAllToAll;
  EXPECT_EQ(find_exporter("nccl-tuner").value()->write(std::vector{item}, {"ring", "ll"}).error().code,
            ErrorCode::Infeasible);
}

TEST(Exporter, OurKernelsThreadBlocksAreNotNcclsChannels) {
  ExportItem item = short_first();
  const auto* nccl = find_exporter("nccl-tuner").value();
  for (const char* name : {"persistent", "low_latency", "direct"}) {
    item.plan.variant = {name, {{"ctas", "16"}}};
    item.plan.fingerprint.fields = {{"backend", "imported"}};
    EXPECT_THAT(written("nccl-tuner", {item}, {"ring", "simple", 8}), HasSubstr(",ring,simple,8,-1,")) << name;
    EXPECT_EQ(nccl->write(std::span(&item, 1), {"ring", "simple"}).error().field, "--channels") << name;
    for (const char* backend : {"cuda", "mpi", "host"}) {
      item.plan.fingerprint.fields = {{"backend", backend}};
      EXPECT_THAT(nccl->write(std::span(&item, 1), {"ring", "simple", 8}).error().message,
                  HasSubstr("never calls NCCL"));
      EXPECT_THAT(
          find_exporter("hccl-tuner").value()->write(std::span(&item, 1), {"aicpu:sole:nhr", ""}).error().message,
          HasSubstr("never calls HCCL"));
    }
  }
}

TEST(Exporter, APlanOfNpusIsNoneOfNccls) {
  ExportItem item = short_first();
  item.plan.variant = {"published", {}};
  item.plan.fingerprint.fields = {{"backend", "published"}, {"device", "ascend-910b"}};
  EXPECT_THAT(find_exporter("nccl-tuner").value()->write(std::span(&item, 1), {"ring", "simple", 8}).error().message,
              HasSubstr("--format hccl-tuner is theirs"));
  EXPECT_THAT(written("hccl-tuner", {item}, {"aicpu:sole:nhr", ""}), HasSubstr("\"version\": 1"));
}

TEST(Exporter, WhatNcclHasNoKernelsOfIsRefused) {
  ExportItem item = short_first();
  item.plan.variant = {"nccl", {{"ctas", "16"}}};
  const auto* nccl = find_exporter("nccl-tuner").value();
  const auto field = [&](const char* algorithm, const char* protocol) {
    return nccl->write(std::span(&item, 1), {algorithm, protocol}).error().field;
  };
  for (const char* algorithm : {"nvls", "nvls_tree", "collnet_direct", "collnet_chain"})
    for (const char* protocol : {"ll", "ll128"}) EXPECT_EQ(field(algorithm, protocol), "--protocol") << algorithm;
  EXPECT_EQ(field("pat", "simple"), "--algorithm");
  item.plan.op.kind = planner::OpKind::MatmulReduceScatter;
  for (const char* algorithm : {"tree", "nvls_tree", "collnet_chain"})
    EXPECT_EQ(field(algorithm, "simple"), "--algorithm") << algorithm;
  EXPECT_TRUE(nccl->write(std::span(&item, 1), {"pat", "simple"}));
}

TEST(Exporter, TunersHaveOneRuleForAMessage) {
  // The plans have blocks of 128 and 448 rows, and of 448 rows. These are two messages, whatever the plans' m.
  std::vector<ExportItem> items{short_first(), {plan_of({448, 448}, 896), {}}};
  for (ExportItem& item : items) item.plan.fingerprint.fields = {{"backend", "imported"}};
  const std::string text = written("nccl-tuner", items, {"ring", "simple", 4});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n') - std::count(text.begin(), text.end(), '#'), 2) << text;
  const auto config = nlohmann::json::parse(written("hccl-tuner", items, {"aicpu:sole:nhr", ""}));
  EXPECT_EQ(config["op_types"]["allreduce"]["rules"].size(), 2);
}

TEST(Exporter, NcclChannelsThatContradictEachOtherAreRefused) {
  std::vector<ExportItem> items{short_first(), {plan_of({448, 448}, 896), {}}};
  items[0].plan.variant = {"nccl", {{"ctas", "16"}}};
  items[1].plan.variant = {"nccl_window", {{"ctas", "8"}}};
  const auto refused = find_exporter("nccl-tuner").value()->write(items, {"ring", "simple"}).error();
  EXPECT_EQ(refused.code, ErrorCode::InvalidSpec);
  EXPECT_THAT(refused.message, ::testing::AllOf(HasSubstr("m=1024"), HasSubstr("nccl(ctas=16)"), HasSubstr("m=896"),
                                                HasSubstr("nccl_window(ctas=8)"), HasSubstr("over 16 and 8 channels")));
}

TEST(Exporter, HcclCountsARanksInputOfAnAllGather) {
  ExportItem item = of_imported_logs();
  item.plan.op.kind = planner::OpKind::AllGatherMatmul;
  const auto& op = item.plan.op;
  const auto config = nlohmann::json::parse(written("hccl-tuner", {item}, {"aicpu:sole:nhr", ""}));
  EXPECT_EQ(config["version"], 1);
  const auto& rule = config["op_types"]["allgather"]["rules"][0];
  // The message is 128 rows of one rank's A, not of all ranks'.
  EXPECT_EQ(rule["match"]["max_bytes"], 128 * op.k * planner::size_bytes(op.dtype));
  EXPECT_EQ(rule["engine"], "aicpu");
  EXPECT_EQ(rule["cost"], 0.0);
}

TEST(Exporter, EightBitFloatsAreRefusedWhereHcclHasNone) {
  ExportItem item = of_imported_logs();
  item.plan.op.kind = planner::OpKind::EmbeddingAllToAll;
  for (const char* format : {"ascendc", "ascendc-lib"})
    EXPECT_EQ(find_exporter(format).value()->write(std::span(&item, 1), {}).error().field, "op") << format;
  item.plan.op.kind = planner::OpKind::MatmulAllReduce;
  item.plan.op.dtype = planner::DType::F8E4m3;
  for (const char* format : {"ascendc", "ascendc-lib"})
    EXPECT_EQ(find_exporter(format).value()->write(std::span(&item, 1), {}).error().field, "dtype") << format;
  const ExportOptions options{"aicpu:sole:nhr", ""};
  const auto* hccl = find_exporter("hccl-tuner").value();
  EXPECT_TRUE(hccl->write(std::span(&item, 1), options)); // the products that it sends are bf16
  item.plan.op.kind = planner::OpKind::AllGatherMatmul;
  EXPECT_EQ(hccl->write(std::span(&item, 1), options).error().field, "dtype");
}

TEST(Exporter, TablesByMAreOfOneOperator) {
  const auto* m_table = find_exporter("m-table").value();
  ExportItem other = short_first();
  other.plan.op.k += 1;
  EXPECT_THAT(m_table->write(std::vector{short_first(), other}, {}).error().message,
              HasSubstr("one operator on one machine"));
  EXPECT_THAT(m_table->write(std::vector{short_first(), short_first()}, {}).error().message,
              HasSubstr("two plans are of m=1024"));
}

TEST(Exporter, NamesEveryFormat) {
  const auto unknown = find_exporter("yaml");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::UnknownName);
  for (const Exporter& exporter : exporter_registry()) EXPECT_THAT(unknown.error().message, HasSubstr(exporter.name));
}

} // namespace
} // namespace mc2::store::exporter_test
