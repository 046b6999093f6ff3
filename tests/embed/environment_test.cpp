#include "mc2/embed/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace mc2::embed::environment_test {
namespace {

using testing::HasSubstr;

Result<Environment> read(const std::map<std::string, std::string>& values) {
  return read_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Environment, WithoutVariablesNothingIsSetAndWarningsAreTold) {
  const auto environment = read({});
  ASSERT_TRUE(environment.ok());
  EXPECT_TRUE(environment.value().store.empty());
  EXPECT_TRUE(environment.value().server_url.empty());
  EXPECT_EQ(environment.value().log, LogLevel::Warning);
  EXPECT_FALSE(environment.value().is_disabled);
}

TEST(Environment, ReadsEveryVariable) {
  const auto environment = read({{"MC2_STORE", "/s/plans.db"},
                                 {"MC2_SERVER", "http://plans:8471"},
                                 {"MC2_SERVER_TOKEN", "secret"},
                                 {"MC2_SERVER_CA", "/ca.pem"},
                                 {"MC2_LOG", "debug"},
                                 {"MC2_DISABLE", "1"},
                                 {"HOME", "/home/u"}});
  ASSERT_TRUE(environment.ok());
  EXPECT_EQ(environment.value().store, "/s/plans.db");
  EXPECT_EQ(environment.value().server_url, "http://plans:8471");
  EXPECT_EQ(environment.value().server_token, "secret");
  EXPECT_EQ(environment.value().server_ca, "/ca.pem");
  EXPECT_EQ(environment.value().log, LogLevel::Debug);
  EXPECT_TRUE(environment.value().is_disabled);
}

TEST(Environment, AnEmptyVariableIsUnset) {
  const auto environment = read({{"MC2_STORE", ""}, {"MC2_LOG", ""}, {"MC2_DISABLE", ""}});
  ASSERT_TRUE(environment.ok());
  EXPECT_EQ(environment.value().log, LogLevel::Warning);
  EXPECT_FALSE(environment.value().is_disabled);
}

TEST(Environment, TheUsersStoreIsWhereTheProgramKeepsIt) {
  EXPECT_EQ(read({{"HOME", "/home/u"}}).value().store, "/home/u/.local/share/mc2/store.db");
  EXPECT_EQ(read({{"HOME", "/home/u"}, {"XDG_DATA_HOME", "/data"}}).value().store, "/data/mc2/store.db");
  EXPECT_EQ(read({{"HOME", "/home/u"}, {"XDG_DATA_HOME", "data"}}).value().store, "/home/u/.local/share/mc2/store.db");
}

TEST(Environment, RefusesWhatItCannotReadAndNamesTheVariable) {
  const auto level = read({{"MC2_LOG", "loud"}});
  ASSERT_FALSE(level.ok());
  EXPECT_EQ(level.error().code, ErrorCode::UnknownName);
  EXPECT_EQ(level.error().field, "MC2_LOG");
  EXPECT_THAT(level.error().message, HasSubstr("debug"));
  const auto disabled = read({{"MC2_DISABLE", "yes"}});
  ASSERT_FALSE(disabled.ok());
  EXPECT_EQ(disabled.error().code, ErrorCode::InvalidSpec);
  EXPECT_EQ(disabled.error().field, "MC2_DISABLE");
}

TEST(Environment, ZeroDoesNotDisable) { EXPECT_FALSE(read({{"MC2_DISABLE", "0"}}).value().is_disabled); }

TEST(StderrLog, TellsLinesUpToItsLevel) {
  const auto log = stderr_log(LogLevel::Info);
  testing::internal::CaptureStderr();
  log(LogLevel::Debug, "event=a");
  log(LogLevel::Info, "event=b");
  log(LogLevel::Error, "event=c");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "mc2: info: event=b\nmc2: error: event=c\n");
  testing::internal::CaptureStderr();
  stderr_log(LogLevel::Off)(LogLevel::Error, "event=d");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

} // namespace
} // namespace mc2::embed::environment_test
