// A world of one process per rank through the C interface.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdio>

#include "embed/capi.hpp"
#include "support/forked.hpp"

namespace mc2::capi_tests {
namespace {

/// The text of what mc2_prepare() refuses. Rank 1 says of A that it is nowhere.
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
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{40}); // a minute is the deadline
}

} // namespace
} // namespace mc2::capi_tests
