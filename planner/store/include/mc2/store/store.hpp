#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/profile.hpp"

namespace mc2::store {

enum class OpenMode : std::uint8_t { ReadOnly, ReadWrite }; ///< ReadWrite creates what is missing

/// Identifies a kept plan: the same key on the same store answers with the same bytes.
struct PlanKey {
  planner::OpSpec op;
  std::string fingerprint_digest; ///< digest(fingerprint.canonical_text())
  std::string purpose = "tuned";  ///< "tuned", or the digest of the options for a plan made from a model
  bool operator==(const PlanKey&) const = default;
};

struct StoredPlan {
  PlanKey key;
  planner::Plan plan;
  std::string document;   ///< canonical JSON, exactly as kept
  std::string digest;     ///< of the document
  std::string created_at; ///< ISO 8601 UTC
};

/// Result of one race on the hardware, kept for recalibration and reports.
struct Measurement {
  planner::OpSpec op;
  planner::Cut cut;
  planner::Variant variant;
  double fused_us = 0, serial_us = 0, compute_us = 0, communication_us = 0; ///< medians
  double benefit = 0, benefit_low = 0, benefit_high = 0;
  double predicted_us = 0;
  int pair_count = 0;
  bool operator==(const Measurement&) const = default;
};

struct Damage {
  std::string table;
  std::int64_t row_id = 0;
  std::string what;
};

struct CheckReport {
  bool is_healthy = false;
  std::string database_check; ///< SQLite's own verdict, "ok" when clean
  std::vector<Damage> damages;
  std::int64_t row_count = 0;
};

struct StoreStats {
  std::filesystem::path path;
  int schema_version = 0;
  std::int64_t file_bytes = 0;
  std::int64_t fingerprint_count = 0, sample_count = 0, model_count = 0, plan_count = 0, measurement_count = 0;
};

struct MergeReport {
  std::int64_t added_count = 0;
  std::int64_t same_count = 0;
  std::vector<std::string> conflicts; ///< same key, different content: ours is kept, theirs is named here
};

/// One SQLite file. Durable when a call returns: rollback journal (not WAL: SQLite 3.40 can corrupt it with several
/// writers, docs/adr/), synchronous=FULL. A checksum per document is verified on every read.
/// Threads: one connection, externally synchronised; several processes may share the file.
/// Throws: SystemError for I/O errors and a full disk (the transaction is rolled back, nothing kept is lost).
class Store {
 public:
  /// Opens or creates the file and brings its schema up to date.
  /// Errors: NotFound (read-only and missing), ReadOnly (file or directory not writable), NewerVersion, Corrupt (not a
  /// database, truncated, or damaged; the message says how to salvage), Unsupported (network filesystem).
  [[nodiscard]] static planner::Result<Store> open(const std::filesystem::path& path, OpenMode mode);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  [[nodiscard]] OpenMode mode() const noexcept;

  /// Adds samples to those kept for the operator (m included) and fingerprint, in one transaction.
  /// Errors: ReadOnly.
  [[nodiscard]] planner::Result<void> append_samples(const planner::OpSpec& op,
                                                     const planner::Fingerprint& fingerprint,
                                                     std::span<const planner::Sample> samples,
                                                     const std::string& created_at);
  /// Removes the samples kept for the operator and fingerprint. Errors: ReadOnly.
  [[nodiscard]] planner::Result<std::int64_t> remove_samples(const planner::OpSpec& op,
                                                             const planner::Fingerprint& fingerprint);
  /// Errors: NotFound, Corrupt.
  [[nodiscard]] planner::Result<planner::Profile> find_profile(const planner::OpSpec& op,
                                                               const planner::Fingerprint& fingerprint) const;

  /// Keeps a model under its operator and fingerprint, replacing an earlier one. Returns its digest. Errors: ReadOnly.
  [[nodiscard]] planner::Result<std::string> put_model(const planner::CostModel& model,
                                                       const std::string& created_at);
  /// The model fitted for exactly this operator, or else the newest for the same kind, n, k, type and ranks.
  /// Errors: NotFound naming what the store does have, Corrupt.
  [[nodiscard]] planner::Result<planner::CostModel> find_model(const planner::OpSpec& op,
                                                               const planner::Fingerprint& fingerprint) const;

  /// Keeps a plan under its key, replacing an earlier one. Returns its digest. Errors: ReadOnly.
  [[nodiscard]] planner::Result<std::string> put_plan(const planner::Plan& plan, const std::string& purpose,
                                                      const std::string& created_at);
  /// Errors: NotFound; Corrupt when the checksum does not match.
  [[nodiscard]] planner::Result<StoredPlan> find_plan(const PlanKey& key) const;
  /// By digest or a unique prefix of at least 6 digits. Errors: NotFound, InvalidSpec (ambiguous or too short), Corrupt.
  [[nodiscard]] planner::Result<StoredPlan> find_plan(const std::string& digest_prefix) const;
  /// Every undamaged plan, newest first.
  [[nodiscard]] planner::Result<std::vector<StoredPlan>> list_plans() const;

  /// Errors: ReadOnly.
  [[nodiscard]] planner::Result<void> add_measurement(const planner::Fingerprint& fingerprint,
                                                      const Measurement& measurement, const std::string& created_at);
  [[nodiscard]] planner::Result<std::vector<Measurement>> list_measurements(
      const planner::OpSpec& op, const planner::Fingerprint& fingerprint) const;

  /// SQLite's integrity check and every document's checksum.
  [[nodiscard]] CheckReport check() const;
  [[nodiscard]] StoreStats stats() const;
  /// The whole store as one JSON document; import adds it to this store under the same rules as merge.
  [[nodiscard]] planner::Result<std::string> export_json() const;
  /// Errors: Malformed, NewerVersion, ReadOnly; all or nothing.
  [[nodiscard]] planner::Result<MergeReport> import_json(std::string_view json);
  /// Adds everything of another store. Errors: ReadOnly; all or nothing.
  [[nodiscard]] planner::Result<MergeReport> merge(const Store& other);

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::store
