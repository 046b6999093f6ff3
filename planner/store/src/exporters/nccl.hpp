#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string_view>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/store/nccl_rules.hpp"

/// NCCL's words, which the exporter and the tuner plug-in share.
namespace mc2::store {

inline constexpr int kMostNcclChannels = 64;
/// What NCCL has kernels of: its table of functions, src/device/generate.py of commit 081eafa.
struct NcclKernels {
  std::array<planner::Collective, 3> collectives; ///< the first again where there are fewer
  bool has_all_protocols = false;
};
/// Of each of kNcclAlgorithms.
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

/// NCCL's name; empty for a collective that it does not tune.
[[nodiscard]] std::string_view nccl_name(planner::Collective collective);

/// Blocks of threads, each on an SM, that a variant exchanges with. 0: it does not say.
[[nodiscard]] int exchanging_sms(const planner::Variant& variant);
/// That an NCCL variant was tuned with. 0: it does not say.
[[nodiscard]] int own_nccl_channels(const planner::Variant& variant);

/// Full-array bytes of every block length of the plan, ascending.
[[nodiscard]] std::set<std::int64_t> message_sizes(const planner::Plan& plan);

} // namespace mc2::store
