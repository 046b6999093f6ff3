#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/store/store.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// What was imported of one machine, under the name that its user gave it.
struct ImportedMachine {
  planner::Fingerprint fingerprint; ///< every field that any of its logs knew
  std::vector<planner::Profile> profiles;

  [[nodiscard]] bool is_empty() const noexcept { return profiles.empty(); }

  /// Samples that answer for an operator: matmuls of equal block costs and, since communication curves are over
  /// bytes, every timing of its collective among as many ranks. Each log's rounds stay apart.
  [[nodiscard]] planner::Profile profile_for(const planner::OpSpec& op) const;
};

/// The fields that every profile imported for a device carries, for Store::list_profiles.
[[nodiscard]] std::map<std::string, std::string> imported_fields(const std::string& device);

/// That nothing of the operator was, on a machine of which other things may have been.
[[nodiscard]] Error nothing_imported(const planner::OpSpec& op, const std::string& device);

/// @param profiles  as list_profiles(imported_fields(device)) gives them
/// Errors: Stale (device) when logs of the machine contradict each other, naming what they disagree in.
[[nodiscard]] Result<ImportedMachine> join_imported(const std::string& device, std::vector<planner::Profile> profiles);

/// That one import may bring.
inline constexpr std::size_t kMostMeasuredCuts = 256;

/// Digests of what an import added.
struct KeptImport {
  std::vector<std::string> samples, measurements;
};

/// Adds imported samples to what is known of their machine, unless every one of them is known already: the same log
/// again; and cuts of the operator that were run there, as measurements, those that are not known. Both are checked
/// before either is kept. Errors: Stale (device) when the samples contradict the machine's other logs; InvalidSpec
/// (blocks) for too many cuts, blocks that do not fit the operator or a plan of another one; NotFound (blocks) for a
/// digest of no kept plan; as Store::append_samples and Store::add_measurement.
[[nodiscard]] Result<KeptImport> keep_imported(Store& store, const ImportedMachine& machine,
                                               const planner::Profile& fresh, std::span<const planner::CutRuns> cuts,
                                               const std::string& created_at);

/// Cuts that were run on a machine of this name, oldest first: of this operator at any length of its cut axis.
[[nodiscard]] Result<std::vector<Measurement>> list_measured_cuts(const Store& store, const std::string& device,
                                                                  const planner::OpSpec& op);

} // namespace mc2::store

#pragma GCC visibility pop
