#pragma once

#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/store/nccl_rules.hpp"

namespace mc2::nccl_tuner {

/// More are not looked at, so that no file makes a communicator's start slow.
inline constexpr std::size_t kMostRules = 4096;

struct Rules {
  std::vector<store::NcclRule> rules;
  std::string source; ///< "rules.csv", or "store.db, plans of NVIDIA H100 80GB HBM3"; empty: nobody named one
};

/// What the environment names: NCCL_TUNER_CONFIG_FILE, in the form of NCCL's example plugin, a plan or a store's
/// export; else MC2_STORE. Of a store's plans those that NCCL variants won on a GPU as this machine's, the best of all
/// and the newest first. Errors: of a file or store that cannot be read, naming it; NotFound where the machine's GPU is
/// not known.
[[nodiscard]] Result<Rules> rules_of_environment();

} // namespace mc2::nccl_tuner
