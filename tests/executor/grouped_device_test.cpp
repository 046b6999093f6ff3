#include <gtest/gtest.h>
#include <omp.h>

#include <thread>
#include <vector>

#include "lanes/compute_device.hpp"
#include "mc2/executor/verify.hpp"
#include "support/oracle.hpp"

namespace mc2::executor::lanes::grouped_device_test {
namespace {

using planner::OpKind;
using planner::OpSpec;

/// The product of all rows by one rank's lane, computed with this number of threads of the matmul library.
std::vector<std::byte> made_with(int thread_count, const OpSpec& op, const RankBuffers& rank, std::int64_t made_rows) {
  std::vector<std::byte> made(static_cast<std::size_t>(made_rows * op.n * planner::size_bytes(op.dtype)));
  std::thread lane([&] { // omp_set_num_threads() holds for the calling thread only
    omp_set_num_threads(thread_count);
    const auto device = make_grouped_device(op, 0, rank);
    MatmulWork work;
    for (const std::int64_t first : {op.m / 2, std::int64_t{0}}) { // the second half first
      const std::int64_t a_row = planner::traits_of(op.kind).sums() ? first * op.experts->top_k : first;
      work.runs.push_back({.a = rank.a.data() + a_row * op.k * planner::size_bytes(op.dtype),
                           .product = made.data() + made_rows / op.m * first * op.n * planner::size_bytes(op.dtype),
                           .shape = {op.m / 2, 0, op.n},
                           .first_row = first});
    }
    RunControl control(2);
    device->multiply(work, Clock::now(), control);
  });
  lane.join();
  return made;
}

// The device multiplies up to 256 rows in a call; several threads gather the rows of A and put down the product. Tokens
// choose the same expert once, twice or three times.
TEST(GroupedDevice, MakesTheSameHoweverManyThreadsItHas) {
  for (const OpKind kind : {OpKind::GroupedMatmulAllReduce, OpKind::AllGatherGroupedMatmul}) {
    OpSpec op{kind, 600, 280, 96, planner::DType::F32, 2};
    op.experts = {.count = 3, .top_k = 3};
    const RandomProblem problem(op, 3);
    RankBuffers rank = problem.buffers().front();
    std::vector<std::byte> all_rows; // A of all ranks, for the kind that gathers it
    for (const RankBuffers& one : problem.buffers()) all_rows.insert(all_rows.end(), one.a.begin(), one.a.end());
    if (!planner::traits_of(kind).sums()) rank.a = all_rows;
    std::vector<std::int64_t> experts(static_cast<std::size_t>(op.m * op.experts->top_k));
    for (std::size_t i = 0; i < experts.size(); ++i) experts[i] = i % 7 == 0 ? 2 : static_cast<std::int64_t>(i / 900);
    rank.choices.experts = std::as_bytes(std::span(experts));
    const std::int64_t made_rows = planner::traits_of(kind).sums() ? op.m : op.m * op.experts->top_k;
    const auto alone = made_with(1, op, rank, made_rows);
    const auto together = made_with(3, op, rank, made_rows);
    for (std::int64_t i = 0; i < made_rows * op.n; ++i) { // the library may add in another order
      const double made = testing::element(op.dtype, alone, i);
      ASSERT_NEAR(testing::element(op.dtype, together, i), made, 1e-3) << to_string(kind) << ", element " << i;
      ASSERT_NE(made, 0) << "was not written";
    }
  }
}

} // namespace
} // namespace mc2::executor::lanes::grouped_device_test
