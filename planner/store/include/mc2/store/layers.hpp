#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/store/store.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// Where stores are looked for, weakest first; a later layer overrides an earlier one.
struct LayerPaths {
  std::vector<std::filesystem::path> read_only; ///< system stores; missing files are skipped
  std::filesystem::path writable;               ///< the user's store, or the one named with --store
  bool may_be_read_only = false;                ///< opens `writable` to be read where it may not be written
};

/// Several stores seen as one: reads ask the writable layer first, then the read-only ones; writes go to the
/// writable. A damaged document in one layer is a miss there, with its reason, and the next layer is asked.
class Layers {
 public:
  /// Errors: as Store::open, for the first layer. A read-only layer that cannot be opened is skipped with a note.
  [[nodiscard]] static Result<Layers> open(const LayerPaths& paths);

  /// The layer that is written to; its writes fail with ReadOnly where it may only be read.
  [[nodiscard]] Store& writable() noexcept { return stores_.front(); }
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// First match. Errors: NotFound with each layer's reason, joined into one line; Corrupt and the like when a layer
  /// could not be read.
  [[nodiscard]] Result<StoredPlan> find_plan(const PlanKey& key) const;
  /// As above; InvalidSpec as Store::find_plan.
  [[nodiscard]] Result<StoredPlan> find_plan(const std::string& digest_prefix) const;
  /// As above.
  [[nodiscard]] Result<planner::CostModel> find_model(const planner::OpSpec& op,
                                                      const planner::Fingerprint& fingerprint) const;
  /// Of every layer that can be read, stronger layers first. As Store::list_models.
  [[nodiscard]] std::vector<planner::CostModel> list_models(const planner::OpSpec& op,
                                                            const planner::Fingerprint& fingerprint) const;
  /// As Store::has_run, of any store that can be read.
  [[nodiscard]] bool has_run(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) const;
  /// Of every layer that can be read, stronger layers first. As Store::speed_record.
  [[nodiscard]] planner::SpeedRecord speed_record(const planner::OpSpec& op,
                                                  const planner::Fingerprint& fingerprint) const;
  /// Of the plans for a machine, of every layer that can be read, stronger layers first; several may be alike.
  [[nodiscard]] std::vector<PlanKey> list_plan_keys(const std::string& fingerprint_digest) const;
  /// Of every layer that can be read, stronger layers first. As Store::list_profiles.
  [[nodiscard]] std::vector<planner::Profile> list_profiles(const std::map<std::string, std::string>& fields) const;
  /// Of every layer that can be read, the strongest last. As store::list_measured_cuts of the writable one.
  [[nodiscard]] Result<std::vector<Measurement>> list_measured_cuts(const std::string& device,
                                                                    const planner::OpSpec& op) const;

 private:
  std::vector<Store> stores_; ///< writable first
  std::vector<std::string> notes_;
};

} // namespace mc2::store

#pragma GCC visibility pop
