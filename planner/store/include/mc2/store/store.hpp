#pragma once

#include <chrono>
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
  ReadWrite, ///< creates the file and its folders if they are missing
  Salvage,   ///< as ReadOnly, but also opens a damaged or truncated file, to read what is left
};

/// While it lives, calls of this thread that read a store wait at most this long for another process that has locked
/// it. Without one they wait 10 s, as calls that write always do; then they throw SystemError.
class ReadPatience {
 public:
  explicit ReadPatience(std::chrono::milliseconds patience) noexcept;
  ~ReadPatience();
  ReadPatience(const ReadPatience&) = delete;
  ReadPatience& operator=(const ReadPatience&) = delete;

 private:
  std::chrono::milliseconds before_;
};

/// Identifies a kept plan: the same key on the same store answers with the same bytes.
struct PlanKey {
  planner::OpSpec op;
  std::string fingerprint_digest; ///< digest() of the machine
  /// "tuned" for the best plan of all. "tuned VARIANT", "tuned OPTIONS" or "tuned VARIANT OPTIONS" if only that variant
  /// raced or the options were not the machine's own (finder::tuned_purpose). Programs may use other purposes
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

/// The largest export that Store::import_json() and plans_of_export() read, in bytes.
inline constexpr std::size_t kMaxExportBytes = std::size_t{1} << 30U;

/// The plans in an export of Store::export_json(), in its order. Leaves out plans that cannot be read.
/// Errors: Malformed and NewerVersion for the export as a whole.
[[nodiscard]] Result<std::vector<StoredPlan>> plans_of_export(std::string_view json);

/// Result of one race on the hardware, kept for recalibration and reports.
struct Measurement : planner::MeasuredCut {
  planner::OpSpec op;
  double benefit = 0, benefit_low = 0, benefit_high = 0;
  double predicted_us = 0;
  /// Times of the uncut parts that a model made before the race predicted; 0 without such a model
  double predicted_compute_us = 0, predicted_communication_us = 0;
  double predicted_serial_us = 0; ///< its prediction for the fastest uncut variant; 0 in documents from before 0.2

  /// Errors: InvalidSpec, naming the field, for a time that planner::validate_measured_time (fused_us) or
  /// validate_known_time refuses, a benefit that validate_benefit refuses, blocks that validate_block_times refuses, no
  /// pair, an error not below 1, or a prediction for only one of the uncut parts.
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

/// The most that speed_record() reads: each takes tens of microseconds.
inline constexpr int kMostSpeedRatios = 100, kMostUncutRuns = 8;

/// A kept document in a listing.
struct Listed {
  std::int64_t row_id = 0;
  PlanKey key; ///< the purpose is empty except for plans
  std::string digest;
  std::string created_at;
};

/// Which documents to list. A field that is not set matches everything.
struct ListFilter {
  std::optional<planner::OpKind> kind = std::nullopt;
  std::optional<std::int64_t> m = std::nullopt, n = std::nullopt, k = std::nullopt;
  std::optional<planner::DType> dtype = std::nullopt;
  std::optional<int> world_size = std::nullopt;
  std::string fingerprint_digest = {};                   ///< the digest or its first digits
  std::string created_after = {};                        ///< lists documents of later dates than this
  std::optional<std::int64_t> before_row = std::nullopt; ///< lists rows below this: the last row of the previous page
  std::string without_purpose = {}; ///< leaves out plans whose purpose begins with this; empty: none
  int limit = 100;
};

/// A filter that finds all documents of the machine whose operators have the same block costs as `op`. It can find
/// others, too: planner::has_same_block_costs tells them apart.
[[nodiscard]] ListFilter filter_of_equal_costs(const planner::OpSpec& op, const planner::Fingerprint& fingerprint);

struct StoredModel {
  planner::CostModel model;
  std::string document; ///< canonical JSON, exactly as kept
  std::string digest;   ///< of the document
  std::string created_at;
};

/// One batch: samples that were added together.
struct StoredSamples {
  planner::Profile profile;
  std::string document; ///< canonical JSON, exactly as kept
  std::string digest;   ///< of the document
  std::string created_at;
};

/// The result of Store::add_new_samples().
struct AddedSamples {
  std::vector<std::string> digests; ///< of all batches, whether new or kept before
  std::size_t new_count = 0;        ///< batches that were not kept before
};

/// Whether a document may replace the kept one with this digest; no digest: there is no readable one. Called in the
/// transaction, before the document is kept.
using MayReplace = std::function<bool(const std::optional<std::string>& kept_digest)>;

struct StoredMeasurement {
  MeasurementRecord record;
  std::string document; ///< canonical JSON, exactly as kept
  std::string digest;   ///< of the document
  std::string created_at;
};

/// Figures about a service at one moment.
struct HistoryPoint {
  std::string moment;                    ///< ISO 8601 UTC
  std::map<std::string, double> numbers; ///< by name, finite
  bool operator==(const HistoryPoint&) const = default;
};

/// A row exactly as a store has it, for a replica to copy.
struct RawDocument {
  std::int64_t row_id = 0;
  std::int64_t nonce = 0;                     ///< nonce of the change that names the row
  std::string created_at, document, checksum; ///< empty if the document was removed or replaced since, or is damaged
  bool operator==(const RawDocument&) const = default;
};

/// One change to one document.
struct Change {
  std::int64_t revision = 0; ///< revision of the store after the change
  std::string document;      ///< "plan", "model", "samples" or "measurement"
  bool is_removal = false;   ///< false: the document was added, or has replaced one under the same key
  planner::OpSpec op;
  std::string fingerprint_digest;
  std::string purpose; ///< of a plan: PlanKey::purpose; else empty
  std::string digest;
  std::optional<RawDocument> row = std::nullopt; ///< set only in changes for replicas
  bool operator==(const Change&) const = default;
};

/// The row of a fingerprint that documents refer to, exactly as a store has it, for a replica to copy.
struct RawFingerprint {
  std::int64_t row_id = 0;
  std::string digest, document, checksum;
  bool operator==(const RawFingerprint&) const = default;
};

/// A point in a store's history. Two stores with the same position have the same documents, e.g. a store and its
/// backup. A replica may lack documents that its leader does not give on.
struct Position {
  std::int64_t revision = 0;
  std::int64_t nonce = 0; ///< random number of the change that made the revision
  bool operator==(const Position&) const = default;
};

/// Changes, oldest first.
struct Changes {
  std::vector<Change> changes;
  std::int64_t revision = 0;                 ///< `changes` is complete up to this revision; ask from here next
  std::vector<RawFingerprint> machines = {}; ///< machines of the changes; only for replicas
  bool operator==(const Changes&) const = default;
};

struct StoredFingerprint {
  std::string digest; ///< of the canonical text
  planner::Fingerprint fingerprint;
  std::int64_t revision = 0; ///< of the last change to a document of the machine; 0 in a store with a schema before 4
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

/// An export of a store.
struct Exported {
  std::string json;                 ///< a document {"schema": "mc2.store/1", ...}
  std::vector<std::string> damaged; ///< rows that could not be exported, in the words of `json`
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
  std::vector<std::string> damaged;   ///< damaged rows of theirs, which are not taken
  std::vector<std::string> refused;   ///< invalid documents of an import, with the reason
};

/// One SQLite file. Changes are durable when a call returns: rollback journal (not WAL, which SQLite 3.40 can corrupt
/// with several writers, docs/adr/), synchronous=EXTRA. Every read verifies a checksum over the document and its key.
/// Threads: one connection, externally synchronised. Several processes may share the file; they wait up to 10 s for
/// each other.
/// Throws: SystemError for I/O errors, a full disk and a lock that another process holds too long. The transaction is
/// then rolled back, and no kept document is lost.
/// Errors beside those named with each function: Corrupt if damage keeps SQLite from answering.
class Store {
 public:
  /// Opens or creates the file (mode 0600, directories 0700) and brings its schema up to date. An empty file counts as
  /// a new store, since a program killed while it creates a store leaves one. Salvage opens any file whose first page
  /// is intact.
  /// Errors: NotFound (read-only, and the file is missing or empty), Unreadable (read-only and not permitted), ReadOnly
  /// (the file or directory is not writable; or read-only, but the file must first be recovered or brought up to date),
  /// NewerVersion, Corrupt (not a database, truncated or damaged; the message says what helps), Unsupported (on a
  /// network file system, unless read-only), InvalidSpec (the path names a directory or the like).
  [[nodiscard]] static Result<Store> open(const std::filesystem::path& path, OpenMode mode);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  [[nodiscard]] const std::filesystem::path& path() const noexcept;

  /// Adds samples to those kept for the operator (m included) and fingerprint, in one transaction. Keeps them as
  /// batches and returns the digests of these. A batch added after a model gets a later date than the model, and a
  /// model gets no earlier date than its samples, even if the clock has stepped back by up to a day.
  /// Errors: ReadOnly; InvalidSpec for a value that could not be read back; Unsupported for a fingerprint without
  /// fields or of a shared device (Fingerprint::require_speeds). Every function that keeps a value has these.
  [[nodiscard]] Result<std::vector<std::string>> append_samples(const planner::OpSpec& op,
                                                                const planner::Fingerprint& fingerprint,
                                                                std::span<const planner::Sample> samples,
                                                                const std::string& created_at);
  /// As append_samples(), but does not add a batch that is kept already. The time grows with the number of batches.
  [[nodiscard]] Result<AddedSamples> add_new_samples(const planner::OpSpec& op, const planner::Fingerprint& fingerprint,
                                                     std::span<const planner::Sample> samples,
                                                     const std::string& created_at);
  /// Replaces all samples kept for the operator and fingerprint by these, in one transaction. No samples: removes them.
  /// Errors: ReadOnly, InvalidSpec.
  [[nodiscard]] Result<void> replace_samples(const planner::OpSpec& op, const planner::Fingerprint& fingerprint,
                                             std::span<const planner::Sample> samples, const std::string& created_at);
  /// All samples of the operator and fingerprint, in the order in which they were added.
  /// Errors: NotFound, listing operators that the store has samples for; Corrupt.
  [[nodiscard]] Result<planner::Profile> find_profile(const planner::OpSpec& op,
                                                      const planner::Fingerprint& fingerprint) const;

  /// Every session of undamaged samples of the machines whose fingerprints have these field values, oldest first.
  /// `fields` must not be empty. An operator and machine may come several times.
  [[nodiscard]] Result<std::vector<planner::Profile>> list_profiles(
      const std::map<std::string, std::string>& fields) const;

  /// Keeps a model under its operator and fingerprint; replaces an earlier one. Returns its digest.
  /// Errors: ReadOnly, InvalidSpec; Stale if `may_replace` returns false.
  [[nodiscard]] Result<std::string> put_model(const planner::CostModel& model, const std::string& created_at,
                                              const MayReplace& may_replace = {});
  /// The model fitted for exactly this operator, else for another length of its cut axis
  /// (planner::has_same_block_costs), the nearest by planner::length_distance().
  /// Errors: NotFound, listing operators that the store has models for; Corrupt.
  [[nodiscard]] Result<planner::CostModel> find_model(const planner::OpSpec& op,
                                                      const planner::Fingerprint& fingerprint) const;

  /// Every undamaged model of the operator's kind, element type and ranks on this machine, of any m, n and k, newest
  /// first: the candidates for planner::transfer(). Empty if there is none.
  [[nodiscard]] Result<std::vector<planner::CostModel>> list_models(const planner::OpSpec& op,
                                                                    const planner::Fingerprint& fingerprint) const;

  /// Keeps a plan under its key; replaces an earlier one. Returns its digest. The same document again is no change, and
  /// keeps its date. Every door keeps plans by this function, which says what may be kept. Imports, merges and replicas
  /// copy what another store keeps, which may have been an earlier release's.
  /// @param purpose  UTF-8 without control characters, not empty
  /// Errors: ReadOnly; InvalidSpec, also for a plan for counts of rows with a purpose that begins with "tuned" and for
  /// a machine of another number of ranks than the operator's; Stale if `may_replace` returns false.
  [[nodiscard]] Result<std::string> put_plan(const planner::Plan& plan, const std::string& purpose,
                                             const std::string& created_at, const MayReplace& may_replace = {});
  /// Errors: NotFound; Stale for a plan that has blocks of rows although its operator is now cut along n; Corrupt if
  /// the checksum does not match.
  [[nodiscard]] Result<StoredPlan> find_plan(const PlanKey& key) const;
  /// Finds a plan by its digest or a unique prefix of at least 6 digits. Errors: NotFound, InvalidSpec (ambiguous or
  /// too short), Corrupt.
  [[nodiscard]] Result<StoredPlan> find_plan(const std::string& digest_prefix) const;
  /// Every undamaged plan, newest first.
  [[nodiscard]] Result<std::vector<StoredPlan>> list_plans() const;

  /// Removes every plan with exactly this digest. Errors: NotFound, ReadOnly.
  [[nodiscard]] Result<void> remove_plan(const std::string& digest);
  /// As remove_plan(), for models.
  [[nodiscard]] Result<void> remove_model(const std::string& digest);
  /// As remove_plan(), for batches of samples.
  [[nodiscard]] Result<void> remove_batch(const std::string& digest);
  /// As remove_plan(), for measurements.
  [[nodiscard]] Result<void> remove_measurement(const std::string& digest);
  /// Removes batches of samples that were kept before `moment` (ISO 8601 UTC). Other users of the file wait meanwhile,
  /// so a call removes at most kMostRemoved. Returns the number removed; if it is below kMostRemoved, none is left.
  /// Errors: ReadOnly.
  [[nodiscard]] Result<std::int64_t> remove_batches_before(const std::string& moment);
  /// As remove_batches_before(), for models.
  [[nodiscard]] Result<std::int64_t> remove_models_before(const std::string& moment);
  /// As remove_batches_before(), for measurements.
  [[nodiscard]] Result<std::int64_t> remove_measurements_before(const std::string& moment);

  /// Undamaged plans, newest row first. Errors of the four listings: only Corrupt.
  [[nodiscard]] Result<std::vector<Listed>> list_plans(const ListFilter& filter) const;
  /// Undamaged models, newest row first.
  [[nodiscard]] Result<std::vector<Listed>> list_models(const ListFilter& filter) const;
  /// Undamaged batches of samples, newest row first.
  [[nodiscard]] Result<std::vector<Listed>> list_samples(const ListFilter& filter) const;
  /// Undamaged measurements, newest row first.
  [[nodiscard]] Result<std::vector<Listed>> list_measurements(const ListFilter& filter) const;
  /// Finds a model by its digest or a unique prefix of at least 6 digits. Errors: as find_plan(digest_prefix).
  [[nodiscard]] Result<StoredModel> find_model(const std::string& digest_prefix) const;
  /// As find_model(digest_prefix), for batches of samples.
  [[nodiscard]] Result<StoredSamples> find_samples(const std::string& digest_prefix) const;
  /// As find_model(digest_prefix), for measurements.
  [[nodiscard]] Result<StoredMeasurement> find_measurement(const std::string& digest_prefix) const;
  /// Every undamaged fingerprint, oldest first.
  [[nodiscard]] Result<std::vector<StoredFingerprint>> list_fingerprints() const;

  /// Errors: InvalidSpec for a name above 64 bytes or with control characters; Mismatch if the identifier is taken;
  /// ReadOnly.
  [[nodiscard]] Result<void> add_token(const Token& token);
  /// Marks the token as revoked at `now`: a service no longer accepts it. It stays listed.
  /// Errors: NotFound, Corrupt, ReadOnly.
  [[nodiscard]] Result<void> revoke_token(const std::string& id, const std::string& now);
  [[nodiscard]] Result<TokenList> list_tokens() const;

  /// A number that rises whenever any program adds, replaces or removes a document of this file. Throws SystemError for
  /// a file of schema 1 that is open read-only: that schema has no revisions.
  [[nodiscard]] Result<std::int64_t> revision() const;
  /// A number that rises whenever any program changes a token of this file; 0 in a store with a schema before 6.
  [[nodiscard]] Result<std::int64_t> token_revision() const;
  /// The changes to documents, by any program, since the store had this revision: at most `limit` (positive), oldest
  /// first. Errors: Stale for a revision that is too long ago (16384 changes) or that the store never had; ReadOnly for
  /// a file with a schema before 4 that is open read-only, since that schema records no changes.
  [[nodiscard]] Result<Changes> changes_since(std::int64_t revision, int limit) const;
  /// The current position. Errors: as revision(); Corrupt if the record of the newest change is missing.
  [[nodiscard]] Result<Position> position() const;
  /// Whether `position` is in the store's history. False after another store, or another course of this one, was copied
  /// over the file; so this reads the file itself, not the pages that the connection remembers. True of a position that
  /// is too old to be told.
  [[nodiscard]] Result<bool> has_been_at(const Position& position) const;
  /// All changes since `position`, with the rows that are still kept: the input of apply(). Errors: as changes_since();
  /// Stale also if the rows have more than 32 MiB; Mismatch if this store was never at `position`.
  [[nodiscard]] Result<Changes> rows_since(const Position& position) const;

  // Replicas. A replica is a store whose documents and revisions are those of another store, its leader. Its tokens and
  // history are its own. Functions above that would change documents of a replica fail with ReadOnly.

  /// The URL of the leader; empty if the store is not a replica.
  [[nodiscard]] Result<std::string> leader() const;
  /// Makes this store, in one transaction, a replica of the store that `snapshot` was taken of (take_snapshot()). Needs
  /// memory for all its documents. Errors: ReadOnly; InvalidSpec for a store with documents of its own; Malformed for a
  /// snapshot by another version of mc2; Mismatch if this store is already a replica and the snapshot is of another
  /// store or older; those of open() for `snapshot`.
  [[nodiscard]] Result<void> become_replica(const std::string& leader, const std::filesystem::path& snapshot);
  /// Records a new URL of the same leader. Errors: ReadOnly; Mismatch if this store is not a replica.
  [[nodiscard]] Result<void> set_leader(const std::string& leader);
  /// Applies the leader's changes since its revision `since`, in one transaction. Errors: ReadOnly; Mismatch if this
  /// store is not a replica or not at revision `since`; Malformed for changes that are out of order or lack a row or a
  /// machine.
  [[nodiscard]] Result<void> apply(std::int64_t since, const Changes& changes);
  /// Makes a replica a store of its own. Errors: ReadOnly.
  [[nodiscard]] Result<void> stop_following();

  /// Keeps a point of the history; replaces one of the same moment. Only the last 8192 points stay. Errors: ReadOnly.
  [[nodiscard]] Result<void> add_history(const HistoryPoint& point);
  /// The points after a moment, oldest first; only the newest `limit` (positive) if there are more. Empty in a store
  /// with a schema before 5.
  [[nodiscard]] Result<std::vector<HistoryPoint>> history_after(const std::string& moment, int limit) const;

  /// Adds a measurement and returns the digest of its document. Errors: ReadOnly, InvalidSpec.
  [[nodiscard]] Result<std::string> add_measurement(const planner::Fingerprint& fingerprint,
                                                    const Measurement& measurement, const std::string& created_at);
  /// Every undamaged measurement of the operator and fingerprint, oldest first; check() reports the damaged ones.
  [[nodiscard]] Result<std::vector<Measurement>> list_measurements(const planner::OpSpec& op,
                                                                   const planner::Fingerprint& fingerprint) const;

  /// Whether speed_record() has runs of the operator. Does not look for damage, so a damaged run counts as well.
  [[nodiscard]] Result<bool> has_run(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) const;

  /// The speed of the machine according to its newest undamaged measurements that carry predictions of their uncut
  /// parts: the ratios of up to kMostSpeedRatios of them, and the last kMostUncutRuns runs of the operator, at any
  /// length of its cut axis.
  [[nodiscard]] Result<planner::SpeedRecord> speed_record(const planner::OpSpec& op,
                                                          const planner::Fingerprint& fingerprint) const;

  /// Runs SQLite's integrity check and verifies every checksum.
  [[nodiscard]] CheckReport check() const;
  [[nodiscard]] Result<StoreStats> stats() const;
  /// The latest date among the last hundred documents of each kind; "" for an empty store. It is later than now if a
  /// clock has stepped back.
  [[nodiscard]] Result<std::string> latest_date() const;
  /// Every undamaged document as one JSON document, which also names the damaged ones. To salvage a damaged store, open
  /// it with Salvage and export it.
  [[nodiscard]] Result<Exported> export_all() const;
  /// The JSON of export_all().
  [[nodiscard]] Result<std::string> export_json() const;
  /// Adds the documents of an export (at most 1 GiB) by the rules of merge(). A document that its decoder in codec.hpp
  /// refuses is left out and named in the report.
  /// Errors: Malformed and NewerVersion for the export as a whole, and ReadOnly; nothing is kept then.
  [[nodiscard]] Result<MergeReport> import_json(std::string_view json);
  /// Adds every undamaged document of another store. A damaged document of this store is replaced by theirs.
  /// Adds the documents in several transactions, each of whole documents. If the program ends in between, the next
  /// merge adds the rest. Errors: ReadOnly.
  [[nodiscard]] Result<MergeReport> merge(const Store& other);

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::store

#pragma GCC visibility pop
