#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string_view>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/store/nccl_rules.hpp"

/// What the exporter and the tuner plug-in share about NCCL.
namespace mc2::store {

inline constexpr int kMostNcclChannels = 64;
/// The kernels that NCCL has for one algorithm. Source: table of functions, src/device/generate.py, commit 081eafa.
struct NcclKernels {
  std::array<planner::Collective, 3> collectives; ///< filled up by repetition if there are fewer
  bool has_all_protocols = false;                 ///< false: only simple
};
/// In the order of kNcclAlgorithms.
inline constexpr auto kNcclKernels = [] {
  using enum planner::Collective;
  return std::array<NcclKernels, kNcclAlgorithms.size()>{{{{AllReduce, AllReduce, AllReduce}, true},
                                                          {{AllReduce, ReduceScatter, AllGather}, true},
                                                          {{AllReduce, ReduceScatter, AllGather}},
                                                          {{AllReduce, AllReduce, AllReduce}},
                                                          {{AllReduce, ReduceScatter, AllGather}},
                                                          {{AllReduce, AllReduce, AllReduce}},
                                                          {{ReduceScatter, AllGather, AllGather}}}};
}();

/// NCCL's name of a collective; empty for a collective that NCCL does not tune.
[[nodiscard]] std::string_view nccl_name(planner::Collective collective);

/// The number of thread blocks, each on one SM, by which a variant communicates. 0: the variant does not name it.
[[nodiscard]] int exchanging_sms(const planner::Variant& variant);
/// The channels that an NCCL variant was tuned with. 0: it does not name them, or is not an NCCL variant.
[[nodiscard]] int own_nccl_channels(const planner::Variant& variant);

/// The message sizes of the plan's blocks, in bytes of the full array, ascending and without repetition.
[[nodiscard]] std::set<std::int64_t> message_sizes(const planner::Plan& plan);

} // namespace mc2::store
