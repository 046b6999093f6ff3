#include <SQLiteCpp/Column.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codec_parts.hpp"
#include "digest_lookup.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "migrations.hpp"
#include "store_impl.hpp"

namespace mc2::store {
namespace {

/// The SQL condition of a filter, and the values of its parameters in their order.
class Conditions {
 public:
  Conditions(const ListFilter& filter, Table table) {
    // In the column, the options of an operator follow the name of its kind.
    if (filter.kind) add("(kind = ? OR kind LIKE ? || ' %')", std::string(to_string(*filter.kind)), 2);
    // 'g' sorts after the last hexadecimal digit, so the range holds the digests that begin with the digits.
    if (!filter.fingerprint_digest.empty())
      add("fingerprint_digest >= ? AND fingerprint_digest < ? || 'g'", filter.fingerprint_digest, 2);
    if (filter.dtype) add("dtype = ?", std::string(to_string(*filter.dtype)));
    if (filter.m) add("m = ?", *filter.m);
    if (filter.n) add("n = ?", *filter.n);
    if (filter.k) add("k = ?", *filter.k);
    if (filter.world_size) add("world_size = ?", std::int64_t{*filter.world_size});
    if (!filter.created_after.empty()) add("created_at > ?", filter.created_after);
    if (filter.before_row) add("id < ?", *filter.before_row);
    if (table == Table::Plan && !filter.without_purpose.empty())
      add("substr(purpose, 1, length(?)) <> ?", filter.without_purpose, 2);
  }

  [[nodiscard]] const std::string& sql() const noexcept { return sql_; }

  void bind(SQLite::Statement& statement) const {
    int index = 0;
    for (const Value& value : values_) {
      ++index;
      if (value.is_text)
        statement.bind(index, value.text);
      else
        statement.bind(index, value.number);
    }
  }

 private:
  struct Value {
    std::string text;
    std::int64_t number = 0;
    bool is_text = false;
  };

  void add(const std::string& condition, const std::string& text, int count = 1) {
    start(condition);
    values_.insert(values_.end(), static_cast<std::size_t>(count), Value{text, 0, true});
  }
  void add(const std::string& condition, std::int64_t number) {
    start(condition);
    values_.push_back({{}, number, false});
  }
  void start(const std::string& condition) { sql_ += (sql_.empty() ? "WHERE " : " AND ") + condition; }

  std::string sql_;
  std::vector<Value> values_;
};

template <typename Impl>
Result<std::vector<Listed>> list(const Impl& store, const char* call, Table table, const ListFilter& filter) {
  return store.read(call, [&]() -> Result<std::vector<Listed>> {
    const Conditions conditions(filter, table);
    SQLite::Statement statement(store.database, select_sql(table, conditions.sql() + " ORDER BY id DESC"));
    conditions.bind(statement);
    std::vector<Listed> listed;
    while (std::cmp_less(listed.size(), filter.limit) && statement.executeStep()) {
      auto record = current_record(statement, table);
      if (!record) continue; // check() reports it
      Record& row = record.value();
      listed.push_back({row.row_id, std::move(row.key), std::move(row.digest), std::move(row.created_at)});
    }
    return listed;
  });
}

/// The value of a stored document, found by its digest. Errors: as Store::find_plan, Stale included.
template <typename T, typename Stored, typename Impl>
Result<Stored> find_stored(const Impl& impl, const char* call, Table table, const std::string& digest_prefix) {
  return impl.read(call, [&]() -> Result<Stored> {
    auto record = find_by_digest(impl.database, table, digest_prefix);
    if (!record) return impl.located(record.error());
    auto value = decoded<T>(table, record.value());
    if (!value) return impl.located(value.error());
    Record& row = record.value();
    return Stored{std::move(value).value(), std::move(row.document), std::move(row.digest), std::move(row.created_at)};
  });
}

} // namespace

ListFilter filter_of_equal_costs(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) {
  const bool is_by_columns = planner::cut_axis(op) == planner::CutAxis::Columns;
  return {.kind = op.kind,
          .m = is_by_columns ? std::optional(op.m) : std::nullopt,
          .n = is_by_columns ? std::nullopt : std::optional(op.n),
          .k = op.k,
          .dtype = op.dtype,
          .world_size = op.world_size,
          .fingerprint_digest = digest(fingerprint)};
}

Result<std::vector<Listed>> Store::list_plans(const ListFilter& filter) const {
  return list(*impl_, "Store::list_plans", Table::Plan, filter);
}

Result<std::vector<Listed>> Store::list_models(const ListFilter& filter) const {
  return list(*impl_, "Store::list_models", Table::Model, filter);
}

Result<std::vector<Listed>> Store::list_samples(const ListFilter& filter) const {
  return list(*impl_, "Store::list_samples", Table::SampleBatch, filter);
}

Result<std::vector<Listed>> Store::list_measurements(const ListFilter& filter) const {
  return list(*impl_, "Store::list_measurements", Table::Measurement, filter);
}

Result<StoredModel> Store::find_model(const std::string& digest_prefix) const {
  return find_stored<planner::CostModel, StoredModel>(*impl_, "Store::find_model", Table::Model, digest_prefix);
}

Result<StoredSamples> Store::find_samples(const std::string& digest_prefix) const {
  return find_stored<planner::Profile, StoredSamples>(*impl_, "Store::find_samples", Table::SampleBatch, digest_prefix);
}

Result<StoredMeasurement> Store::find_measurement(const std::string& digest_prefix) const {
  return find_stored<MeasurementRecord, StoredMeasurement>(*impl_, "Store::find_measurement", Table::Measurement,
                                                           digest_prefix);
}

namespace {

/// The machine of this digest, as a document that is kept of it says; none if no such document can be read.
std::optional<planner::Fingerprint> fingerprint_in_documents(const SQLite::Database& database,
                                                             const std::string& digest_text) {
  for (const TableTraits& traits : all_tables()) {
    SQLite::Statement statement(database, select_sql(traits.table, "WHERE fingerprint_digest = ?1"));
    statement.bind(1, digest_text);
    while (statement.executeStep()) {
      const auto record = current_record(statement, traits.table);
      auto machine = record ? traits.read_fingerprint(record.value().document) : record.error();
      if (machine && digest(machine.value()) == digest_text) return std::move(machine).value();
    }
  }
  return std::nullopt;
}

} // namespace

Result<std::vector<StoredFingerprint>> Store::list_fingerprints() const {
  return impl_->read("Store::list_fingerprints", [&]() -> Result<std::vector<StoredFingerprint>> {
    const bool counts = read_schema_state(impl_->database).version >= kNotesChanges;
    SQLite::Statement statement(impl_->database, std::string("SELECT digest, document, ") +
                                                     (counts ? "revision" : "0") + " FROM fingerprint ORDER BY id");
    std::vector<StoredFingerprint> listed;
    while (statement.executeStep()) {
      std::string digest_text = statement.getColumn(0).getString();
      const auto read = decode_fingerprint(statement.getColumn(1).getString());
      // The digest is computed from the content, so a row that does not match is damaged.
      auto machine = read && digest(read.value()) == digest_text
                         ? std::optional(read.value())
                         : fingerprint_in_documents(impl_->database, digest_text);
      if (machine) listed.push_back({std::move(digest_text), *std::move(machine), statement.getColumn(2).getInt64()});
    }
    return listed;
  });
}

namespace {

/// Checks that all changes after `since` are still recorded. Errors: Stale (since).
Result<void> require_told(std::int64_t since, std::int64_t oldest, std::int64_t newest) {
  if (since > newest)
    return Error{
        ErrorCode::Stale, "since",
        "is " + std::to_string(since) + ", but the store is at " + std::to_string(newest) +
            ": this is another store, or an earlier copy. Read all its documents again, and go on from that epoch"};
  if (since >= oldest) return {};
  return Error{ErrorCode::Stale, "since",
               "is " + std::to_string(since) + ", and changes are known since " + std::to_string(oldest) +
                   " only. Read all documents of the store again, and go on from " + std::to_string(newest)};
}

} // namespace

std::int64_t Store::Impl::oldest_told() const {
  SQLite::Statement statement(database, "SELECT coalesce(min(revision), 0) FROM change");
  statement.executeStep();
  return statement.getColumn(0).getInt64();
}

Result<std::int64_t> Store::Impl::revision() const {
  SQLite::Statement statement(database, "SELECT value FROM revision WHERE id = 1");
  if (!statement.executeStep()) return error(ErrorCode::Corrupt, "has lost its revision");
  return statement.getColumn(0).getInt64();
}

Result<Changes> Store::Impl::changes_since(std::int64_t since, int limit, bool with_rows) const {
  if (read_schema_state(database).version < kNotesChanges)
    return error(ErrorCode::ReadOnly,
                 "was written by an older mc2 and does not record changes; it will from the next document on that is "
                 "kept in it");
  MC2_ASSIGN(const auto newest, revision());
  MC2_TRY(require_told(since, oldest_told(), newest));
  return read_changes(database, since, newest, limit, with_rows);
}

Result<std::int64_t> Store::revision() const {
  return impl_->read("Store::revision", [&] { return impl_->revision(); });
}

Result<std::int64_t> Store::token_revision() const {
  return impl_->read("Store::token_revision", [&]() -> Result<std::int64_t> {
    if (read_schema_state(impl_->database).version < kHasReplicas) return 0;
    return impl_->database.execAndGet("SELECT token_value FROM revision WHERE id = 1").getInt64();
  });
}

Result<Changes> Store::changes_since(std::int64_t revision, int limit) const {
  return impl_->read("Store::changes_since", [&] { return impl_->changes_since(revision, limit, false); });
}

namespace {

template <typename Impl>
Result<void> remove(Impl& store, const char* call, Table table, const std::string& digest) {
  const TableTraits& traits = traits_of(table);
  return store.write_documents(call, [&]() -> Result<void> {
    SQLite::Statement statement(store.database, "DELETE FROM " + std::string(traits.name) + " WHERE digest = ?1");
    statement.bind(1, digest);
    if (statement.exec() == 0)
      return store.error(ErrorCode::NotFound, "has no " + std::string(traits.noun) + " with digest " + digest);
    return {};
  });
}

template <typename Impl>
Result<std::int64_t> remove_before(Impl& store, const char* call, Table table, const std::string& moment) {
  const std::string name(traits_of(table).name);
  return store.write_documents(call, [&]() -> Result<std::int64_t> {
    SQLite::Statement statement(store.database, "DELETE FROM " + name + " WHERE id IN (SELECT id FROM " + name +
                                                    " WHERE created_at < ?1 LIMIT ?2)");
    statement.bind(1, moment);
    statement.bind(2, kMostRemoved);
    return statement.exec();
  });
}

} // namespace

Result<std::int64_t> Store::remove_batches_before(const std::string& moment) {
  return remove_before(*impl_, "Store::remove_batches_before", Table::SampleBatch, moment);
}

Result<std::int64_t> Store::remove_models_before(const std::string& moment) {
  return remove_before(*impl_, "Store::remove_models_before", Table::Model, moment);
}

Result<std::int64_t> Store::remove_measurements_before(const std::string& moment) {
  return remove_before(*impl_, "Store::remove_measurements_before", Table::Measurement, moment);
}

Result<void> Store::remove_plan(const std::string& digest) {
  return remove(*impl_, "Store::remove_plan", Table::Plan, digest);
}

Result<void> Store::remove_model(const std::string& digest) {
  return remove(*impl_, "Store::remove_model", Table::Model, digest);
}

Result<void> Store::remove_batch(const std::string& digest) {
  return remove(*impl_, "Store::remove_batch", Table::SampleBatch, digest);
}

Result<void> Store::remove_measurement(const std::string& digest) {
  return remove(*impl_, "Store::remove_measurement", Table::Measurement, digest);
}

} // namespace mc2::store
