#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// NCCL's names of collectives, algorithms and protocols, each in the order of NCCL's enum values.
inline constexpr std::array<std::string_view, 5> kNcclFunctions{"broadcast", "reduce", "allgather", "reducescatter",
                                                                "allreduce"};
inline constexpr std::array<std::string_view, 7> kNcclAlgorithms{
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
inline constexpr std::array<std::string_view, 3> kNcclProtocols{"ll", "ll128", "simple"};

/// One rule for NCCL's tuner: for which messages it holds and what NCCL uses for them, in the tuner interface's words.
/// -1: any value matches, or NCCL chooses.
struct NcclRule {
  int function = 0;           ///< index in kNcclFunctions
  std::int64_t min_bytes = 0; ///< of the full array
  std::int64_t max_bytes = 0;
  int algorithm = -1; ///< index in kNcclAlgorithms
  int protocol = -1;  ///< index in kNcclProtocols
  int channels = -1;
  int nodes = -1;
  int ranks = -1;
  int grouped_ops = -1;
  int has_registered_buffers = -1;
  bool operator==(const NcclRule&) const = default;
};

/// One rule per message size of a plan's blocks, with the channels that the plan was tuned with, for one node. Empty
/// unless the plan has an NCCL variant that names its channels and a collective that NCCL tunes.
[[nodiscard]] std::vector<NcclRule> nccl_rules(const planner::Plan& plan);

/// Reads a file of NCCL's example tuner plugin. Each line is
/// collective,min bytes,max bytes,algorithm,protocol,channels,nodes,ranks[,grouped operations[,registered buffers]]
/// Empty lines and lines that begin with # are skipped. NCCL uses the first line that matches.
/// Errors: Malformed, naming the line.
[[nodiscard]] Result<std::vector<NcclRule>> read_nccl_rules(std::string_view text);

} // namespace mc2::store

#pragma GCC visibility pop
