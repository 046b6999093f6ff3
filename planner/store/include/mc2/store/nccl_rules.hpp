#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// NCCL's names of collectives, in the order of its numbers.
inline constexpr std::array<std::string_view, 5> kNcclFunctions{"broadcast", "reduce", "allgather", "reducescatter",
                                                                "allreduce"};
inline constexpr std::array<std::string_view, 7> kNcclAlgorithms{
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
inline constexpr std::array<std::string_view, 3> kNcclProtocols{"ll", "ll128", "simple"};

/// What NCCL is told of messages, in the words of its tuner interface. -1: any, or left to NCCL.
struct NcclRule {
  int function = 0;           ///< of kNcclFunctions
  std::int64_t min_bytes = 0; ///< of the full array
  std::int64_t max_bytes = 0;
  int algorithm = -1; ///< of kNcclAlgorithms
  int protocol = -1;  ///< of kNcclProtocols
  int channels = -1;
  int nodes = -1;
  int ranks = -1;
  int grouped_ops = -1;
  int has_registered_buffers = -1;
  bool operator==(const NcclRule&) const = default;
};

/// The messages of a plan's blocks with the channels that it was tuned with: those of an NCCL variant that says so, on
/// one node. Empty for every other plan.
[[nodiscard]] std::vector<NcclRule> nccl_rules(const planner::Plan& plan);

/// A file of NCCL's example tuner plugin, lines of
/// collective,min bytes,max bytes,algorithm,protocol,channels,nodes,ranks[,grouped operations[,registered buffers]];
/// what begins with # is left out. Its first matching line holds.
/// Errors: Malformed naming the line.
[[nodiscard]] Result<std::vector<NcclRule>> read_nccl_rules(std::string_view text);

} // namespace mc2::store

#pragma GCC visibility pop
