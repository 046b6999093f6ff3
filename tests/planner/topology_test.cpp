#include "mc2/planner/topology.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "support/topologies.hpp"

namespace mc2::planner::topology_test {
namespace {

using examples::topology;

TEST(Topology, ExampleIsLegal) { EXPECT_TRUE(topology().validate().ok()); }

struct Refusal {
  const char* field;
  std::function<void(Topology&)> spoil;
};

TEST(Topology, RefusesEachFieldOutsideItsRange) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  const Refusal refusals[] = {
      {"name", [](Topology& t) { t.name.clear(); }},
      {"node_count", [](Topology& t) { t.node_count = 0; }},
      {"node_count", [](Topology& t) { t.node_count = 1'000'000'000; }},
      {"ranks_per_node", [](Topology& t) { t.ranks_per_node = -1; }},
      {"rails_per_node", [](Topology& t) { t.rails_per_node = 0; }},
      {"chunk_bytes", [](Topology& t) { t.chunk_bytes = 0; }},
      {"chunk_bytes", [](Topology& t) { t.chunk_bytes = kNan; }},
      {"chunk_bytes", [](Topology& t) { t.chunk_bytes = 1e-300; }},
      {"protocols", [](Topology& t) { t.protocols.clear(); }},
      {"protocols", [](Topology& t) { t.protocols.resize(17, t.protocols.front()); }},
      {"protocols[0].name", [](Topology& t) { t.protocols[0].name.clear(); }},
      {"protocols[1].name", [](Topology& t) { t.protocols.push_back(t.protocols.front()); }},
      {"protocols[0].launch_us", [](Topology& t) { t.protocols[0].launch_us = -1; }},
      {"protocols[0].intra.alpha_us", [](Topology& t) { t.protocols[0].intra.alpha_us = kNan; }},
      {"protocols[0].intra.gb_per_s", [](Topology& t) { t.protocols[0].intra.gb_per_s = 0; }},
      {"protocols[0].inter.gb_per_s", [](Topology& t) { t.protocols[0].inter.gb_per_s = kInf; }},
      {"protocols[0].inter.gb_per_s", [](Topology& t) { t.protocols[0].inter.gb_per_s = -1; }},
      {"protocols[0].inter.message_us", [](Topology& t) { t.protocols[0].inter.message_us = 1e9; }},
      {"algorithms", [](Topology& t) { t.algorithms.clear(); }},
      {"algorithms.all_reduce", [](Topology& t) { t.algorithms[Collective::AllReduce].clear(); }},
      {"algorithms.all_reduce", [](Topology& t) { t.algorithms[Collective::AllReduce].push_back(Algorithm::Ring); }},
      {"algorithms.all_to_all", [](Topology& t) { t.algorithms[Collective::AllToAll].push_back(Algorithm::Ring); }},
      {"algorithms.all_gather", [](Topology& t) { t.algorithms[Collective::AllGather].push_back(Algorithm::Tree); }},
      {"algorithms.all_reduce",
       [](Topology& t) { t.algorithms[Collective::AllReduce].push_back(Algorithm::SwitchTree); }},
      {"compute.peak_tflop_per_s_16bit", [](Topology& t) { t.compute.peak_tflop_per_s_16bit = 0; }},
      {"compute.peak_tflop_per_s_f32", [](Topology& t) { t.compute.peak_tflop_per_s_f32 = kNan; }},
      {"compute.efficiency", [](Topology& t) { t.compute.efficiency = 1.1; }},
      {"compute.efficiency", [](Topology& t) { t.compute.efficiency = 1e-300; }},
      {"compute.launch_us", [](Topology& t) { t.compute.launch_us = -1; }},
      {"compute_slowdown", [](Topology& t) { t.compute_slowdown = 0.9; }},
      {"communication_slowdown", [](Topology& t) { t.communication_slowdown = kInf; }},
      {"uncertainty.launch_us", [](Topology& t) { t.uncertainty.launch_us = -0.1; }},
      {"uncertainty.inter_gb_per_s", [](Topology& t) { t.uncertainty.inter_gb_per_s = 101; }},
      {"relative_interval", [](Topology& t) { t.relative_interval = -0.1; }}};
  for (const auto& refusal : refusals) {
    Topology spoilt = topology();
    refusal.spoil(spoilt);
    const auto verdict = spoilt.validate();
    ASSERT_FALSE(verdict.ok()) << refusal.field;
    EXPECT_EQ(verdict.error().code, ErrorCode::InvalidSpec);
    EXPECT_EQ(verdict.error().field, refusal.field);
    EXPECT_FALSE(verdict.error().message.empty());
  }
}

TEST(Topology, EveryNameReadsBack) {
  for (const auto algorithm :
       {Algorithm::Ring, Algorithm::Tree, Algorithm::Direct, Algorithm::Hierarchical, Algorithm::SwitchTree})
    EXPECT_EQ(parse_algorithm(to_string(algorithm)).value(), algorithm);
  for (const auto transport : {Transport::HostProxy, Transport::DeviceInitiated})
    EXPECT_EQ(parse_transport(to_string(transport)).value(), transport);
  for (const auto collective :
       {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather, Collective::AllToAll})
    EXPECT_EQ(parse_collective(to_string(collective)).value(), collective);
  EXPECT_EQ(parse_algorithm("rings").error().code, ErrorCode::UnknownName);
  EXPECT_EQ(parse_transport("").error().code, ErrorCode::UnknownName);
  EXPECT_EQ(parse_collective("broadcast").error().code, ErrorCode::UnknownName);
}

} // namespace
} // namespace mc2::planner::topology_test
