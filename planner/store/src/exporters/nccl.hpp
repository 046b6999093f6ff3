#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string_view>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/plan.hpp"

/// NCCL's words, which the exporter and the tuner plug-in share.
namespace mc2::store {

inline constexpr int kMostNcclChannels = 64;
/// What NCCL has kernels of: its table of functions, src/device/generate.py of commit 081eafa.
struct NcclAlgorithm {
  std::string_view name;
  std::array<planner::Collective, 3> collectives; ///< the first again where there are fewer
  bool has_all_protocols = false;
};
/// In the order of its numbers, as the protocols.
inline constexpr auto kNcclAlgorithms = [] {
  using enum planner::Collective;
  return std::array{NcclAlgorithm{"tree", {AllReduce, AllReduce, AllReduce}, true},
                    NcclAlgorithm{"ring", {AllReduce, ReduceScatter, AllGather}, true},
                    NcclAlgorithm{"collnet_direct", {AllReduce, ReduceScatter, AllGather}},
                    NcclAlgorithm{"collnet_chain", {AllReduce, AllReduce, AllReduce}},
                    NcclAlgorithm{"nvls", {AllReduce, ReduceScatter, AllGather}},
                    NcclAlgorithm{"nvls_tree", {AllReduce, AllReduce, AllReduce}},
                    NcclAlgorithm{"pat", {ReduceScatter, AllGather, AllGather}}};
}();
inline constexpr auto kNcclAlgorithmNames = [] {
  std::array<std::string_view, kNcclAlgorithms.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kNcclAlgorithms[i].name;
  return names;
}();
inline constexpr std::array<std::string_view, 3> kNcclProtocols{"ll", "ll128", "simple"};

/// NCCL's name; empty for a collective that it does not tune.
[[nodiscard]] std::string_view nccl_name(planner::Collective collective);

/// That an NCCL variant was tuned with. 0: it does not say.
[[nodiscard]] int own_nccl_channels(const planner::Variant& variant);

/// Full-array bytes of every block length of the plan, ascending.
[[nodiscard]] std::set<std::int64_t> message_sizes(const planner::Plan& plan);

} // namespace mc2::store
