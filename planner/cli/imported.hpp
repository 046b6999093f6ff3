#pragma once

#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/profile.hpp"

namespace mc2::cli {

/// What was imported of one machine, under the name that `--device` gives it.
struct ImportedMachine {
  planner::Fingerprint fingerprint; ///< every field that any of its logs knew
  std::vector<planner::Profile> profiles;

  [[nodiscard]] bool is_empty() const noexcept { return profiles.empty(); }

  /// Samples that answer for an operator: matmuls of equal block costs and, since communication curves are over
  /// bytes, every timing of its collective among as many ranks. Each log's rounds stay apart.
  [[nodiscard]] planner::Profile profile_for(const planner::OpSpec& op) const;
};

/// Errors: Stale when logs of the machine contradict each other, naming the field.
[[nodiscard]] Result<ImportedMachine> find_imported(const store::Layers& layers, const std::string& device);

/// Both fingerprints' fields. Errors: Stale naming a field that they disagree in.
[[nodiscard]] Result<planner::Fingerprint> joined(const planner::Fingerprint& left,
                                                  const planner::Fingerprint& right);

} // namespace mc2::cli
