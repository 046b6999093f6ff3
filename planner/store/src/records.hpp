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
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/store/store.hpp"

/// Rows of schemas/sql/: one document under a key, with its checksum.
namespace mc2::store {

enum class Table : std::uint8_t { SampleBatch, Model, Plan, Measurement };

struct TableTraits {
  Table table;
  std::string_view name;       ///< in SQL
  std::string_view noun;       ///< for people
  std::string_view export_key; ///< in an exported document
  bool has_purpose;
  bool has_unique_key; ///< one document per key; the other tables collect
  /// Of a document, which is read to its end. Errors: as the decoder.
  Result<planner::Fingerprint> (*read_fingerprint)(std::string_view document);
};

/// In the order of schemas/sql/001_initial.sql.
[[nodiscard]] const std::array<TableTraits, 4>& all_tables() noexcept;
[[nodiscard]] const TableTraits& traits_of(Table table);

/// What is kept, before and after it is a row. `purpose` is empty outside the plan table.
struct Record {
  std::int64_t row_id = 0;
  PlanKey key;
  std::string created_at;
  std::string digest; ///< of the document
  std::string document;
};

/// Whether a plan may answer everybody, as "tuned" and "tuned VARIANT" do. Errors: InvalidSpec for one of counts.
[[nodiscard]] Result<void> require_fit_counts(const planner::Plan& plan, std::string_view purpose);

/// A record of a value that was just encoded. `purpose` stays empty outside the plan table.
[[nodiscard]] Record make_record(const planner::OpSpec& op, const planner::Fingerprint& fingerprint,
                                 std::string document, const std::string& created_at);

/// SHA-256 over what a row holds, each part length-prefixed so that no two rows share a text.
[[nodiscard]] std::string hashed(std::initializer_list<std::string_view> parts);
/// hashed() over table, key, creation time and document.
[[nodiscard]] std::string checksum(Table table, const Record& record);

[[nodiscard]] std::string fingerprint_digest(const planner::Fingerprint& fingerprint);

/// Keeps the fingerprint that documents refer to, or repairs its row.
void put_fingerprint(SQLite::Database& database, const planner::Fingerprint& fingerprint);
/// Inserts, replacing the row under the same key where a table has unique keys.
void put_record(SQLite::Database& database, Table table, const Record& record);

/// An operator without its sizes, from the column `kind`. Errors: whatever is wrong with the text.
[[nodiscard]] Result<planner::OpSpec> read_kind_column(const std::string& column);

/// "SELECT <columns> FROM <table> " + tail, for next_record.
[[nodiscard]] std::string select_sql(Table table, std::string_view tail);
/// "fingerprint_digest = ?1 AND ..." over the whole key, for bind_key.
[[nodiscard]] std::string key_condition(Table table);
void bind_key(SQLite::Statement& statement, Table table, const PlanKey& key);

/// The current row of a select_sql statement.
/// Errors: Corrupt when the checksum does not cover what the row holds.
[[nodiscard]] Result<Record> current_record(const SQLite::Statement& statement, Table table);

/// As above, and Corrupt when the row stands under another key than the one that was asked for: an index is damaged.
[[nodiscard]] Result<Record> current_record(const SQLite::Statement& statement, Table table, const PlanKey& key);

/// Changes after `since`, of a store that has the revision `newest`; without those of operators that this mc2 does not
/// know.
/// @param with_rows  whether to name each change's row, as RawDocument::row_id
[[nodiscard]] Changes read_changes(const SQLite::Database& database, std::int64_t since, std::int64_t newest, int limit,
                                   bool with_rows);
/// The table whose documents a Change calls this; none for another word.
[[nodiscard]] std::optional<Table> table_of(std::string_view noun) noexcept;

/// The row that a change names, as it stands there; without a document where it is gone, damaged or another's.
[[nodiscard]] RawDocument read_raw(const SQLite::Database& database, Table table, const Change& change);
/// Inserts, replacing the rows of the same number and key.
void put_raw(SQLite::Database& database, Table table, const Change& change);

/// Whether a select_sql statement gives a row that is as it was kept.
[[nodiscard]] bool has_sound_row(SQLite::Statement& rows, Table table);

/// The row under a key of a table with unique keys; nothing when there is none. Errors: Corrupt.
[[nodiscard]] Result<std::optional<Record>> find_record(const SQLite::Database& database, Table table,
                                                        const PlanKey& key);

/// SQL for the number of samples in the documents of sample_batch, whatever state they are in.
inline constexpr std::string_view kSampleCountSql =
    "coalesce(sum(CASE WHEN json_valid(document) THEN json_array_length(document, '$.samples') END), 0)";

/// Handed a record whose document can be read, and the fingerprint in it.
using VisitRecord = std::function<void(const Record&, const planner::Fingerprint&)>;
/// Visits every undamaged record by ascending row and returns what is damaged, however badly the file is.
[[nodiscard]] std::vector<Damage> scan_records(const SQLite::Database& database, Table table, const VisitRecord& visit);

/// Rows of the fingerprint table whose checksum or digest does not match. Adds the rows seen to `row_count`.
[[nodiscard]] std::vector<Damage> scan_fingerprints(const SQLite::Database& database, std::int64_t& row_count);

/// Rows of the token table whose checksum does not match. Adds the rows seen to `row_count`.
[[nodiscard]] std::vector<Damage> scan_tokens(SQLite::Database& database, std::int64_t& row_count);

} // namespace mc2::store
