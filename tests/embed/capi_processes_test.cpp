// Tests the C interface with one process per rank.
#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cstdio>

#include "embed/capi.hpp"
#include "support/forked.hpp"

namespace mc2::capi_tests {
namespace {

/// The text with which mc2_prepare() refuses on this rank when rank 1 gives no address for A.
std::string refusal(int rank) {
  mc2_communicator_options options = two_ranks();
  const std::string key = "refusal " + std::to_string(getppid());
  options.backend = "cuda";
  options.process_key = key.c_str();
  options.process_rank = rank;
  mc2_communicator* communicator = nullptr;
  if (mc2_communicator_open(&options, &communicator) != MC2_OK) return last_error().message;
  mc2_machine* machine = nullptr;
  mc2_plan* plan = nullptr;
  const mc2_op_spec spec = op();
  if (mc2_communicator_machine(communicator, &machine) != MC2_OK || mc2_plan_uncut(&spec, machine, &plan) != MC2_OK)
    return last_error().message;
  std::vector<std::byte> nothing(16);
  mc2_buffers buffers = MC2_INIT(mc2_buffers);
  buffers.a = rank == 1 ? nullptr : nothing.data();
  buffers.a_bytes = nothing.size();
  mc2_prepared* prepared = nullptr;
  const mc2_status status = mc2_prepare(communicator, plan, &buffers, 1, nullptr, &prepared);
  const std::string text = std::string(last_error().field) + ": " + last_error().message;
  mc2_free_plan(plan);
  mc2_free_machine(machine);
  mc2_free_communicator(communicator);
  return status == MC2_ERROR_INVALID_SPEC ? text : "status " + std::to_string(status) + ", " + text;
}

TEST(CProcesses, WhatOneProcessIsRefusedTheOthersAreTold) {
  const auto has_gpus = testing::run_processes(1, [](int) {
    mc2_communicator_options options = two_ranks();
    options.backend = "cuda";
    mc2_communicator* communicator = nullptr;
    const bool is_open = mc2_communicator_open(&options, &communicator) == MC2_OK;
    mc2_free_communicator(communicator);
    return is_open ? 0 : 1;
  });
  if (has_gpus.front() != 0) GTEST_SKIP() << "this machine has no two CUDA devices";
  const auto start = std::chrono::steady_clock::now();
  const auto codes = testing::run_processes(2, [](int rank) {
    const std::string text = refusal(rank);
    const bool is_right = text.find("buffers.a: is NULL") != std::string::npos &&
                          (rank == 1 || text.find("rank 1: ") != std::string::npos);
    if (!is_right) std::fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
    return is_right ? 0 : 1;
  });
  EXPECT_THAT(codes, ::testing::Each(0));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{40}); // the deadline is a minute
}

mc2_collectives_options collectives_options(int rank, const std::string& key) {
  mc2_collectives_options options = MC2_INIT(mc2_collectives_options);
  options.world_size = 2;
  options.key = key.c_str();
  options.rank = rank;
  options.threads = 2;
  return options;
}

/// The number of the first call that gave a wrong result; 0 if all are right.
int wrong_call(mc2_collectives* collectives, int rank) {
  std::array<float, 4> data{1, 2, 3, 4};
  if (mc2_all_reduce(collectives, data.data(), sizeof data, MC2_F32) != MC2_OK || data[3] != 8) return 1;
  float own = 0;
  if (mc2_reduce_scatter(collectives, data.data(), &own, 4, MC2_F32) != MC2_OK || own != (rank == 0 ? 4 : 8)) return 2;
  std::array<int, 2> all{};
  if (mc2_all_gather(collectives, &rank, sizeof rank, all.data()) != MC2_OK || all[0] != 0 || all[1] != 1) return 3;
  const std::array<int, 2> sent{10 * rank, 10 * rank + 1};
  if (mc2_all_to_all(collectives, sent.data(), all.data(), sizeof all) != MC2_OK || all[0] != rank ||
      all[1] != 10 + rank)
    return 4;
  if (mc2_all_reduce(collectives, nullptr, 4, MC2_F32) != MC2_ERROR_INVALID_SPEC) return 5;
  if (mc2_all_reduce(collectives, data.data(), 3, MC2_F32) != MC2_ERROR_INVALID_SPEC) return 6;
  if (mc2_all_reduce(collectives, data.data(), 4, 99) != MC2_ERROR_UNKNOWN_NAME) return 7;
  if (std::string(last_error().message).find("legal: 1 to 4") == std::string::npos) return 10;
  if (mc2_all_reduce(collectives, data.data(), 4, MC2_F8E4M3) != MC2_ERROR_INVALID_SPEC) return 11;
  if (mc2_all_to_all(collectives, data.data(), data.data(), 8) != MC2_ERROR_INVALID_SPEC) return 8;
  const auto child = testing::run_processes(1, [&](int) {
    const bool is_refused = mc2_all_reduce(collectives, data.data(), 4, MC2_F32) == MC2_ERROR_FORK;
    return mc2_free_collectives(collectives) == MC2_OK && is_refused ? 0 : 1;
  });
  return child.front() == 0 && mc2_all_reduce(collectives, data.data(), 4, MC2_F32) == MC2_OK ? 0 : 9;
}

TEST(CProcesses, CollectivesOfOneMachineNeedNoPlan) {
  const auto codes = testing::run_processes(2, [](int rank) {
    const std::string key = "collectives " + std::to_string(getppid());
    mc2_collectives_options options = collectives_options(rank, key);
    mc2_collectives* collectives = nullptr;
    if (mc2_collectives_open(&options, &collectives) != MC2_OK) return 98;
    const int wrong = wrong_call(collectives, rank);
    return mc2_free_collectives(collectives) == MC2_OK ? wrong : 97;
  });
  EXPECT_THAT(codes, ::testing::Each(0));
  mc2_collectives_options options = collectives_options(2, "x");
  mc2_collectives* collectives = nullptr;
  EXPECT_EQ(mc2_collectives_open(&options, &collectives), MC2_ERROR_INVALID_SPEC);
  EXPECT_STREQ(last_error().field, "rank");
  options.rank = 0;
  options.key = "";
  EXPECT_EQ(mc2_collectives_open(&options, &collectives), MC2_ERROR_INVALID_SPEC);
  EXPECT_STREQ(last_error().field, "key");
  options.key = nullptr;
  EXPECT_EQ(mc2_collectives_open(&options, &collectives), MC2_ERROR_INVALID_SPEC);
  EXPECT_STREQ(last_error().field, "options.key");
  EXPECT_EQ(mc2_all_reduce(nullptr, &options, 4, MC2_F32), MC2_ERROR_HANDLE);
}

} // namespace
} // namespace mc2::capi_tests
