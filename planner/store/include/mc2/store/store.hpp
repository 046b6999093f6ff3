#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
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
#include "mc2/planner/speed_spread.hpp"
#include "mc2/store/token.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

enum class OpenMode : std::uint8_t {
  ReadOnly,
  ReadWrite, ///< creates what is missing
  Salvage,   ///< as ReadOnly, but takes a damaged or truncated file for what can still be read of it
};

/// Identifies a kept plan: the same key on the same store answers with the same bytes.
struct PlanKey {
  planner::OpSpec op;
  std::string fingerprint_digest; ///< digest(fingerprint.canonical_text())
  /// "tuned" for the best of all, "tuned VARIANT", "tuned OPTIONS" or both, in this order, where only that variant
  /// raced or the machine's own options were not those (finder::tuned_purpose); or what else a program keeps
  std::string purpose = "tuned";
  bool operator==(const PlanKey&) const = default;
};

struct StoredPlan {
  PlanKey key;
  planner::Plan plan;
  std::string document;   ///< canonical JSON, exactly as kept
  std::string digest;     ///< of the document
  std::string created_at; ///< ISO 8601 UTC
};

/// The plans in what Store::export_json() gave, in its order; those that cannot be read are left out.
/// Errors: Malformed and NewerVersion of the export itself.
[[nodiscard]] Result<std::vector<StoredPlan>> plans_of_export(std::string_view json);

/// Result of one race on the hardware, kept for recalibration and reports.
struct Measurement {
  planner::OpSpec op;
  planner::Cut cut;
  planner::Variant variant;
  double fused_us = 0, serial_us = 0, compute_us = 0, communication_us = 0; ///< medians
  double benefit = 0, benefit_low = 0, benefit_high = 0;
  double predicted_us = 0;
  int pair_count = 0;
  /// Of the uncut parts, by a model that was made before; 0 where there was none, as in the race that made it
  double predicted_compute_us = 0, predicted_communication_us = 0;
  double predicted_serial_us = 0; ///< likewise of the fastest uncut variant; 0 in what was kept before 0.2
  double relative_error = 0;      ///< standard error of fused_us where it was run elsewhere; 0 where nobody said
  double compute_blocks_us = 0, communication_blocks_us = 0; ///< the cut's blocks together; 0 where nobody timed them

  /// Errors: InvalidSpec naming a time as planner::validate_measured_time (fused_us) or validate_known_time, a benefit
  /// as validate_benefit, blocks as validate_block_times, no pair, an error that is not below 1, or a prediction of one
  /// uncut part without the other.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const Measurement&) const = default;
};

/// A measurement and the machine that it was taken on (schemas/measurement.schema.json).
struct MeasurementRecord {
  planner::Fingerprint fingerprint;
  Measurement measurement;
  bool operator==(const MeasurementRecord&) const = default;
};

inline constexpr int kMostRemoved = 256;

/// Reading one takes tens of microseconds.
inline constexpr int kMostSpeedRatios = 100, kMostUncutRuns = 8;

/// A kept document, as a listing names it.
struct Listed {
  std::int64_t row_id = 0;
  PlanKey key; ///< with a purpose for plans only
  std::string digest;
  std::string created_at;
};

/// Which documents to list; what is left out matches everything.
struct ListFilter {
  std::optional<planner::OpKind> kind = std::nullopt;
  std::optional<std::int64_t> m = std::nullopt, n = std::nullopt, k = std::nullopt;
  std::optional<planner::DType> dtype = std::nullopt;
  std::optional<int> world_size = std::nullopt;
  std::string fingerprint_digest = {};                   ///< or its first digits
  std::optional<std::int64_t> before_row = std::nullopt; ///< the last row of the page before
  int limit = 100;
};

/// Documents of a machine, all of those among them whose operators have the same block costs; others are told by
/// planner::has_same_block_costs.
[[nodiscard]] ListFilter filter_of_equal_costs(const planner::OpSpec& op, const planner::Fingerprint& fingerprint);

struct StoredModel {
  planner::CostModel model;
  std::string document; ///< canonical JSON, exactly as kept
  std::string digest;   ///< of the document
  std::string created_at;
};

/// Samples that were added together.
struct StoredSamples {
  planner::Profile profile;
  std::string document; ///< canonical JSON, exactly as kept
  std::string digest;   ///< of the document
  std::string created_at;
};

/// What became of samples that may have been there.
struct AddedSamples {
  std::vector<std::string> digests; ///< of their batches, whether or not they were there
  std::size_t new_count = 0;        ///< of those that were not
};

/// Asked before a document is kept, within the transaction: whether it may take the place of the one with this digest;
/// none: there is no readable one.
using MayReplace = std::function<bool(const std::optional<std::string>& kept_digest)>;

struct StoredMeasurement {
  MeasurementRecord record;
  std::string document; ///< canonical JSON, exactly as kept
  std::string digest;   ///< of the document
  std::string created_at;
};

/// How a service did until a moment.
struct HistoryPoint {
  std::string moment;                    ///< ISO 8601 UTC
  std::map<std::string, double> numbers; ///< by name, finite
  bool operator==(const HistoryPoint&) const = default;
};

/// A row as it stands in a store, for a replica to take over.
struct RawDocument {
  std::int64_t row_id = 0;
  std::int64_t nonce = 0;                     ///< of the change
  std::string created_at, document, checksum; ///< empty where the document is kept no longer, or is damaged
  bool operator==(const RawDocument&) const = default;
};

/// What became of one document.
struct Change {
  std::int64_t revision = 0; ///< of the store, after it
  std::string document;      ///< "plan", "model", "samples" or "measurement"
  bool is_removal = false;   ///< else it was kept, in place of one under the same key if there was one
  planner::OpSpec op;
  std::string fingerprint_digest;
  std::string purpose; ///< of a plan, as PlanKey::purpose; else empty
  std::string digest;
  std::optional<RawDocument> row = std::nullopt; ///< for replicas alone
  bool operator==(const Change&) const = default;
};

/// Likewise of a machine that documents refer to.
struct RawFingerprint {
  std::int64_t row_id = 0;
  std::string digest, document, checksum;
  bool operator==(const RawFingerprint&) const = default;
};

/// Where a store is in its history: of two stores with the same position, one is the other's replica or backup.
struct Position {
  std::int64_t revision = 0;
  std::int64_t nonce = 0; ///< of the change that made it
  bool operator==(const Position&) const = default;
};

/// Changes in their order.
struct Changes {
  std::vector<Change> changes;
  std::int64_t revision = 0;                 ///< up to which these are all: where to go on
  std::vector<RawFingerprint> machines = {}; ///< of the changes, for replicas alone
  bool operator==(const Changes&) const = default;
};

struct StoredFingerprint {
  std::string digest; ///< of the canonical text
  planner::Fingerprint fingerprint;
  std::int64_t revision = 0; ///< of the last change to a document of the machine; 0 in a store of a schema before 4
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

/// What is left of a store, and what is not.
struct Exported {
  std::string json;                 ///< {"schema": "mc2.store/1"}
  std::vector<std::string> damaged; ///< what could not be exported, as the document names it
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
  std::vector<std::string> damaged;   ///< of theirs, and therefore not taken
  std::vector<std::string> refused;   ///< documents of an import that are not valid, with what is wrong
};

/// One SQLite file. Durable when a call returns: rollback journal (not WAL: SQLite 3.40 can corrupt it with several
/// writers, docs/adr/), synchronous=EXTRA. A checksum per document and its key is verified on every read.
/// Threads: one connection, externally synchronised; several processes may share the file and wait up to 10 s for each
/// other.
/// Throws: SystemError for I/O errors, a full disk and a lock that others do not give up; the transaction is rolled
/// back and nothing kept is lost.
/// Errors beside those named with each function: Corrupt wherever damage keeps SQLite from answering.
class Store {
 public:
  /// Opens or creates the file (mode 0600, directories 0700) and brings its schema up to date. An empty file is a new
  /// store: a program killed while creating one leaves that. Salvage opens whatever still has its first page.
  /// Errors: NotFound (read-only and missing or empty), Unreadable (read-only and not permitted), ReadOnly (file or
  /// directory not writable; or open read-only what must first be recovered or brought up to date), NewerVersion,
  /// Corrupt (not a database, truncated, or damaged; the message says how to salvage), Unsupported (network file
  /// system, unless read-only), InvalidSpec (the path names a directory or the like).
  [[nodiscard]] static Result<Store> open(const std::filesystem::path& path, OpenMode mode);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  [[nodiscard]] const std::filesystem::path& path() const noexcept;

  /// Adds samples to those kept for the operator (m included) and fingerprint, in one transaction. Returns the digests
  /// of the batches that they are kept as. Batches that come after a model are dated after it, and a model not before
  /// its samples, also where the clock stepped back by up to a day.
  /// Errors: ReadOnly; InvalidSpec for a value that could not be read back, here and wherever a value is kept.
  [[nodiscard]] Result<std::vector<std::string>> append_samples(const planner::OpSpec& op,
                                                                const planner::Fingerprint& fingerprint,
                                                                std::span<const planner::Sample> samples,
                                                                const std::string& created_at);
  /// As above, but a batch that is there already is kept once. It takes the longer, the more batches there are.
  [[nodiscard]] Result<AddedSamples> add_new_samples(const planner::OpSpec& op, const planner::Fingerprint& fingerprint,
                                                     std::span<const planner::Sample> samples,
                                                     const std::string& created_at);
  /// Keeps these samples in place of all kept for the operator and fingerprint, in one transaction.
  /// Errors: ReadOnly, InvalidSpec.
  [[nodiscard]] Result<void> replace_samples(const planner::OpSpec& op, const planner::Fingerprint& fingerprint,
                                             std::span<const planner::Sample> samples, const std::string& created_at);
  /// Removes the samples kept for the operator and fingerprint; returns their number. Errors: ReadOnly.
  [[nodiscard]] Result<std::int64_t> remove_samples(const planner::OpSpec& op, const planner::Fingerprint& fingerprint);
  /// All samples, in the order in which they were added. Errors: NotFound naming what the store does have, Corrupt.
  [[nodiscard]] Result<planner::Profile> find_profile(const planner::OpSpec& op,
                                                      const planner::Fingerprint& fingerprint) const;

  /// Every undamaged batch of samples of machines whose fingerprint carries these fields, oldest first; fields must not
  /// be empty. The same operator and machine may come several times.
  [[nodiscard]] Result<std::vector<planner::Profile>> list_profiles(
      const std::map<std::string, std::string>& fields) const;

  /// Keeps a model under its operator and fingerprint, replacing an earlier one. Returns its digest.
  /// Errors: ReadOnly, InvalidSpec; Stale where `may_replace` says no.
  [[nodiscard]] Result<std::string> put_model(const planner::CostModel& model, const std::string& created_at,
                                              const MayReplace& may_replace = {});
  /// The model fitted for exactly this operator, or else for another length of its cut axis
  /// (planner::has_same_block_costs): the nearest by planner::length_distance().
  /// Errors: NotFound naming what the store does have, Corrupt.
  [[nodiscard]] Result<planner::CostModel> find_model(const planner::OpSpec& op,
                                                      const planner::Fingerprint& fingerprint) const;

  /// Every undamaged model of the operator's kind, element type and ranks on this machine, whatever its m, n and k,
  /// newest first: what transfer() may answer from. Empty when there is none.
  [[nodiscard]] Result<std::vector<planner::CostModel>> list_models(const planner::OpSpec& op,
                                                                    const planner::Fingerprint& fingerprint) const;

  /// Keeps a plan under its key, replacing an earlier one. Returns its digest.
  /// @param purpose  UTF-8 without control characters
  /// Errors: ReadOnly, InvalidSpec; Stale where `may_replace` says no.
  [[nodiscard]] Result<std::string> put_plan(const planner::Plan& plan, const std::string& purpose,
                                             const std::string& created_at, const MayReplace& may_replace = {});
  /// Errors: NotFound; Stale for blocks of rows of an operator that is cut along n since; Corrupt when the checksum
  /// does not match.
  [[nodiscard]] Result<StoredPlan> find_plan(const PlanKey& key) const;
  /// By digest or a unique prefix of at least 6 digits. Errors: NotFound, InvalidSpec (ambiguous or too short),
  /// Corrupt.
  [[nodiscard]] Result<StoredPlan> find_plan(const std::string& digest_prefix) const;
  /// Every undamaged plan, newest first.
  [[nodiscard]] Result<std::vector<StoredPlan>> list_plans() const;

  /// Removes every plan with exactly this digest. Errors: NotFound, ReadOnly.
  [[nodiscard]] Result<void> remove_plan(const std::string& digest);
  /// As above.
  [[nodiscard]] Result<void> remove_model(const std::string& digest);
  /// As above, of a batch of samples.
  [[nodiscard]] Result<void> remove_batch(const std::string& digest);
  /// As above.
  [[nodiscard]] Result<void> remove_measurement(const std::string& digest);
  /// Removes batches of samples that were kept before `moment` (ISO 8601 UTC), at most kMostRemoved at a time, for
  /// which others wait. Returns how many; fewer than that: all. Errors: ReadOnly.
  [[nodiscard]] Result<std::int64_t> remove_batches_before(const std::string& moment);
  /// As above.
  [[nodiscard]] Result<std::int64_t> remove_models_before(const std::string& moment);
  /// As above.
  [[nodiscard]] Result<std::int64_t> remove_measurements_before(const std::string& moment);

  /// Undamaged plans, newest row first. Errors: none but Corrupt.
  [[nodiscard]] Result<std::vector<Listed>> list_plans(const ListFilter& filter) const;
  /// Undamaged models, newest row first.
  [[nodiscard]] Result<std::vector<Listed>> list_models(const ListFilter& filter) const;
  /// Undamaged batches of samples, newest row first.
  [[nodiscard]] Result<std::vector<Listed>> list_samples(const ListFilter& filter) const;
  /// Undamaged measurements, newest row first.
  [[nodiscard]] Result<std::vector<Listed>> list_measurements(const ListFilter& filter) const;
  /// By digest or a unique prefix of at least 6 digits. Errors: as find_plan.
  [[nodiscard]] Result<StoredModel> find_model(const std::string& digest_prefix) const;
  /// As above.
  [[nodiscard]] Result<StoredSamples> find_samples(const std::string& digest_prefix) const;
  /// As above.
  [[nodiscard]] Result<StoredMeasurement> find_measurement(const std::string& digest_prefix) const;
  /// Every undamaged fingerprint, oldest first.
  [[nodiscard]] Result<std::vector<StoredFingerprint>> list_fingerprints() const;

  /// Errors: InvalidSpec for a name above 64 bytes or with control characters, Mismatch when the identifier is taken,
  /// ReadOnly.
  [[nodiscard]] Result<void> add_token(const Token& token);
  /// From now on the token lets nobody in; it stays listed. Errors: NotFound, Corrupt, ReadOnly.
  [[nodiscard]] Result<void> revoke_token(const std::string& id, const std::string& now);
  [[nodiscard]] Result<TokenList> list_tokens() const;

  /// Rises whenever any program has added, replaced or removed a document of this file. Throws SystemError for a file
  /// of schema 1 that is open read-only: it does not count yet.
  [[nodiscard]] Result<std::int64_t> revision() const;
  /// Likewise of tokens; 0 in a store of a schema before 6.
  [[nodiscard]] Result<std::int64_t> token_revision() const;
  /// What became of documents since the store had this revision, by whatever program; at most `limit` (positive), the
  /// oldest first. Errors: Stale for a revision that is too long ago (16384 changes) or that the store never had.
  /// ReadOnly for a file of a schema before 4 that is open read-only: it takes no note of changes yet.
  [[nodiscard]] Result<Changes> changes_since(std::int64_t revision, int limit) const;
  /// Where the store is. Errors: as revision(); Corrupt where the newest change is not noted.
  [[nodiscard]] Result<Position> position() const;
  /// All of them, with the rows that are still kept: what apply() takes. Errors: as above; Stale also where the rows
  /// have more than 32 MiB; Mismatch where this store was never there, but another one.
  [[nodiscard]] Result<Changes> rows_since(const Position& position) const;

  // Of a replica: a store whose documents and revisions are those of another one, its leader. Whatever else would
  // change documents in it fails as ReadOnly; tokens and history are its own.

  /// The URL of the leader; empty for a store that is no replica.
  [[nodiscard]] Result<std::string> leader() const;
  /// Makes this store, in one transaction, the replica of the one that `snapshot` was taken of (backup.hpp). It takes
  /// the memory of all its documents. Errors: ReadOnly; InvalidSpec for a store with documents of its own; Malformed
  /// for a file that is no snapshot of this mc2's; for a replica Mismatch where it is of another store, or of before.
  [[nodiscard]] Result<void> become_replica(const std::string& leader, const std::filesystem::path& snapshot);
  /// The same store is its leader's under another URL now. Errors: ReadOnly; Mismatch where this is no replica.
  [[nodiscard]] Result<void> set_leader(const std::string& leader);
  /// Goes on from what the leader was at `since`, in one transaction. Errors: Mismatch where that is not this store's
  /// revision, or this is no replica; Malformed for changes that are not in order.
  [[nodiscard]] Result<void> apply(std::int64_t since, const Changes& changes);
  /// From now on it is a store of its own. Errors: ReadOnly.
  [[nodiscard]] Result<void> stop_following();

  /// Keeps a point of the history, in place of one of the same moment; the last 8192 stay. Errors: ReadOnly.
  [[nodiscard]] Result<void> add_history(const HistoryPoint& point);
  /// Points after a moment, the oldest first; of more than `limit` (positive) the newest. None in a store of a schema
  /// before 5.
  [[nodiscard]] Result<std::vector<HistoryPoint>> history_after(const std::string& moment, int limit) const;

  /// Returns the digest of its document. Errors: ReadOnly, InvalidSpec.
  [[nodiscard]] Result<std::string> add_measurement(const planner::Fingerprint& fingerprint,
                                                    const Measurement& measurement, const std::string& created_at);
  /// Every undamaged measurement, oldest first; check() reports the others.
  [[nodiscard]] Result<std::vector<Measurement>> list_measurements(const planner::OpSpec& op,
                                                                   const planner::Fingerprint& fingerprint) const;

  /// Whether speed_record() tells of runs of the operator, as far as their damage is not looked for.
  [[nodiscard]] Result<bool> has_run(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) const;

  /// What the newest undamaged measurements tell of the machine's speed, those that say what had been predicted of
  /// their uncut parts: ratios of up to kMostSpeedRatios, and the last kMostUncutRuns of the operator, of any length of
  /// its cut axis.
  [[nodiscard]] Result<planner::SpeedRecord> speed_record(const planner::OpSpec& op,
                                                          const planner::Fingerprint& fingerprint) const;

  /// SQLite's integrity check and every document's checksum.
  [[nodiscard]] CheckReport check() const;
  [[nodiscard]] Result<StoreStats> stats() const;
  /// The latest date among the last hundred documents of each kind; "" of an empty store. Later than now where a clock
  /// stepped back.
  [[nodiscard]] Result<std::string> latest_date() const;
  /// Every undamaged document as one JSON document that also names the damaged ones: the way to salvage a store, for
  /// which it is opened with Salvage. import_json adds it to this store under the same rules as merge.
  [[nodiscard]] Result<Exported> export_all() const;
  /// Its JSON alone.
  [[nodiscard]] Result<std::string> export_json() const;
  /// A document that its decoder in codec.hpp refuses is left out and named in the report.
  /// Errors: Malformed and NewerVersion of the export itself, and ReadOnly; nothing is kept then. At most 1 GiB.
  [[nodiscard]] Result<MergeReport> import_json(std::string_view json);
  /// Adds every undamaged document of another store; a damaged one of ours gives way to theirs.
  /// Errors: ReadOnly. Documents are added some at a time, each whole: what an end in between leaves out, the next
  /// merge adds.
  [[nodiscard]] Result<MergeReport> merge(const Store& other);

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::store

#pragma GCC visibility pop
