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
/// In the order of its numbers.
inline constexpr std::array<std::string_view, 5> kNcclFunctions{"broadcast", "reduce", "allgather", "reducescatter",
                                                                "allreduce"};
inline constexpr std::array<std::string_view, 7> kNcclAlgorithmNames{
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
inline constexpr std::array<std::string_view, 3> kNcclProtocols{"ll", "ll128", "simple"};

/// NCCL's name; empty for a collective that it does not tune.
[[nodiscard]] std::string_view nccl_name(planner::Collective collective);

/// That an NCCL variant was tuned with. 0: it does not say.
[[nodiscard]] int own_nccl_channels(const planner::Variant& variant);

/// Full-array bytes of every block length of the plan, ascending.
[[nodiscard]] std::set<std::int64_t> message_sizes(const planner::Plan& plan);

} // namespace mc2::store
