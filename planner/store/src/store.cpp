#include "mc2/store/store.hpp"

#include <sqlite3.h>

#include <SQLiteCpp/Column.h>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "codec_parts.hpp"
#include "file_place.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/dates.hpp"
#include "migrations.hpp"
#include "store_impl.hpp"
#include "waiting.hpp"

namespace mc2::store {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxValueBytes = 80 << 20;

/// The absolute path of the file, symbolic links followed, since SQLite keeps its journal beside the file itself.
/// SQLite never takes an absolute path for a URI.
fs::path resolved(const fs::path& path) {
  std::error_code failed;
  fs::path result = fs::weakly_canonical(fs::absolute(path, failed), failed);
  return failed ? fs::absolute(path, failed) : result;
}

SQLite::Database connect(const fs::path& file, OpenMode mode) {
  const int flags = mode == OpenMode::ReadWrite ? SQLite::OPEN_READWRITE : SQLite::OPEN_READONLY;
  const bool is_salvage = mode == OpenMode::Salvage;
  SQLite::Database database(file.string(), flags);
  sqlite3* const handle = database.getHandle();
  wait_for_others(handle);
  database.check(sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, is_salvage ? 0 : 1, nullptr));
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  database.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA foreign_keys = ON");
  // Only with a writable schema does SQLite read a file that has fewer pages than its header says.
  if (is_salvage) database.exec("PRAGMA writable_schema = ON");
  return database;
}

/// Rolls back the journal of a writer that was killed. Only a connection that may write can do so.
void recover(const fs::path& file) {
  SQLite::Database database = connect(file, OpenMode::ReadWrite);
  static_cast<void>(read_schema_state(database));
}

bool needs_recovery(const SQLite::Exception& exception) {
  return exception.getExtendedErrorCode() == SQLITE_READONLY_ROLLBACK;
}

/// Whether the file is in WAL mode, which another program may have set.
bool is_wal(SQLite::Database& database) { return database.execAndGet("PRAGMA journal_mode").getString() == "wal"; }

/// Switches the file back to a rollback journal. Errors: Unsupported if another program uses the file in WAL mode.
Result<void> leave_wal(SQLite::Database& database, const fs::path& path) {
  if (!is_wal(database)) return {};
  // Fails if the file is in use; so check the mode afterwards.
  static_cast<void>(database.tryExec("PRAGMA journal_mode = DELETE"));
  if (!is_wal(database)) return {};
  return Error{ErrorCode::Unsupported, path.string(),
               "is in SQLite's WAL mode and in use by another program; close that program first"};
}

std::uintmax_t size_of(const fs::path& file) {
  std::error_code failed;
  const auto bytes = fs::file_size(file, failed);
  return failed ? 0 : bytes;
}

/// Checks that the file is not truncated. SQLite does not: it reads a shortened last page as zeros, and a file of a few
/// bytes as an empty one. Not checked in WAL mode, where pages may be in another file.
/// @param bytes_before  size of the file before it was opened: another process may fill an empty file meanwhile
/// Errors: Corrupt.
Result<void> require_whole(SQLite::Database& database, const fs::path& path, const fs::path& file,
                           std::uintmax_t bytes_before) {
  if (is_wal(database)) return {};
  const std::int64_t expected_bytes =
      database.execAndGet("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").getInt64();
  const std::uintmax_t file_bytes = size_of(file);
  if (expected_bytes == 0 && bytes_before > 0 && file_bytes > 0)
    return Error{ErrorCode::Corrupt, path.string(),
                 "is no mc2 store: it has " + std::to_string(file_bytes) + (file_bytes == 1 ? " byte" : " bytes") +
                     ", fewer than any store; restore it from an export or a backup, or move it away to start afresh"};
  if (std::cmp_greater_equal(file_bytes, expected_bytes)) return {};
  return Error{ErrorCode::Corrupt, path.string(),
               "is no whole mc2 store (" + std::to_string(file_bytes) + " of " + std::to_string(expected_bytes) +
                   " bytes are there); salvage it with 'mc2 db export', or move it away to start afresh"};
}

Result<SQLite::Database> open_to_read(const fs::path& path, const fs::path& file, OpenMode mode) {
  MC2_TRY(require_readable(file));
  const std::uintmax_t bytes_before = size_of(file);
  SQLite::Database database = connect(file, mode);
  try {
    static_cast<void>(read_schema_state(database));
  } catch (const SQLite::Exception& exception) {
    if (!needs_recovery(exception)) throw;
    recover(file);
  }
  if (mode != OpenMode::Salvage) MC2_TRY(require_whole(database, path, file, bytes_before));
  MC2_TRY(require_readable(database, path, migrations(), kOldestReadable));
  return database;
}

Result<SQLite::Database> open_read_write(const fs::path& path, const fs::path& file) {
  MC2_TRY(prepare_writable(file));
  const std::uintmax_t bytes_before = size_of(file);
  SQLite::Database database = connect(file, OpenMode::ReadWrite);
  // EXTRA also flushes the directory after the journal is deleted. Otherwise a power cut could bring the journal back.
  database.exec("PRAGMA synchronous = EXTRA");
  // A transaction that spills from the cache locks out readers until its end. Without spilling, only the commit does.
  database.exec("PRAGMA cache_spill = OFF");
  MC2_TRY(leave_wal(database, path));
  MC2_TRY(require_whole(database, path, file, bytes_before));
  MC2_TRY(migrate(database, path, migrations()));
  return database;
}

/// Checks that the document reads back as the value. Errors: InvalidSpec, e.g. for text that is not UTF-8.
template <typename T>
Result<void> require_readable_back(const T& value, const std::string& document) {
  const auto decoded = decode_document<T>(document);
  if (!decoded) return Error{ErrorCode::InvalidSpec, decoded.error().field, decoded.error().message};
  if (decoded.value() != value)
    return Error{ErrorCode::InvalidSpec, "", "holds text that is not UTF-8 and cannot be kept"};
  return {};
}

/// Checks that documents of this machine may be kept. Stores of earlier releases may hold some that name no machine.
/// Errors: Unsupported.
Result<void> require_machine(const planner::Fingerprint& machine) {
  if (!machine.fields.empty()) return machine.require_speeds();
  return Error{ErrorCode::Unsupported, "fingerprint",
               "is empty; give the fields that tell the machine from others, such as backend, device and ranks"};
}

/// Checks that an export with this purpose can be read back. Errors: InvalidSpec (purpose).
Result<void> require_fit_purpose(const std::string& purpose) {
  if (purpose.empty()) return Error{ErrorCode::InvalidSpec, "purpose", "is empty; \"tuned\" is usual"};
  ReadStatus status;
  const auto json = parse_json(dump(purpose));
  if (!json) return Error{ErrorCode::InvalidSpec, "purpose", json.error().message};
  const std::string read_back = Node(json.value(), status).text();
  if (status.error) return Error{ErrorCode::InvalidSpec, "purpose", status.error->message};
  if (read_back != purpose)
    return Error{ErrorCode::InvalidSpec, "purpose", "is text that is not UTF-8; give UTF-8, e.g. \"tuned\""};
  return {};
}

} // namespace

Result<void> require_fit_counts(const planner::Plan& plan, std::string_view purpose) {
  if (plan.counts.empty() || !purpose.starts_with("tuned")) return {};
  return Error{ErrorCode::InvalidSpec, "counts",
               "are given, but a tuned plan also answers questions with other counts; keep this plan as a file"};
}

namespace {

/// Samples as records of one document per batch. Errors: InvalidSpec.
Result<std::vector<Record>> sample_records(const planner::OpSpec& op, const planner::Fingerprint& fingerprint,
                                           std::span<const planner::Sample> samples, const std::string& created_at) {
  std::vector<Record> records;
  for (std::size_t first = 0; first < samples.size(); first += kSamplesPerBatch) {
    const auto batch = samples.subspan(first, std::min(kSamplesPerBatch, samples.size() - first));
    const planner::Profile profile{op, fingerprint, {batch.begin(), batch.end()}};
    records.push_back(make_record(op, fingerprint, encode(profile), created_at));
    MC2_TRY(require_readable_back(profile, records.back().document));
  }
  return records;
}

constexpr std::int64_t kDay_s = 24 * 60 * 60;

/// The newest date in a table among documents that may belong with a model of the key: of the same m or n. Dates more
/// than a day after `now` are ignored, since no clock steps back so far: they are wrong. Empty if there are none.
std::string newest_date(SQLite::Database& database, Table table, const PlanKey& key, const std::string& now) {
  SQLite::Statement newest(database, "SELECT coalesce(max(created_at), '') FROM " + std::string(traits_of(table).name) +
                                         " WHERE fingerprint_digest = ?1 AND kind = ?2 AND (m = ?3 OR n = ?4) AND "
                                         "k = ?5 AND dtype = ?6 AND world_size = ?7 AND created_at <= ?9");
  bind_key(newest, table, key);
  newest.bind(9, later(now, kDay_s));
  newest.executeStep();
  return newest.getColumn(0).getString();
}

/// Whether an undamaged row holds the same samples.
bool is_kept(SQLite::Database& database, const Record& record) {
  const auto where = "WHERE " + key_condition(Table::SampleBatch) + " AND digest = ?9";
  SQLite::Statement same(database, select_sql(Table::SampleBatch, where));
  bind_key(same, Table::SampleBatch, record.key);
  same.bind(9, record.digest);
  return has_sound_row(same, Table::SampleBatch);
}

/// Keeps samples with a date after that of the newest model, even if the clock has stepped back meanwhile: drift is
/// searched for in samples that are newer than the model.
void put_samples(SQLite::Database& database, const planner::Fingerprint& fingerprint, std::vector<Record> records) {
  if (records.empty()) return;
  put_fingerprint(database, fingerprint);
  const Record& first = records.front();
  const std::string newest_model = newest_date(database, Table::Model, first.key, first.created_at);
  for (Record& record : records) {
    if (record.created_at <= newest_model) record.created_at = later(newest_model, 1);
    put_record(database, Table::SampleBatch, record);
  }
}

std::vector<std::string> digests_of(const std::vector<Record>& records) {
  std::vector<std::string> digests;
  for (const Record& record : records) digests.push_back(record.digest);
  return digests;
}

/// Whether the records are all that is kept for their key.
bool are_all_kept(SQLite::Database& database, const PlanKey& key, const std::vector<Record>& records) {
  SQLite::Statement count(database, "SELECT count(*) FROM sample_batch WHERE " + key_condition(Table::SampleBatch));
  bind_key(count, Table::SampleBatch, key);
  count.executeStep();
  return std::cmp_equal(count.getColumn(0).getInt64(), records.size()) &&
         std::ranges::all_of(records, [&](const Record& record) { return is_kept(database, record); });
}

void delete_samples(SQLite::Database& database, const PlanKey& key) {
  SQLite::Statement remove(database, "DELETE FROM sample_batch WHERE " + key_condition(Table::SampleBatch));
  bind_key(remove, Table::SampleBatch, key);
  remove.exec();
}

/// The error for a file that cannot even be salvaged: its advice must not be to salvage it.
Error nothing_left(const Error& error, const fs::path& path) {
  if (error.code != ErrorCode::Corrupt) return error;
  return {ErrorCode::Corrupt, path.string(),
          "holds nothing that can be salvaged; restore it from an export or a backup, or move it away to start afresh"};
}

} // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::open(const fs::path& path, OpenMode mode) {
  if (path.empty()) return Error{ErrorCode::InvalidSpec, "store", "the path is empty; name a file, e.g. mc2.db"};
  auto opened = guarded(path, "Store::open", [&]() -> Result<Store> {
    const fs::path file = resolved(path);
    MC2_ASSIGN(auto database,
               mode == OpenMode::ReadWrite ? open_read_write(path, file) : open_to_read(path, file, mode));
    return Store(std::make_unique<Impl>(Impl{path, mode, std::move(database), write_turn(file)}));
  });
  if (!opened && mode == OpenMode::Salvage) return nothing_left(opened.error(), path);
  return opened;
}

const fs::path& Store::path() const noexcept { return impl_->path; }

Result<void> Store::Impl::require_replaceable(const std::optional<Record>& kept, const MayReplace& may_replace) const {
  if (!may_replace || may_replace(kept ? std::optional(kept->digest) : std::nullopt)) return {};
  return error(ErrorCode::Stale, "keeps another document for the same operator and machine than the one to replace");
}

Result<std::string> Store::Impl::put(const char* call, Table table, const planner::Fingerprint& fingerprint,
                                     Record record, const MayReplace& may_replace) {
  MC2_TRY(require_machine(fingerprint));
  return write_documents(call, [&]() -> Result<std::string> {
    std::optional<Record> kept; // none for measurements, of which a key has many
    if (table != Table::Measurement)
      if (auto found = find_record(database, table, record.key)) kept = std::move(found).value(); // else it is damaged
    MC2_TRY(require_replaceable(kept, may_replace));
    put_fingerprint(database, fingerprint);
    const bool is_unchanged = kept && kept->digest == record.digest;
    if (table == Table::Plan && is_unchanged) return record.digest;
    if (table == Table::Model) { // its date is compared with those of samples
      const std::string newest_sample = newest_date(database, Table::SampleBatch, record.key, record.created_at);
      if (is_unchanged && newest_sample <= kept->created_at && kept->created_at <= record.created_at)
        return record.digest;
      record.created_at = std::max(record.created_at, newest_sample); // even if the clock stepped back
    }
    put_record(database, table, record);
    return record.digest;
  });
}

Result<std::vector<std::string>> Store::append_samples(const planner::OpSpec& op,
                                                       const planner::Fingerprint& fingerprint,
                                                       std::span<const planner::Sample> samples,
                                                       const std::string& created_at) {
  MC2_TRY(require_machine(fingerprint));
  MC2_ASSIGN(const auto records, sample_records(op, fingerprint, samples, created_at));
  return impl_->write_documents("Store::append_samples", [&]() -> Result<std::vector<std::string>> {
    put_samples(impl_->database, fingerprint, records);
    return digests_of(records);
  });
}

Result<AddedSamples> Store::add_new_samples(const planner::OpSpec& op, const planner::Fingerprint& fingerprint,
                                            std::span<const planner::Sample> samples, const std::string& created_at) {
  MC2_TRY(require_machine(fingerprint));
  MC2_ASSIGN(auto records, sample_records(op, fingerprint, samples, created_at));
  return impl_->write_documents("Store::add_new_samples", [&]() -> Result<AddedSamples> {
    AddedSamples added{.digests = digests_of(records)};
    std::erase_if(records, [&](const Record& record) { return is_kept(impl_->database, record); });
    added.new_count = records.size();
    put_samples(impl_->database, fingerprint, std::move(records));
    return added;
  });
}

Result<void> Store::replace_samples(const planner::OpSpec& op, const planner::Fingerprint& fingerprint,
                                    std::span<const planner::Sample> samples, const std::string& created_at) {
  MC2_TRY(require_machine(fingerprint));
  MC2_ASSIGN(const auto records, sample_records(op, fingerprint, samples, created_at));
  return impl_->write_documents("Store::replace_samples", [&]() -> Result<void> {
    const PlanKey key{op, digest(fingerprint), ""};
    if (are_all_kept(impl_->database, key, records)) return {}; // with a new date they would pass for new samples
    delete_samples(impl_->database, key);
    put_samples(impl_->database, fingerprint, records);
    return {};
  });
}

Result<std::string> Store::put_model(const planner::CostModel& model, const std::string& created_at,
                                     const MayReplace& may_replace) {
  MC2_TRY(model.validate());
  MC2_TRY(model.fingerprint.require_ranks(model.op.world_size));
  Record record = make_record(model.op, model.fingerprint, encode(model), created_at);
  MC2_TRY(require_readable_back(model, record.document));
  return impl_->put("Store::put_model", Table::Model, model.fingerprint, std::move(record), may_replace);
}

namespace {

/// The benefit is the median of pairs, and the times are medians by themselves; on a machine whose speed changes they
/// do not agree to the digit. Errors: InvalidSpec where they tell of different measurements.
Result<void> require_plausible(const planner::Plan& plan) {
  constexpr double kMostApart = 3;
  if (!plan.validation) return {};
  const auto& raced = *plan.validation;
  const double most_apart = kMostApart * (raced.spread ? raced.spread->speed_range : 1);
  const double apart = (1 - raced.benefit) * raced.serial_us / raced.fused_us;
  if (apart <= most_apart && apart >= 1 / most_apart) return {};
  return Error{ErrorCode::InvalidSpec, "validation.benefit",
               "is " + number_text(raced.benefit) + ", but fused_us and serial_us give " +
                   number_text(1 - raced.fused_us / raced.serial_us)};
}

} // namespace

Result<std::string> Store::put_plan(const planner::Plan& plan, const std::string& purpose,
                                    const std::string& created_at, const MayReplace& may_replace) {
  MC2_TRY(require_fit_purpose(purpose));
  MC2_TRY(require_fit_counts(plan, purpose));
  MC2_TRY(check_plan(plan));
  MC2_TRY(plan.fingerprint.require_ranks(plan.op.world_size));
  MC2_TRY(require_plausible(plan));
  Record record = make_record(plan.op, plan.fingerprint, encode(plan), created_at);
  record.key.purpose = purpose;
  MC2_TRY(require_readable_back(plan, record.document));
  return impl_->put("Store::put_plan", Table::Plan, plan.fingerprint, std::move(record), may_replace);
}

Result<std::string> Store::add_measurement(const planner::Fingerprint& fingerprint, const Measurement& measurement,
                                           const std::string& created_at) {
  MC2_TRY(measurement.validate());
  MC2_TRY(fingerprint.require_ranks(measurement.op.world_size));
  const MeasurementRecord value{fingerprint, measurement};
  const Record record = make_record(measurement.op, fingerprint, encode(value), created_at);
  MC2_TRY(require_readable_back(value, record.document));
  return impl_->put("Store::add_measurement", Table::Measurement, fingerprint, record);
}

} // namespace mc2::store
