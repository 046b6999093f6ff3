#include "mc2/planner/collective.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>

#include "support/topologies.hpp"

namespace mc2::planner::collective_test {
namespace {

using examples::topology;

double us_of(const Topology& topology, Collective collective, double bytes, int ranks, Algorithm algorithm) {
  const auto times = collective_times(topology, {collective, bytes, ranks});
  for (const CollectiveTime& time : times.value())
    if (time.algorithm == algorithm) return time.us;
  return std::numeric_limits<double>::quiet_NaN();
}

/// What a library pays for sending a transfer in k parts: the least of (k - 1) hops + transfer / k over k >= 1. The
/// least is at k = 1, the whole transfer again, where a hop takes longer than the transfer.
double pieces(double latency_us, double transfer_us) {
  return transfer_us <= latency_us ? transfer_us : 2 * std::sqrt(latency_us * transfer_us) - latency_us;
}

// Constants of topology(): 0.001 us/B inside a node and 0.005 us/B for a whole node's traffic between nodes; alpha is 1
// us inside and 5 us between nodes; a launch takes 10 us.

TEST(Collective, RingInsideANodePaysEveryHop) {
  // 4 ranks, 4000 B: 2 * 3 hops, each of 1 us + 1000 B * 0.001 = 2 us, which makes 12 us; then the launch.
  EXPECT_NEAR(us_of(topology(), Collective::AllReduce, 4000, 4, Algorithm::Ring), 10 + 12 + pieces(1, 6), 1e-9);
  // Reduce-scatter has half of these hops.
  EXPECT_NEAR(us_of(topology(), Collective::ReduceScatter, 4000, 4, Algorithm::Ring), 10 + 6 + pieces(1, 3), 1e-9);
}

TEST(Collective, RingOverNodesCrossesEveryFourthHop) {
  // 16 ranks have 30 hops, of which ceil(30 / 4) = 8 lead to another node: 22 * 1 + 8 * 5 = 62 us. Each hop moves 1000
  // B at the rate of the slower link, 0.005 us/B: 30 * 5 = 150 us.
  EXPECT_NEAR(us_of(topology(), Collective::AllReduce, 16000, 16, Algorithm::Ring), 10 + 62 + 150 + pieces(5, 150),
              1e-9);
}

TEST(Collective, TreeIsPipelined) {
  // 4 ranks of a node, 4 stages of 4 MB (2 trees, 2 rails, 1 MB messages). The first stage has 6 hops of 1 us + 1 MB *
  // 0.001: 6 * 1001. Each of the 3 further stages adds 6 * 1000.
  EXPECT_NEAR(us_of(topology(), Collective::AllReduce, 16e6, 4, Algorithm::Tree),
              10 + 6 * 1001 + 3 * 6000 + pieces(1, 24'000), 1e-6);
  // 16 ranks, one stage of 4 MB: the 6 hops inside a node as above, then 2 * log2(4) = 4 hops between nodes, each of 5
  // us + 4 MB * 0.005.
  EXPECT_NEAR(us_of(topology(), Collective::AllReduce, 4e6, 16, Algorithm::Tree),
              10 + 6 * 1001 + 4 * 20'005 + pieces(5, 86'000), 1e-6);
}

TEST(Collective, DirectUsesBothLinksAtOnce) {
  // 16 ranks, 16 kB: each of the 4 ranks of a node sends 1000 B to each of 12 peers in other nodes at 0.005 us/B: 12 *
  // 20 + 5 = 245 us. That is longer than sending to the 3 peers inside takes.
  EXPECT_NEAR(us_of(topology(), Collective::AllToAll, 16000, 16, Algorithm::Direct), 10 + 245 + pieces(5, 240), 1e-9);
}

TEST(Collective, SmallMessagesAreLimitedByTheMessageRate) {
  // 1 B to each of 16 ranks: the host thread of a rank posts 12 messages of 0.5 us, after 5 us of latency.
  EXPECT_NEAR(us_of(topology(), Collective::AllToAll, 16, 16, Algorithm::Direct), 10 + 5 + 6 + pieces(5, 6), 1e-9);
  Topology device = topology();
  device.transport = Transport::DeviceInitiated;
  // Two rails, each of 0.5 us per message, serve 4 ranks: that is 1 us per message of a rank.
  EXPECT_NEAR(us_of(device, Collective::AllToAll, 16, 16, Algorithm::Direct), 10 + 5 + 12 + pieces(5, 12), 1e-9);
  device.rails_per_node = 8;
  EXPECT_NEAR(us_of(device, Collective::AllToAll, 16, 16, Algorithm::Direct), 10 + 5 + 3 + pieces(5, 3), 1e-9);
}

TEST(Collective, HierarchyNeedsFewerMessages) {
  // 1 B to each of 16 ranks. Inside the node: 1 us of latency and 3 * 0.004 us for the bytes. Then 3 messages to the
  // ranks of the same rail: 5 + 3 * 0.5.
  EXPECT_NEAR(us_of(topology(), Collective::AllToAll, 16, 16, Algorithm::Hierarchical),
              10 + 1 + 0.012 + 5 + 1.5 + pieces(5, 1.512), 1e-9);
}

TEST(Collective, HierarchySumsItsPhasesWhileThereIsOnePiece) {
  // 16 kB in one piece. Inside a node: 2 * 3 hops of 1 us + 4000 B * 0.001 = 30. Across a ring of 4 nodes: 6 hops of 5
  // us + 4000 B * 0.005 = 150. A tree across the nodes would take 4 * (5 + 80) = 340.
  EXPECT_NEAR(us_of(topology(), Collective::AllReduce, 16000, 16, Algorithm::Hierarchical),
              10 + 30 + 150 + pieces(5, 144), 1e-9);
}

TEST(Collective, SwitchReadsAllAndSendsOneShare) {
  Topology with_switch = topology();
  with_switch.protocols.push_back({"switch", 0, {7, 1, 0}, {5, 0.1, 0}, true});
  with_switch.algorithms[Collective::AllReduce].push_back(Algorithm::SwitchTree);
  // Inside one node: 7 us of alpha, and 4000 B * (1 + 1 / 4) * 0.001.
  EXPECT_NEAR(us_of(with_switch, Collective::AllReduce, 4000, 4, Algorithm::SwitchTree), 7 + 5 + pieces(7, 5), 1e-9);
}

TEST(Collective, AllAlgorithmsAgreeOnTwoRanks) {
  Topology pairs = topology();
  for (const int node_size : {1, 2}) {
    pairs.ranks_per_node = node_size;
    pairs.protocols[0].inter.message_us = 0;
    for (const double bytes : {1.0, 1e3, 3.3e6, 1e9}) {
      // On two ranks every algorithm is two exchanges of half the message.
      const double alpha = node_size == 1 ? 5 : 1, us_per_byte = node_size == 1 ? 0.005 : 0.001;
      const double transfer_us = bytes * us_per_byte;
      const double expected = 10 + 2 * alpha + transfer_us + pieces(alpha, transfer_us);
      for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::Tree, Algorithm::Direct, Algorithm::Hierarchical})
        EXPECT_NEAR(us_of(pairs, Collective::AllReduce, bytes, 2, algorithm), expected, 1e-9 * expected)
            << to_string(algorithm) << " " << bytes << " " << node_size;
    }
  }
}

TEST(Collective, IntervalFollowsFromWhatIsNotKnown) {
  Topology vague = topology();
  vague.relative_interval = 0.03;
  const auto interval = [&](double bytes, int ranks) {
    return collective_interval(vague, {Collective::AllReduce, bytes, ranks}, Algorithm::Ring).value();
  };
  EXPECT_NEAR(interval(4000, 4), 0.03, 1e-12);
  // One node: the uncertain launch is 10 us of the 22 us and the cost of parts. No hop leads to another node.
  vague.uncertainty = {.launch_us = 1, .inter_alpha_us = 1};
  EXPECT_NEAR(interval(4000, 4), std::hypot(0.03, 10 / (22 + pieces(1, 6))), 1e-9);
  // 16 ranks, no bytes: the uncertain alpha is 8 hops of 5 us of the 10 + 22 + 40 us. The 15 us that messages take are
  // sent in parts, whose cost depends on alpha too.
  vague.uncertainty = {.inter_alpha_us = 1};
  EXPECT_NEAR(interval(0, 16), std::hypot(0.03, (40 + pieces(10, 15) - pieces(5, 15)) / (72 + 15 + pieces(5, 15))),
              1e-9);
  // Bandwidths matter for large messages only, and only the bandwidth of the limiting link does.
  vague.uncertainty = {.intra_gb_per_s = 0.5};
  EXPECT_NEAR(interval(1e9, 16), 0.03, 1e-9);
  vague.uncertainty = {.inter_gb_per_s = 0.5};
  EXPECT_NEAR(interval(1e12, 16), std::hypot(0.03, 0.5), 1e-3);
  EXPECT_EQ(collective_interval(vague, {Collective::AllToAll, 8, 4}, Algorithm::Ring).error().code,
            ErrorCode::Infeasible);
}

TEST(Collective, FastestProtocolIsUsedAtEachSize) {
  Topology two = topology();
  two.protocols = {{"quick", 1, {1, 0.1, 0}, {1, 0.1, 0}, false}, {"broad", 10, {2, 10, 0}, {2, 10, 0}, false}};
  EXPECT_EQ(best_collective_time(two, {Collective::AllReduce, 8, 4}).value().protocol, "quick");
  EXPECT_EQ(best_collective_time(two, {Collective::AllReduce, 1e8, 4}).value().protocol, "broad");
}

TEST(Collective, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::AllReduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::AllGather, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::ReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::AllToAll, 2), 0.5);
}

TEST(Collective, EveryOperatorKindHasOne) {
  EXPECT_EQ(collective_of(OpKind::MatmulAllToAll), Collective::AllToAll);
  EXPECT_EQ(collective_of(OpKind::AllToAllMatmul), Collective::AllToAll);
  for (const auto& traits : op_registry())
    EXPECT_EQ(sums_over_ranks(traits.kind), traits.name.find("reduce") != std::string_view::npos) << traits.name;
}

TEST(Collective, RefusesWhatTheClusterDoesNotHave) {
  const auto refused = [](const CollectiveSpec& spec) {
    const auto times = collective_times(topology(), spec);
    return times ? std::string() : times.error().field;
  };
  EXPECT_EQ(refused({Collective::AllReduce, 8, 1}), "ranks");
  EXPECT_EQ(refused({Collective::AllReduce, 8, 17}), "ranks"); // only 16 exist
  EXPECT_EQ(refused({Collective::AllReduce, 8, 6}), "ranks");  // one and a half nodes
  EXPECT_EQ(refused({Collective::AllReduce, 8, 3}), "");       // part of one node
  EXPECT_EQ(refused({Collective::AllReduce, -1, 4}), "bytes");
  EXPECT_EQ(refused({Collective::AllReduce, std::nan(""), 4}), "bytes");
  EXPECT_EQ(refused({Collective::AllReduce, 1e15, 4}), "bytes");
  Topology large = topology();
  large.node_count = kMaxNodeCount;
  EXPECT_TRUE(collective_times(large, {Collective::AllReduce, 8, kMaxWorldSize}).ok());
  EXPECT_FALSE(collective_times(large, {Collective::AllReduce, 8, kMaxWorldSize + 4}).ok());
}

TEST(Collective, RefusesABadTopologyAndAMissingCollective) {
  Topology bad = topology();
  bad.node_count = 0;
  EXPECT_EQ(collective_times(bad, {Collective::AllReduce, 8, 4}).error().field, "topology.node_count");
  Topology without = topology();
  without.algorithms.erase(Collective::AllToAll);
  const auto times = collective_times(without, {Collective::AllToAll, 8, 4});
  EXPECT_EQ(times.error().code, ErrorCode::Infeasible);
  EXPECT_EQ(best_collective_time(without, {Collective::AllToAll, 8, 4}).error().code, ErrorCode::Infeasible);
}

/// A random topology in which every number that can be set is set, and which has a switch.
Topology any_topology() {
  const auto number = [](double low, double high) {
    return low * std::pow(high / low, *rc::gen::inRange(0, 1001) / 1000.0);
  };
  Topology result = topology();
  result.ranks_per_node = *rc::gen::inRange(1, 9);
  result.rails_per_node = *rc::gen::inRange(1, 9);
  result.node_count = 128;
  result.transport = *rc::gen::element(Transport::HostProxy, Transport::DeviceInitiated);
  result.chunk_bytes = number(1, 1e9);
  result.protocols.clear();
  for (const bool in_switch : {false, false, true})
    result.protocols.push_back({"p" + std::to_string(result.protocols.size()),
                                number(0.1, 100),
                                {number(0.1, 50), number(0.1, 1000), number(0.001, 10)},
                                {number(0.1, 50), number(0.1, 1000), number(0.001, 10)},
                                in_switch});
  result.algorithms[Collective::AllReduce].push_back(Algorithm::SwitchTree);
  return result;
}

CollectiveSpec any_spec(const Topology& topology) {
  CollectiveSpec spec;
  spec.collective =
      *rc::gen::element(Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather, Collective::AllToAll);
  spec.message_bytes = std::exp2(*rc::gen::inRange(0, 41));
  spec.world_size = topology.ranks_per_node * *rc::gen::inRange(2, 129);
  return spec;
}

/// Checks that no algorithm becomes slower, except by rounding.
void require_no_slower(const Topology& slow, const CollectiveSpec& slow_spec, const Topology& fast,
                       const CollectiveSpec& fast_spec) {
  const auto before = collective_times(slow, slow_spec).value(), after = collective_times(fast, fast_spec).value();
  for (std::size_t i = 0; i < before.size(); ++i) RC_ASSERT(after[i].us <= before[i].us * (1 + 1e-12));
}

TEST(Collective, MonotoneInEveryLinkConstant) {
  EXPECT_TRUE(rc::check("better links never cost time", [] {
    const Topology slow = any_topology();
    const CollectiveSpec spec = any_spec(slow);
    Topology fast = slow;
    Protocol& protocol = fast.protocols[static_cast<std::size_t>(*rc::gen::inRange(0, 3))];
    const double factor = *rc::gen::inRange(1, 100) / 100.0;
    switch (*rc::gen::inRange(0, 7)) {
      case 0: protocol.launch_us *= factor; break;
      case 1: protocol.intra.alpha_us *= factor; break;
      case 2: protocol.inter.alpha_us *= factor; break;
      case 3: protocol.intra.gb_per_s /= factor; break;
      case 4: protocol.inter.gb_per_s /= factor; break;
      case 5: protocol.intra.message_us *= factor; break;
      default: protocol.inter.message_us *= factor;
    }
    require_no_slower(slow, spec, fast, spec);
  }));
}

TEST(Collective, MonotoneInBytesAndPositive) {
  EXPECT_TRUE(rc::check("more bytes never take less time", [] {
    const Topology topology = any_topology();
    const CollectiveSpec large = any_spec(topology);
    CollectiveSpec small = large;
    small.message_bytes *= *rc::gen::inRange(0, 1000) / 1000.0;
    require_no_slower(topology, large, topology, small);
    for (const CollectiveTime& time : collective_times(topology, small).value())
      RC_ASSERT(time.us > 0 && std::isfinite(time.us));
  }));
}

TEST(Collective, NothingBeatsTheRailsOfANode) {
  EXPECT_TRUE(rc::check("bytes that must leave a node take their time", [] {
    const Topology topology = any_topology();
    CollectiveSpec spec = any_spec(topology);
    spec.collective = Collective::AllReduce;
    double most_gb_per_s = 0;
    for (const auto& protocol : topology.protocols) most_gb_per_s = std::max(most_gb_per_s, protocol.inter.gb_per_s);
    // Of N nodes, the busiest has to send at least (N - 1) / N of the reduced array twice.
    const double nodes = static_cast<double>(spec.world_size) / topology.ranks_per_node;
    const double least_us =
        2 * (nodes - 1) / nodes * spec.message_bytes / (most_gb_per_s * topology.rails_per_node) * 1e-3;
    RC_ASSERT(best_collective_time(topology, spec).value().us >= least_us * (1 - 1e-12));
  }));
}

} // namespace
} // namespace mc2::planner::collective_test
