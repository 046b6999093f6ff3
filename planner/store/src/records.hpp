#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codec_parts.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/store/store.hpp"

/// Rows of the tables in schemas/sql/. A row is one document under a key, with a checksum.
namespace mc2::store {

enum class Table : std::uint8_t { SampleBatch, Model, Plan, Measurement };

struct TableTraits {
  Table table;
  std::string_view name;       ///< of the table in SQL
  std::string_view noun;       ///< what a document is called, for people and in Change::document
  std::string_view export_key; ///< the key of the table in an exported document
  bool has_purpose;
  bool has_unique_key; ///< whether there is at most one document per key
  /// Decodes a document and returns its fingerprint. Errors: as the decoder.
  Result<planner::Fingerprint> (*read_fingerprint)(std::string_view document);
};

/// All tables, in the order of schemas/sql/001_initial.sql.
[[nodiscard]] const std::array<TableTraits, 4>& all_tables() noexcept;
[[nodiscard]] const TableTraits& traits_of(Table table);

/// Keeps a batch of samples far below the codec's limit of 64 MiB per document.
inline constexpr std::size_t kSamplesPerBatch = 10'000;

/// The content of a row, before it is inserted or after it was read. `key.purpose` is empty except for plans.
struct Record {
  std::int64_t row_id = 0;
  PlanKey key;
  std::string created_at;
  std::string digest; ///< of the document
  std::string document;
};

/// Checks that the plan may have the purpose. Plans whose purpose begins with "tuned" answer any counts of rows.
/// Errors: InvalidSpec (counts) if such a plan is for particular counts.
[[nodiscard]] Result<void> require_fit_counts(const planner::Plan& plan, std::string_view purpose);

/// A record of a value that was just encoded. The caller sets `key.purpose` for plans.
[[nodiscard]] Record make_record(const planner::OpSpec& op, const planner::Fingerprint& fingerprint,
                                 std::string document, const std::string& created_at);

/// SHA-256 over the parts of a row. Each part is prefixed with its length, so that different rows give different texts.
[[nodiscard]] std::string hashed(std::initializer_list<std::string_view> parts);
/// hashed() over table, key, creation time and document.
[[nodiscard]] std::string checksum(Table table, const Record& record);

/// Inserts the fingerprint that documents refer to, or repairs its row.
void put_fingerprint(SQLite::Database& database, const planner::Fingerprint& fingerprint);
/// Inserts a record. Replaces the row under the same key if the table has unique keys.
void put_record(SQLite::Database& database, Table table, const Record& record);

/// Reads the column `kind`: an operator without sizes, element type and ranks. Errors: as parse_op_kind and parse_json.
[[nodiscard]] Result<planner::OpSpec> read_kind_column(const std::string& column);

/// "SELECT <columns> FROM <table> " + tail, for next_record.
[[nodiscard]] std::string select_sql(Table table, std::string_view tail);
/// "fingerprint_digest = ?1 AND ..." over the whole key, for bind_key.
[[nodiscard]] std::string key_condition(Table table);
void bind_key(SQLite::Statement& statement, Table table, const PlanKey& key);

/// The current row of a select_sql statement.
/// Errors: Corrupt if the checksum does not match the row, or the operator is unknown.
[[nodiscard]] Result<Record> current_record(const SQLite::Statement& statement, Table table);

/// As current_record(statement, table). Also Corrupt if the row has another key than `key`: an index is damaged.
[[nodiscard]] Result<Record> current_record(const SQLite::Statement& statement, Table table, const PlanKey& key);

/// The changes after revision `since` in a store at revision `newest`. Leaves out changes of operators that this mc2
/// does not know.
/// @param with_rows  whether to name each change's row, as RawDocument::row_id
[[nodiscard]] Changes read_changes(const SQLite::Database& database, std::int64_t since, std::int64_t newest, int limit,
                                   bool with_rows);
/// The table whose noun this is (see Change::document); none for another word.
[[nodiscard]] std::optional<Table> table_of(std::string_view noun) noexcept;

/// The row that a change names, exactly as kept. Without a document if the row is gone, damaged or holds another one.
[[nodiscard]] RawDocument read_raw(const SQLite::Database& database, Table table, const Change& change);
/// Inserts the row of a change. Replaces a row with the same number, and one with the same key if keys are unique.
void put_raw(SQLite::Database& database, Table table, const Change& change);

/// The error for a record whose checksum is right, but whose document was refused as `why`: Stale if its blocks are
/// along another axis than today's, else Corrupt, as it was kept by an mc2 with other rules.
[[nodiscard]] Error not_decoded(Table table, const Record& record, const Error& why);

/// Decodes the document of a record. Errors: as not_decoded().
template <typename T>
[[nodiscard]] Result<T> decoded(Table table, const Record& record) {
  auto value = decode_document<T>(record.document);
  if (!value) return not_decoded(table, record, value.error());
  return value;
}

/// Calls use(value, record) for every row of a select_sql statement that can be read; Store::check() reports the
/// others.
template <typename T, typename Use>
void each_readable(SQLite::Statement& statement, Table table, const Use& use) {
  while (statement.executeStep()) {
    const auto record = current_record(statement, table);
    if (!record) continue;
    if (auto value = decode_document<T>(record.value().document)) use(std::move(value).value(), record.value());
  }
}

/// Whether a select_sql statement gives at least one undamaged row.
[[nodiscard]] bool has_sound_row(SQLite::Statement& rows, Table table);

/// The row under a key of a table with unique keys; none if there is no such row. Errors: Corrupt.
[[nodiscard]] Result<std::optional<Record>> find_record(const SQLite::Database& database, Table table,
                                                        const PlanKey& key);

/// Called with a record whose document can be read, and the fingerprint in the document.
using VisitRecord = std::function<void(const Record&, const planner::Fingerprint&)>;
/// Visits every undamaged record by ascending row and returns the damage, also in a badly damaged file.
[[nodiscard]] std::vector<Damage> scan_records(const SQLite::Database& database, Table table, const VisitRecord& visit);

/// Rows of the fingerprint table whose checksum does not match. Adds the number of rows seen to `row_count`.
[[nodiscard]] std::vector<Damage> scan_fingerprints(const SQLite::Database& database, std::int64_t& row_count);

/// Rows of the token table whose checksum does not match. Adds the number of rows seen to `row_count`.
[[nodiscard]] std::vector<Damage> scan_tokens(SQLite::Database& database, std::int64_t& row_count);

} // namespace mc2::store
