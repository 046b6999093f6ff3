#include <gtest/gtest.h>

#include <map>
#include <string>

#include "mc2/executor/processes.hpp"

namespace mc2::executor::launched_process_test {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<LaunchedProcess>> launched(const Variables& variables) {
  return launched_process([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kTorchrun{{"RANK", "1"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "localhost"},
                          {"MASTER_PORT", "29500"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST(LaunchedProcess, IsNothingWithoutALauncher) {
  EXPECT_FALSE(launched({}).value().has_value());
  EXPECT_FALSE(launched({{"RANK", "3"}}).value().has_value()) << "set by hand for something else";
}

TEST(LaunchedProcess, ReadsWhatTorchrunSets) {
  const auto found = launched(kTorchrun).value();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->world_size, 4);
  EXPECT_EQ(found->place.rank, 1);
}

TEST(LaunchedProcess, ReadsWhatMpirunSets) {
  const auto found = launched({{"OMPI_COMM_WORLD_RANK", "0"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                               {"PMIX_NAMESPACE", "12345@0"}})
                         .value();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->world_size, 2);
  EXPECT_EQ(found->place.rank, 0);
}

TEST(LaunchedProcess, RanksOfAJobShareAKeyAndJobsDoNot) {
  const std::string key = launched(kTorchrun).value()->place.key;
  EXPECT_FALSE(key.empty());
  EXPECT_EQ(launched(with(with(kTorchrun, "RANK", "2"), "LOCAL_RANK", "2")).value()->place.key, key);
  EXPECT_NE(launched(with(kTorchrun, "MASTER_PORT", "29501")).value()->place.key, key);
  EXPECT_NE(launched(with(kTorchrun, "TORCHELASTIC_RESTART_COUNT", "1")).value()->place.key, key);
}

TEST(LaunchedProcess, NamesAVariableThatIsWrong) {
  const auto refused = [](const Variables& variables) { return launched(variables).error().text(); };
  EXPECT_EQ(refused(with(kTorchrun, "RANK", "4")), "RANK: is '4'; legal: 0 to 3");
  EXPECT_EQ(refused(with(kTorchrun, "RANK", "")), "RANK: is ''; legal: 0 to 3");
  EXPECT_EQ(refused(with(kTorchrun, "WORLD_SIZE", "two")), "WORLD_SIZE: is 'two'; legal: 1 to 1048576");
  Variables half = kTorchrun;
  half.erase("LOCAL_RANK");
  EXPECT_EQ(refused(half), "LOCAL_RANK: is not set, though the launcher's other variables are");
}

TEST(LaunchedProcess, RefusesRanksOfSeveralMachines) {
  const auto refused = launched(with(kTorchrun, "LOCAL_WORLD_SIZE", "2"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  EXPECT_EQ(refused.error().text(),
            "LOCAL_WORLD_SIZE: 2 of 4 ranks are on this machine; all must be, in the launcher's order");
}

} // namespace
} // namespace mc2::executor::launched_process_test
