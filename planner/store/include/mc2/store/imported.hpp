#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/store/store.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// Everything that was imported for one machine, under the name that its user gave it.
struct ImportedMachine {
  planner::Fingerprint fingerprint; ///< the fields of all its logs together
  std::vector<planner::Profile> profiles;

  [[nodiscard]] bool is_empty() const noexcept { return profiles.empty(); }

  /// The samples that apply to an operator: matmuls with the same block costs, and all timings of its collective among
  /// as many ranks (communication curves are over bytes, so any operator's do). The rounds of each log stay apart.
  [[nodiscard]] planner::Profile profile_for(const planner::OpSpec& op) const;
};

/// The fingerprint fields that every profile imported for a device has, for Store::list_profiles.
[[nodiscard]] std::map<std::string, std::string> imported_fields(const std::string& device);

/// The error NotFound (device): nothing was imported for the operator on this device.
[[nodiscard]] Error nothing_imported(const planner::OpSpec& op, const std::string& device);

/// Joins all profiles that were imported for a device.
/// @param profiles  as Store::list_profiles(imported_fields(device)) gives them
/// Errors: that of `profiles`; Stale (device) if the fingerprints of two logs contradict each other, naming the field.
[[nodiscard]] Result<ImportedMachine> join_imported(const std::string& device,
                                                    Result<std::vector<planner::Profile>> profiles);

/// The most different cuts in one import.
inline constexpr std::size_t kMostMeasuredCuts = 256;

/// The digests of the documents that an import added.
struct KeptImport {
  std::vector<std::string> samples, measurements;
};

/// Keeps imported samples of a machine, and cuts of the same operator that were run there, as measurements. Samples are
/// not added if all of them are kept already, as when a log is imported twice. Nor are cuts that are kept already.
/// Both are checked before either is kept.
/// @param machine  what was imported for the machine before
/// @param fresh    the imported samples
/// Errors: InvalidSpec (device) for an empty name; Stale (device) if the samples contradict the machine's other logs;
/// InvalidSpec (blocks) for too many cuts, blocks that do not fit the operator, a plan of another operator, a time that
/// is negative or not finite, a relative error outside 0 to 1; NotFound (blocks) for a digest of a plan that is not
/// kept; those of Store::append_samples and Store::add_measurement.
[[nodiscard]] Result<KeptImport> keep_imported(Store& store, const ImportedMachine& machine,
                                               const planner::Profile& fresh, std::span<const planner::CutRuns> cuts,
                                               const std::string& created_at);

/// The cuts of this operator, at any length of its cut axis, that were run on the device of this name, oldest first.
[[nodiscard]] Result<std::vector<Measurement>> list_measured_cuts(const Store& store, const std::string& device,
                                                                  const planner::OpSpec& op);

} // namespace mc2::store

#pragma GCC visibility pop
