#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/store/store.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// The files of a stack of stores.
struct LayerPaths {
  std::vector<std::filesystem::path> read_only; ///< system stores, weakest first; missing files are skipped
  std::filesystem::path writable;               ///< the user's store or the one of --store; stronger; empty: none
  bool may_be_read_only = false; ///< `writable` is only read if it may not be written, and left out if it is missing
                                 ///< and cannot be made
};

/// Several stores seen as one. A read asks the writable layer first, then the read-only ones, strongest first. Writes
/// go to the writable layer. A damaged document in one layer is a miss, with its reason, and the next layer is asked.
class Layers {
 public:
  /// Opens all layers. A read-only layer that cannot be opened is skipped with a note, as is a writable one that cannot
  /// be made. Without a writable layer the strongest one takes its place. Errors: as Store::open, for the writable
  /// layer; NotFound if there is no layer at all.
  [[nodiscard]] static Result<Layers> open(const LayerPaths& paths);

  /// The layer for writes. Its writes fail with ReadOnly if it was opened read-only.
  [[nodiscard]] Store& writable() noexcept { return stores_.front(); }
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// The plan of the first layer that has one. Errors: the reasons of all layers in one line, with NotFound, or with
  /// the code of the first layer that failed otherwise, e.g. Corrupt.
  [[nodiscard]] Result<StoredPlan> find_plan(const PlanKey& key) const;
  /// As find_plan(key), by digest; also InvalidSpec, as Store::find_plan.
  [[nodiscard]] Result<StoredPlan> find_plan(const std::string& digest_prefix) const;
  /// The model of the first layer that has one. Errors: as find_plan(key).
  [[nodiscard]] Result<planner::CostModel> find_model(const planner::OpSpec& op,
                                                      const planner::Fingerprint& fingerprint) const;
  /// Store::list_models() of every layer that can be read, stronger layers first.
  [[nodiscard]] std::vector<planner::CostModel> list_models(const planner::OpSpec& op,
                                                            const planner::Fingerprint& fingerprint) const;
  /// Whether Store::has_run() is true for any layer that can be read.
  [[nodiscard]] bool has_run(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) const;
  /// Store::speed_record() of every layer that can be read, newest first. A run that several layers hold counts once.
  [[nodiscard]] planner::SpeedRecord speed_record(const planner::OpSpec& op,
                                                  const planner::Fingerprint& fingerprint) const;
  /// The keys of all plans for a machine in every layer that can be read, stronger layers first. Keys may repeat.
  [[nodiscard]] std::vector<PlanKey> list_plan_keys(const std::string& fingerprint_digest) const;
  /// Store::list_profiles() of every layer that can be read, stronger layers first. Errors: as there, for the writable
  /// layer.
  [[nodiscard]] Result<std::vector<planner::Profile>> list_profiles(
      const std::map<std::string, std::string>& fields) const;
  /// store::list_measured_cuts() of every layer that can be read, the strongest layer last. Errors: as there, for the
  /// writable layer.
  [[nodiscard]] Result<std::vector<Measurement>> list_measured_cuts(const std::string& device,
                                                                    const planner::OpSpec& op) const;

 private:
  /// Errors: as Store::open.
  [[nodiscard]] Result<void> open_writable(const LayerPaths& paths);

  std::vector<Store> stores_; ///< writable first
  std::vector<std::string> notes_;
};

} // namespace mc2::store

#pragma GCC visibility pop
