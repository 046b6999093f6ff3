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

TEST(LaunchedProcess, SaysWhereRanksOfSeveralHostsMeet) {
  const Variables two_hosts =
      with(with(with(kTorchrun, "LOCAL_WORLD_SIZE", "2"), "RANK", "3"), "MASTER_ADDR", "host-a");
  const ProcessPlace place = launched(two_hosts).value()->place;
  EXPECT_TRUE(place.spans_hosts());
  EXPECT_EQ(place.address, "host-a:29501");
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_size, 2);
  EXPECT_EQ(place.device(), 1);
  EXPECT_EQ(launched(with(two_hosts, "MC2_RANK_ZERO", "10.0.0.1:7")).value()->place.address, "10.0.0.1:7");
  EXPECT_EQ(launched(with(two_hosts, "MASTER_ADDR", "fe80::1")).value()->place.address, "[fe80::1]:29501");
  const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  EXPECT_EQ(launched(mpirun).error().text(),
            "MC2_RANK_ZERO: is not set, and ranks are on several hosts; set it to host:port of rank 0 on every rank");
  EXPECT_EQ(launched(with(mpirun, "MC2_RANK_ZERO", "a:1")).value()->place.address, "a:1");
  EXPECT_FALSE(launched(kTorchrun).value()->place.spans_hosts());
}

TEST(LaunchedProcess, RefusesAnotherOrderOnOneHost) {
  EXPECT_EQ(launched(with(kTorchrun, "LOCAL_RANK", "2")).error().code, ErrorCode::Unsupported);
}

} // namespace
} // namespace mc2::executor::launched_process_test
