#include "backends/host/host_backend.hpp"

#include "conformance/random_cases.hpp"
#include "support/operators.hpp"
#include "support/prepare.hpp"

namespace mc2::testing {
namespace {

using executor::LinkSpec;
using executor::host::host_backend;
using planner::Plan;

BackendUnderTest host_with(const std::string& name, const std::string& link) {
  return {name, &host_backend(), host_options(2, link)};
}

std::vector<BackendUnderTest> hosts() {
  return {host_with("shm", "shm"), host_with("emulated", "100Gbit"), host_with("tcp", "tcp:100Gbit")};
}

MC2_INSTANTIATE_CONFORMANCE(Host, hosts());
MC2_INSTANTIATE_RANDOM_CASES(Host, hosts());
MC2_INSTANTIATE_SUITE(Host, IntermediatesConformance, with_kinds(&is_any, hosts()));

OpSpec spec(std::int64_t m, std::int64_t n, std::int64_t k, int world_size) {
  return {
      .kind = planner::OpKind::MatmulAllReduce, .m = m, .n = n, .k = k, .dtype = DType::F32, .world_size = world_size};
}

std::unique_ptr<Prepared> prepare(const OpSpec& op, const Cut& cut, const RandomProblem& problem,
                                  Communicator& communicator) {
  return testing::prepare_cut(communicator, op, cut, {"direct", {}}, problem.buffers(), {.allow_independent = true})
      .value();
}

TEST(HostBackend, IsInTheRegistryAndUnknownNamesListIt) {
  EXPECT_EQ(executor::find_backend("host").value(), &host_backend());
  const auto unknown = executor::find_backend("abacus");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::UnknownName);
  EXPECT_THAT(unknown.error().message, ::testing::HasSubstr("host"));
  EXPECT_TRUE(host_backend().availability().is_available);
  EXPECT_THAT(host_backend().availability().reason, ::testing::HasSubstr("oneDNN"));
}

TEST(HostBackend, FingerprintNamesTheMachineAndWhatIsEmulated) {
  const auto real = host_backend().fingerprint({});
  for (const char* key :
       {"backend", "compute_threads", "cores", "cpu_model", "isa", "link", "onednn", "pinning", "ranks"}) {
    EXPECT_TRUE(real.fields.contains(key)) << key;
  }
  EXPECT_FALSE(real.is_emulated());
  const auto emulated = host_backend().fingerprint(host_options(2, "2.5Gbit,20us", "90Gflops,10us"));
  EXPECT_EQ(emulated.fields.at("emulation"), "link 2.5Gbit,20us, virtual compute 90Gflops,10us");
  EXPECT_EQ(host_backend().fingerprint(host_options(2, "shm", "90Gflops")).fields.at("emulation"),
            "virtual compute 90Gflops");
}

TEST(HostBackend, RefusesHalfPrecisionAndTooManyRanks) {
  OpSpec half = spec(8, 4, 2, 2);
  half.dtype = DType::F16;
  EXPECT_EQ(host_backend().supports(half).error().code, ErrorCode::Unsupported);
  EXPECT_EQ(host_backend().supports(spec(8, 4, 2, 65)).error().code, ErrorCode::Unsupported);
  CommunicatorOptions options;
  options.world_size = 65;
  EXPECT_EQ(host_backend().open(options).error().code, ErrorCode::Unsupported);
}

TEST(HostBackend, VirtualComputeFollowsItsModelHoweverLateTheLaneWakesUp) {
  // 2 * 500 * 1000 flop per row at 100 Gflop/s take 10 us, and a block takes 50 us more: 30 rows take 350 us, 20 rows
  // 250 us.
  const OpSpec op = spec(70, 500, 1000, 2);
  auto communicator = host_backend().open(host_options(2, "1Gbit,100us", "100Gflops,50us")).value();
  const RandomProblem problem(op, 1);
  const auto prepared = prepare(op, {{30, 20, 20}}, problem, *communicator);
  const auto& record = prepared->run(RunMode::Fused);
  using std::chrono::microseconds;
  for (const auto& rank : record.ranks) {
    EXPECT_EQ(rank.compute[0].start, microseconds(0));
    EXPECT_EQ(rank.compute[0].end, microseconds(350));
    EXPECT_EQ(rank.compute[1].start, microseconds(350));
    EXPECT_EQ(rank.compute[1].end, microseconds(600));
    EXPECT_EQ(rank.compute[2].end, microseconds(850));
  }
}

TEST(HostBackend, EmulatedTransfersStartWhenDataAndLinkAreBothFree) {
  // A row of 500 f32 from the one peer takes 16 us at 1 Gbit/s, and a block takes 100 us more: 30 rows take 580 us, 20
  // rows 420 us.
  const OpSpec op = spec(70, 500, 1000, 2);
  auto communicator = host_backend().open(host_options(2, "1Gbit,100us", "100Gflops,50us")).value();
  const RandomProblem problem(op, 1);
  const auto prepared = prepare(op, {{30, 20, 20}}, problem, *communicator);
  const auto& record = prepared->run(RunMode::Fused);
  using std::chrono::microseconds;
  const microseconds ready[] = {microseconds(350), microseconds(600), microseconds(850)};
  const microseconds transfer[] = {microseconds(580), microseconds(420), microseconds(420)};
  for (const auto& rank : record.ranks) {
    std::chrono::nanoseconds free_at{0};
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(rank.communication[i].start, std::max<std::chrono::nanoseconds>(ready[i], free_at));
      // The time is a lower bound: on a busy machine the reduction may take longer than the link.
      EXPECT_GE(rank.communication[i].end, rank.communication[i].start + transfer[i]);
      free_at = rank.communication[i].end;
    }
  }
  const auto& alone = prepared->run(RunMode::CommunicationOnly);
  EXPECT_EQ(alone.ranks[0].communication[0].start, microseconds(0));
  EXPECT_EQ(alone.ranks[0].communication[1].start, alone.ranks[0].communication[0].end);
}

TEST(HostBackend, EmulatedLinkCarriesOneBlockPerPeer) {
  // A rank of 3 gets blocks of 10 * 100 * 4 bytes from 2 peers at 100 Mbit/s: 2 * 320 us.
  const OpSpec op = spec(10, 100, 1, 3);
  auto options = host_options(2, "100Mbit", "1Gflops");
  options.world_size = 3;
  auto communicator = host_backend().open(options).value();
  const RandomProblem problem(op, 1);
  const auto prepared = prepare(op, {{100}}, problem, *communicator); // with only 10 rows the cut axis is n
  const auto& record = prepared->run(RunMode::CommunicationOnly);
  EXPECT_GE(record.ranks[2].communication[0].end, std::chrono::microseconds(640));
}

TEST(HostBackend, EmulatedLinkCarriesOnlyTheRanksOwnShardOfASum) {
  // The product has 40 rows on 2 ranks. Each rank gets 20 rows of 100 f32 from its peer at 100 Mbit/s: 20 * 400 * 8 /
  // 100 = 640 us.
  OpSpec op = spec(40, 100, 1, 2);
  op.kind = planner::OpKind::MatmulReduceScatter;
  auto communicator = host_backend().open(host_options(2, "100Mbit", "1Gflops")).value();
  const RandomProblem problem(op, 1);
  const auto prepared = prepare(op, {{20}}, problem, *communicator);
  const auto& record = prepared->run(RunMode::CommunicationOnly);
  EXPECT_GE(record.ranks[1].communication[0].end, std::chrono::microseconds(640));
}

TEST(HostBackend, VirtualComputeOfGatheredRowsWaitsForThemAfterTheOwnShard) {
  // Each of 3 ranks has 30 rows of A. A row times 500 x 1000 takes 10 us at 100 Gflop/s, and a block takes 50 us more:
  // the own shard takes 350 us. A block of 20 rows multiplies 2 * 20 rows in 450 us, and gathers 2 pieces of 20 * 1000
  // * 4 bytes in 1280 us at 1 Gbit/s.
  OpSpec op = spec(90, 500, 1000, 3);
  op.kind = planner::OpKind::AllGatherMatmul;
  auto options = host_options(2, "1Gbit", "100Gflops,50us");
  options.world_size = 3;
  auto communicator = host_backend().open(options).value();
  const RandomProblem problem(op, 1);
  const auto prepared = prepare(op, {{20, 10}}, problem, *communicator);
  const auto& record = prepared->run(RunMode::Fused);
  using std::chrono::microseconds;
  for (const auto& rank : record.ranks) {
    EXPECT_EQ(rank.local.start, microseconds(0));
    EXPECT_EQ(rank.local.end, microseconds(350));
    EXPECT_GE(rank.communication[0].end, microseconds(1280));
    EXPECT_EQ(rank.compute[0].start, rank.communication[0].end);
    EXPECT_EQ(rank.compute[0].end, rank.compute[0].start + microseconds(450));
    EXPECT_EQ(rank.compute[1].start,
              std::max<std::chrono::nanoseconds>(rank.compute[0].end, rank.communication[1].end));
    EXPECT_EQ(rank.compute[1].end, rank.compute[1].start + microseconds(250));
  }
}

Plan plan_in_order(const OpSpec& op, const Cut& cut, const char* order) {
  Plan plan;
  plan.op = op;
  plan.cut = cut;
  plan.variant = {"direct", {{"order", order}}};
  return plan;
}

TEST(HostBackend, OrderOfPeersChangesNoBit) {
  for (const auto& traits : planner::op_registry()) {
    for (const char* link : {"shm", "100Gbit", "tcp:100Gbit"}) {
      SCOPED_TRACE(std::string(traits.name) + " over " + link);
      OpSpec op = spec(44, 9, 17, 4);
      op.kind = traits.kind;
      op = completed(op);
      auto communicator = host_backend().open(host_options(4, link)).value();
      const RandomProblem by_rank(op, 5), staggered(op, 5);
      const Cut cut{{4, traits.cut_axis_length(op) - 4}};
      const ExecuteOptions anywhere{.accept_other_fingerprint = true, .prepare = {}};
      const auto run = [&](const RandomProblem& problem, const char* order) {
        executor::prepare(plan_in_order(op, cut, order), problem.buffers(), *communicator, anywhere)
            .value()
            ->run(RunMode::Fused);
      };
      run(by_rank, "rank");
      run(staggered, "staggered");
      for (std::size_t rank = 0; rank < 4; ++rank)
        EXPECT_TRUE(are_same_bytes(by_rank.buffers()[rank].c, staggered.buffers()[rank].c));
      EXPECT_TRUE(executor::verify_result(op, staggered.buffers(), cut, 1).ok());
    }
  }
}

TEST(HostBackend, AChoiceThatBecomesIllegalFailsTheRunNamingIt) {
  for (const auto& traits : planner::op_registry()) {
    if (traits.work != planner::Work::GroupedMatmul) continue;
    OpSpec op = spec(40, 9, 17, 2);
    op.kind = traits.kind;
    op = completed(op);
    auto communicator = host_backend().open({}).value();
    const RandomProblem problem(op, 1);
    std::vector<RankBuffers> buffers(problem.buffers().begin(), problem.buffers().end());
    std::vector<std::int64_t> experts(80);
    for (RankBuffers& rank : buffers) rank.choices.experts = std::as_bytes(std::span(experts));
    const ExecuteOptions anywhere{.accept_other_fingerprint = true, .prepare = {}};
    Plan plan;
    plan.op = op;
    plan.cut = {{traits.cut_axis_length(op)}};
    plan.variant = {"direct", {}};
    const auto prepared = executor::prepare(plan, buffers, *communicator, anywhere).value();
    prepared->run(RunMode::Fused);
    experts[79] = 5;
    try {
      prepared->run(RunMode::Fused);
      FAIL() << "an expert that there is not was multiplied with";
    } catch (const SystemError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("row 39, choice 1 is expert 5; legal: 0 to 4"));
    }
  }
}

TEST(HostBackend, RanksThatAllStartAtRankZeroWaitForItsLink) {
  // 4 ranks exchange pieces of 10 * 100 * 4 bytes, which take 32 ms each at 1 Mbit/s, far longer than any delay in
  // waking a lane. In staggered order a rank takes 3 pieces' time; in the order of ranks the last rank takes 3 + 2 + 1
  // (pull_schedule_test).
  OpSpec op = spec(40, 100, 1, 4);
  op.kind = planner::OpKind::MatmulAllToAll;
  auto options = host_options(2, "1Mbit", "1Gflops");
  options.world_size = 4;
  auto communicator = host_backend().open(options).value();
  const RandomProblem problem(op, 1);
  const ExecuteOptions anywhere{.accept_other_fingerprint = true, .prepare = {}};
  const auto last_end = [&](const char* order) {
    const auto prepared =
        executor::prepare(plan_in_order(op, {{10}}, order), problem.buffers(), *communicator, anywhere).value();
    auto last = std::chrono::nanoseconds(0);
    for (const auto& rank : prepared->run(RunMode::CommunicationOnly).ranks)
      last = std::max(last, rank.communication[0].end);
    return last;
  };
  EXPECT_GE(last_end("staggered"), std::chrono::milliseconds(3 * 32));
  EXPECT_GE(last_end("rank"), std::chrono::milliseconds(6 * 32));
}

TEST(HostBackend, RefusesAnUnknownOrderNamingTheLegalOnes) {
  auto communicator = host_backend().open(host_options(2, "100Mbit", "1Gflops")).value();
  const OpSpec op = spec(8, 8, 8, 2);
  const RandomProblem problem(op, 1);
  const ExecuteOptions anywhere{.accept_other_fingerprint = true, .prepare = {}};
  const auto refused =
      executor::prepare(plan_in_order(op, {{8}}, "random"), problem.buffers(), *communicator, anywhere);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("\"random\"; legal: staggered, rank"));
}

TEST(HostBackend, CollectiveUnderVirtualComputeIsRightForEveryKind) {
  for (const auto& traits : planner::op_registry()) {
    for (const char* link : {"shm", "100Gbit", "tcp:100Gbit"}) {
      OpSpec op = spec(74, 29, 11, 2);
      op.kind = traits.kind;
      op = completed(op);
      auto communicator = host_backend().open(host_options(2, link, "1000Gflops")).value();
      RandomProblem problem(op, 1);
      const std::int64_t rows = traits.cut_axis_length(op);
      const auto prepared = prepare(op, {{7, rows - 7}}, problem, *communicator);
      for (std::uint64_t seed = 2; seed < 4; ++seed) {
        problem.refill_a(seed);
        prepared->run(RunMode::Fused);
        const auto found = executor::verify_exchange(op, prepared->intermediates(), problem.buffers(), {{7, rows - 7}});
        EXPECT_TRUE(found.ok()) << traits.name << ", " << link << ": " << found.error().text();
      }
      if (!traits.has_local_part) {
        EXPECT_NE(element(DType::F32, problem.buffers()[0].c, 0), 0.0);
      }
    }
  }
}

} // namespace
} // namespace mc2::testing
