#include "records.hpp"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Exception.h>

#include <algorithm>
#include <set>
#include <utility>

#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "sqlite_errors.hpp"

namespace mc2::store {
namespace {

template <typename T>
Result<planner::Fingerprint> read_fingerprint(std::string_view document) {
  MC2_ASSIGN(auto decoded, decode_document<T>(document));
  return std::move(decoded.fingerprint);
}

constexpr std::array<TableTraits, 4> kTables{{
    {Table::SampleBatch, "sample_batch", "samples", "samples", false, false, read_fingerprint<planner::Profile>},
    {Table::Model, "model", "model", "models", false, true, read_fingerprint<planner::CostModel>},
    {Table::Plan, "plan", "plan", "plans", true, true, read_fingerprint<planner::Plan>},
    {Table::Measurement, "measurement", "measurement", "measurements", false, false,
     read_fingerprint<MeasurementRecord>},
}};

constexpr int kKeyColumnCount = 7; ///< without purpose

/// A row exactly as the file has it. If it is damaged, the values can be anything.
struct RawRow {
  std::int64_t id = 0;
  std::string fingerprint_digest, kind;
  std::int64_t m = 0, n = 0, k = 0;
  std::string dtype;
  std::int64_t world_size = 0;
  std::string purpose, created_at, digest, document, checksum;
};

/// The value of the column `kind`: the kind's name and, if the operator has options, these as canonical JSON. So the
/// options are part of every key.
std::string kind_column(const planner::OpSpec& op) {
  const Json options = write_object<kOpOptionFields>(op, planner::CutAxis::Rows);
  return std::string(to_string(op.kind)) + (options.empty() ? "" : " " + dump(options));
}

} // namespace

Result<planner::OpSpec> read_kind_column(const std::string& column) {
  const std::size_t space = column.find(' ');
  MC2_ASSIGN(const auto kind, planner::parse_op_kind(std::string_view(column).substr(0, space)));
  planner::OpSpec op;
  op.kind = kind;
  if (space == std::string::npos) return op;
  MC2_ASSIGN(const auto json, parse_json(std::string_view(column).substr(space + 1)));
  ReadStatus status;
  read_object<kOpOptionFields>(Node(json, status), op, planner::CutAxis::Rows);
  if (status.error) return *status.error;
  return op;
}

namespace {

/// Covers the document by its digest alone, so callers must check the digest first.
std::string checksum(Table table, const RawRow& row) {
  return hashed({traits_of(table).name, row.fingerprint_digest, row.kind, std::to_string(row.m), std::to_string(row.n),
                 std::to_string(row.k), row.dtype, std::to_string(row.world_size), row.purpose, row.created_at,
                 row.digest});
}

RawRow to_row(Table table, const Record& record) {
  const planner::OpSpec& op = record.key.op;
  RawRow row{record.row_id,
             record.key.fingerprint_digest,
             kind_column(op),
             op.m,
             op.n,
             op.k,
             std::string(to_string(op.dtype)),
             op.world_size,
             record.key.purpose,
             record.created_at,
             record.digest,
             record.document,
             {}};
  row.checksum = checksum(table, row);
  return row;
}

/// Reads the values of a row from left to right.
class Columns {
 public:
  explicit Columns(const SQLite::Statement& statement) : statement_(statement) {}
  [[nodiscard]] std::int64_t number() { return statement_.getColumn(index_++).getInt64(); }
  [[nodiscard]] std::string text() { return statement_.getColumn(index_++).getString(); }

 private:
  const SQLite::Statement& statement_;
  int index_ = 0;
};

/// Reads the row's number and key only.
RawRow read_key(Columns& columns) {
  RawRow row;
  row.id = columns.number();
  row.fingerprint_digest = columns.text();
  row.kind = columns.text();
  row.m = columns.number();
  row.n = columns.number();
  row.k = columns.number();
  row.dtype = columns.text();
  row.world_size = columns.number();
  row.purpose = columns.text();
  return row;
}

RawRow read_row(const SQLite::Statement& statement) {
  Columns columns(statement);
  RawRow row = read_key(columns);
  row.created_at = columns.text();
  row.digest = columns.text();
  row.document = columns.text();
  row.checksum = columns.text();
  return row;
}

Error damaged(Table table, std::int64_t row_id, const std::string& why) {
  return {ErrorCode::Corrupt, "",
          std::string(traits_of(table).noun) + " in row " + std::to_string(row_id) + " is damaged (" + why +
              "); make it anew, or restore the store from an export"};
}

/// The key of a row; none for an operator that this mc2 does not know.
std::optional<PlanKey> key_in(const RawRow& row) {
  auto op = read_kind_column(row.kind);
  const auto dtype = planner::parse_dtype(row.dtype);
  if (!op || !dtype || !std::in_range<int>(row.world_size)) return std::nullopt;
  op.value().m = row.m;
  op.value().n = row.n;
  op.value().k = row.k;
  op.value().dtype = dtype.value();
  op.value().world_size = static_cast<int>(row.world_size);
  return PlanKey{op.value(), row.fingerprint_digest, row.purpose};
}

/// Checks digest and checksum of a row. Errors: Corrupt.
Result<Record> verified(Table table, RawRow&& row) {
  if (digest(row.document) != row.digest) return damaged(table, row.id, "its document fails its checksum");
  if (checksum(table, row) != row.checksum) return damaged(table, row.id, "its key fails its checksum");
  auto key = key_in(row);
  if (!key) return damaged(table, row.id, "its key names an operator that this mc2 does not know");
  return Record{row.id, *std::move(key), std::move(row.created_at), std::move(row.digest), std::move(row.document)};
}

/// Runs `read`; returns SQLite's message if damage stops it, else none.
std::optional<std::string> damage_met(const std::function<void()>& read) {
  try {
    read();
  } catch (const SQLite::Exception& exception) {
    if (!is_damage(exception)) throw;
    return exception.what();
  }
  return std::nullopt;
}

/// Runs `visit_rows`; damage that stops SQLite itself becomes one more entry.
std::vector<Damage> collect(std::string_view table, const std::function<void(std::vector<Damage>&)>& visit_rows) {
  std::vector<Damage> damages;
  if (const auto said = damage_met([&] { visit_rows(damages); }))
    damages.push_back({std::string(table), 0, "cannot be read to its end: " + *said});
  return damages;
}

void add_ids(const SQLite::Database& database, std::string_view table, std::string_view order,
             std::set<std::int64_t>& ids) {
  SQLite::Statement statement(database, "SELECT id FROM " + std::string(table) + " ORDER BY id " + std::string(order));
  // Stops at a known row: a second pass, from the end, only has to reach the damage that ended the first.
  while (statement.executeStep() && ids.insert(statement.getColumn(0).getInt64()).second) {
  }
}

/// The rows of a table. If damage stops a scan, the rows before the first and after the last damaged place.
std::set<std::int64_t> ids_of(const SQLite::Database& database, std::string_view table, std::vector<Damage>& damages) {
  std::set<std::int64_t> ids;
  const auto blocked = damage_met([&] { add_ids(database, table, "ASC", ids); });
  if (!blocked) return ids;
  damages.push_back({std::string(table), 0, "cannot be read to its end: " + *blocked});
  static_cast<void>(damage_met([&] { add_ids(database, table, "DESC", ids); }));
  return ids;
}

/// Looks a row up by its id and visits it if it is undamaged. Errors: what is wrong with the row.
/// @param statement  from select_sql, with the id as its parameter
Result<void> visit_row(SQLite::Statement& statement, Table table, std::int64_t id, const VisitRecord& visit) {
  static_cast<void>(statement.tryReset()); // a reset returns the error of the row before again
  statement.bind(1, id);
  if (!statement.executeStep()) return damaged(table, id, "there is no row with its number");
  MC2_ASSIGN(const auto record, current_record(statement, table));
  MC2_ASSIGN(const auto fingerprint, traits_of(table).read_fingerprint(record.document));
  visit(record, fingerprint);
  return {};
}

std::string fingerprint_checksum(std::string_view digest_text, std::string_view document) {
  return hashed({"fingerprint", digest_text, document});
}

} // namespace

const std::array<TableTraits, 4>& all_tables() noexcept { return kTables; }

const TableTraits& traits_of(Table table) { return kTables[static_cast<std::size_t>(table)]; }

Record make_record(const planner::OpSpec& op, const planner::Fingerprint& fingerprint, std::string document,
                   const std::string& created_at) {
  std::string document_digest = digest(document);
  return {0, PlanKey{op, digest(fingerprint), ""}, created_at, std::move(document_digest), std::move(document)};
}

std::string hashed(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += std::to_string(part.size()) + ":" + std::string(part);
  return digest(text);
}

std::string checksum(Table table, const Record& record) { return to_row(table, record).checksum; }

void put_fingerprint(SQLite::Database& database, const planner::Fingerprint& fingerprint) {
  const std::string key = digest(fingerprint);
  const std::string document = encode(fingerprint);
  SQLite::Statement statement(
      database,
      "INSERT INTO fingerprint (digest, document, checksum) VALUES (?1, ?2, ?3) ON CONFLICT (digest) DO UPDATE SET "
      "document = excluded.document, checksum = excluded.checksum "
      "WHERE document <> excluded.document OR checksum <> excluded.checksum");
  statement.bind(1, key);
  statement.bind(2, document);
  statement.bind(3, fingerprint_checksum(key, document));
  statement.exec();
}

namespace {

/// @param row  with the number 0, the row gets the next free number
void insert(SQLite::Database& database, Table table, const PlanKey& key, const RawDocument& row,
            const std::string& document_digest) {
  const TableTraits& traits = traits_of(table);
  SQLite::Statement statement(
      database,
      "INSERT OR REPLACE INTO " + std::string(traits.name) +
          " (id, fingerprint_digest, kind, m, n, k, dtype, world_size, created_at, digest, document, checksum" +
          (traits.has_purpose ? ", purpose) VALUES (?13, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?9, ?10, ?11, ?12, ?8)"
                              : ") VALUES (?13, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?9, ?10, ?11, ?12)"));
  bind_key(statement, table, key);
  statement.bind(9, row.created_at);
  statement.bind(10, document_digest);
  statement.bind(11, row.document);
  statement.bind(12, row.checksum);
  if (row.row_id != 0) statement.bind(13, row.row_id); // else NULL
  statement.exec();
}

} // namespace

void put_record(SQLite::Database& database, Table table, const Record& record) {
  insert(database, table, record.key, {0, 0, record.created_at, record.document, checksum(table, record)},
         record.digest);
}

std::string select_sql(Table table, std::string_view tail) {
  const TableTraits& traits = traits_of(table);
  return std::string("SELECT id, fingerprint_digest, kind, m, n, k, dtype, world_size, ") +
         (traits.has_purpose ? "purpose" : "''") + ", created_at, digest, document, checksum FROM " +
         std::string(traits.name) + " " + std::string(tail);
}

std::string key_condition(Table table) {
  return std::string(
             "fingerprint_digest = ?1 AND kind = ?2 AND m = ?3 AND n = ?4 AND k = ?5 AND dtype = ?6 AND "
             "world_size = ?7") +
         (traits_of(table).has_purpose ? " AND purpose = ?8" : "");
}

void bind_key(SQLite::Statement& statement, Table table, const PlanKey& key) {
  statement.bind(1, key.fingerprint_digest);
  statement.bind(2, kind_column(key.op));
  statement.bind(3, key.op.m);
  statement.bind(4, key.op.n);
  statement.bind(5, key.op.k);
  statement.bind(6, std::string(to_string(key.op.dtype)));
  statement.bind(kKeyColumnCount, key.op.world_size);
  if (traits_of(table).has_purpose) statement.bind(kKeyColumnCount + 1, key.purpose);
}

Result<Record> current_record(const SQLite::Statement& statement, Table table) {
  return verified(table, read_row(statement));
}

Result<Record> current_record(const SQLite::Statement& statement, Table table, const PlanKey& key) {
  auto record = current_record(statement, table);
  if (record && record.value().key != key)
    return damaged(table, record.value().row_id, "its key differs from the key under which it was found");
  return record;
}

Error not_decoded(Table table, const Record& record, const Error& why) {
  return {why.code == ErrorCode::Stale ? ErrorCode::Stale : ErrorCode::Corrupt, "",
          std::string(traits_of(table).noun) + " in row " + std::to_string(record.row_id) + " cannot be read (" +
              why.text() + ")"};
}

std::optional<Table> table_of(std::string_view noun) noexcept {
  const auto* const traits = std::ranges::find(kTables, noun, &TableTraits::noun);
  return traits == kTables.end() ? std::nullopt : std::optional(traits->table);
}

RawDocument read_raw(const SQLite::Database& database, Table table, const Change& change) {
  const RawDocument gone{change.row->row_id, change.row->nonce, {}, {}, {}};
  SQLite::Statement statement(database, select_sql(table, "WHERE id = ?1 AND digest = ?2"));
  statement.bind(1, change.row->row_id);
  statement.bind(2, change.digest);
  if (!statement.executeStep() || !current_record(statement, table)) return gone;
  RawRow row = read_row(statement);
  return {row.id, gone.nonce, std::move(row.created_at), std::move(row.document), std::move(row.checksum)};
}

void put_raw(SQLite::Database& database, Table table, const Change& change) {
  const RawDocument& row = *change.row;
  insert(database, table, {change.op, change.fingerprint_digest, change.purpose}, row, change.digest);
}

Changes read_changes(const SQLite::Database& database, std::int64_t since, std::int64_t newest, int limit,
                     bool with_rows) {
  SQLite::Statement statement(
      database,
      "SELECT revision, fingerprint_digest, kind, m, n, k, dtype, world_size, purpose, digest, table_name, is_removal, "
      "row_id, nonce FROM change WHERE revision > ?1 ORDER BY revision LIMIT ?2");
  statement.bind(1, since);
  statement.bind(2, limit);
  Changes result{{}, newest};
  int row_count = 0;
  for (; statement.executeStep(); ++row_count) {
    Columns columns(statement);
    const RawRow row = read_key(columns);
    result.revision = row.id;
    std::string document_digest = columns.text();
    const auto* const traits = std::ranges::find(kTables, columns.text(), &TableTraits::name);
    const bool is_removal = columns.number() != 0;
    auto key = key_in(row);
    if (!key || traits == kTables.end()) continue;
    result.changes.push_back({row.id, std::string(traits->noun), is_removal, std::move(key->op),
                              std::move(key->fingerprint_digest), std::move(key->purpose), std::move(document_digest)});
    if (!with_rows) continue;
    const std::int64_t row_id = columns.number();
    result.changes.back().row = RawDocument{row_id, columns.number(), {}, {}, {}};
  }
  if (row_count < limit) result.revision = newest; // above the last change if tokens raised it, before schema 6
  return result;
}

bool has_sound_row(SQLite::Statement& rows, Table table) {
  while (rows.executeStep())
    if (current_record(rows, table)) return true;
  return false;
}

Result<std::optional<Record>> find_record(const SQLite::Database& database, Table table, const PlanKey& key) {
  SQLite::Statement statement(database, select_sql(table, "WHERE " + key_condition(table)));
  bind_key(statement, table, key);
  if (!statement.executeStep()) return std::optional<Record>();
  MC2_ASSIGN(auto record, current_record(statement, table, key));
  return std::optional<Record>(std::move(record));
}

std::vector<Damage> scan_records(const SQLite::Database& database, Table table, const VisitRecord& visit) {
  const TableTraits& traits = traits_of(table);
  return collect(traits.name, [&](std::vector<Damage>& damages) {
    const auto ids = ids_of(database, traits.name, damages);
    SQLite::Statement statement(database, select_sql(table, "WHERE id = ?1"));
    for (const std::int64_t id : ids) {
      Result<void> readable;
      if (const auto said = damage_met([&] { readable = visit_row(statement, table, id, visit); }))
        readable = damaged(table, id, *said);
      if (!readable && readable.error().code != ErrorCode::Stale) // Stale: sound, but its blocks are along another axis
        damages.push_back({std::string(traits.name), id, readable.error().text()});
    }
  });
}

std::vector<Damage> scan_fingerprints(const SQLite::Database& database, std::int64_t& row_count) {
  return collect("fingerprint", [&](std::vector<Damage>& damages) {
    SQLite::Statement statement(database, "SELECT id, digest, document, checksum FROM fingerprint ORDER BY id");
    while (statement.executeStep()) {
      ++row_count;
      const std::string key = statement.getColumn(1).getString();
      const std::string document = statement.getColumn(2).getString();
      if (fingerprint_checksum(key, document) != statement.getColumn(3).getString())
        damages.push_back({"fingerprint", statement.getColumn(0).getInt64(), "it fails its checksum"});
    }
  });
}

} // namespace mc2::store
