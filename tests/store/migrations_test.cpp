#include "migrations.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>

namespace mc2::store::migrations_test {
namespace {

constexpr std::array kSteps{Migration{1, "first", "CREATE TABLE a (x) STRICT"},
                            Migration{2, "second", "CREATE TABLE b (x INTEGER) STRICT; INSERT INTO b VALUES (7)"}};
// STRICT tables need column types, so the first step is spelled again where it must succeed.
constexpr std::array kGoodSteps{Migration{1, "first", "CREATE TABLE a (x INTEGER) STRICT"}, kSteps[1]};

SQLite::Database in_memory() { return {":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE}; }

TEST(Migrations, TableOfTheBuildAscendsFromOne) {
  int expected = 1;
  for (const Migration& step : migrations()) {
    EXPECT_EQ(step.version, expected++) << step.name;
    EXPECT_NE(step.sql.find("CREATE "), std::string_view::npos);
  }
  EXPECT_GT(expected, 1);
}

TEST(Migrations, FreshDatabaseGetsEveryStep) {
  SQLite::Database database = in_memory();
  ASSERT_TRUE(migrate(database, "mc2.db", kGoodSteps).ok());
  const SchemaState state = read_schema_state(database);
  EXPECT_EQ(state.version, 2);
  EXPECT_EQ(state.application_id, kApplicationId);
  EXPECT_TRUE(require_readable(database, "mc2.db", kGoodSteps, 1).ok());
}

TEST(Migrations, OlderDatabaseGetsTheMissingStepsAndKeepsItsRows) {
  SQLite::Database database = in_memory();
  ASSERT_TRUE(migrate(database, "mc2.db", std::span(kGoodSteps).first(1)).ok());
  database.exec("INSERT INTO a VALUES (5)");
  EXPECT_EQ(require_readable(database, "mc2.db", kGoodSteps, 2).error().code, ErrorCode::ReadOnly);
  EXPECT_TRUE(require_readable(database, "mc2.db", kGoodSteps, 1).ok());
  ASSERT_TRUE(migrate(database, "mc2.db", kGoodSteps).ok());
  EXPECT_EQ(database.execAndGet("SELECT a.x + b.x FROM a, b").getInt(), 12);
}

TEST(Migrations, FailingStepLeavesTheDatabaseAsItWas) {
  SQLite::Database database = in_memory();
  EXPECT_THROW(static_cast<void>(migrate(database, "mc2.db", kSteps)), SQLite::Exception);
  const SchemaState state = read_schema_state(database);
  EXPECT_EQ(state.version, 0);
  EXPECT_FALSE(state.has_tables);
}

TEST(Migrations, NewerDatabaseIsRefused) {
  SQLite::Database database = in_memory();
  ASSERT_TRUE(migrate(database, "mc2.db", kGoodSteps).ok());
  const auto older = std::span(kGoodSteps).first(1);
  EXPECT_EQ(migrate(database, "mc2.db", older).error().code, ErrorCode::NewerVersion);
  EXPECT_EQ(require_readable(database, "mc2.db", older, 1).error().code, ErrorCode::NewerVersion);
}

TEST(Migrations, AWrongSchemaNumberIsTold) {
  SQLite::Database database = in_memory();
  ASSERT_TRUE(migrate(database, "mc2.db", kGoodSteps).ok());
  EXPECT_EQ(tables_fault(database, kGoodSteps), "");
  database.exec("PRAGMA user_version = 1");
  EXPECT_EQ(tables_fault(database, kGoodSteps), "its schema number is 1, and table b of schema 2 is there");
  const auto refused = migrate(database, "mc2.db", kGoodSteps);
  EXPECT_EQ(refused.error().code, ErrorCode::Corrupt);
  EXPECT_NE(refused.error().message.find("table b of schema 2 is there"), std::string::npos);
  database.exec("PRAGMA user_version = 2; DROP TABLE b");
  EXPECT_EQ(tables_fault(database, kGoodSteps), "its schema number is 2, and table b of schema 2 is missing");
}

TEST(Migrations, ForeignDatabaseIsCorrupt) {
  SQLite::Database database = in_memory();
  database.exec("CREATE TABLE t (x)");
  EXPECT_EQ(migrate(database, "mc2.db", kGoodSteps).error().code, ErrorCode::Corrupt);
}

TEST(Migrations, EmptyDatabaseCannotBeOnlyRead) {
  SQLite::Database database = in_memory();
  EXPECT_EQ(require_readable(database, "mc2.db", kGoodSteps, 1).error().code, ErrorCode::NotFound);
}

} // namespace
} // namespace mc2::store::migrations_test
