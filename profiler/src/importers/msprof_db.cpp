#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <array>
#include <memory>
#include <string>

#include "fields.hpp"
#include "formats.hpp"
#include "full_array.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "msprof_names.hpp"

namespace mc2::profiler {
namespace msprof_db {
namespace {

using planner::Collective;

constexpr std::size_t kMaxDatabaseBytes = 256 << 20; ///< of one that is compressed or not in a file
constexpr std::size_t kMaxTypeCode = 12;

/// ENUM_HCCL_DATA_TYPE of the msprof manual: element bytes by code.
constexpr std::array<std::int64_t, kMaxTypeCode + 1> kTypeBytes{1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16};

Error unreadable(const std::string& what) { return {ErrorCode::Malformed, "", what}; }

/// Opens the file itself, or a copy of its bytes in memory, read-only and with nothing of the file's own run.
std::unique_ptr<SQLite::Database> open_database(LogReader& reader, std::string& copy) {
  if (const auto path = reader.source().path(); !path.empty() && !reader.is_compressed())
    return std::make_unique<SQLite::Database>(path.string(), SQLite::OPEN_READONLY);
  auto bytes = reader.rest(kMaxDatabaseBytes);
  if (!bytes) return nullptr;
  copy = std::move(bytes).value();
  auto database = std::make_unique<SQLite::Database>(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  const int code = sqlite3_deserialize(database->getHandle(), "main", reinterpret_cast<unsigned char*>(copy.data()),
                                       static_cast<sqlite3_int64>(copy.size()), static_cast<sqlite3_int64>(copy.size()),
                                       SQLITE_DESERIALIZE_READONLY);
  return code == SQLITE_OK ? std::move(database) : nullptr;
}

/// A view or a virtual table would run what the file says.
bool is_plain_table(SQLite::Database& database, const std::string& name) {
  SQLite::Statement query(database, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?");
  query.bind(1, name);
  return query.executeStep() && plain(query.getColumn(0).getString().substr(0, 16)).starts_with("createtable");
}

bool has_column(SQLite::Database& database, const std::string& table, const std::string& column) {
  SQLite::Statement query(database, "SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
  query.bind(1, table);
  query.bind(2, column);
  return query.executeStep();
}

std::string query_text(bool has_strings, bool has_type, bool has_types) {
  const std::string name = has_strings ? "COALESCE(n.value, c.opName)" : "c.opName";
  const std::string type = !has_type ? "''" : has_strings ? "COALESCE(t.value, c.opType)" : "c.opType";
  std::string sql = "SELECT c.rowid, " + name + ", " + type + ", c.startNs, c.endNs, c.count, c.dataType, ";
  sql += has_types ? "e.name" : "NULL";
  sql += " FROM COMMUNICATION_OP c";
  if (has_strings) sql += " LEFT JOIN STRING_IDS n ON n.id = c.opName";
  if (has_strings && has_type) sql += " LEFT JOIN STRING_IDS t ON t.id = c.opType";
  if (has_types) sql += " LEFT JOIN ENUM_HCCL_DATA_TYPE e ON e.id = c.dataType";
  return sql;
}

std::optional<std::int64_t> element_bytes(const SQLite::Column& code, const SQLite::Column& name) {
  if (name.isText())
    if (const auto bytes = find_element_bytes(name.getString())) return bytes;
  if (code.isText()) return find_element_bytes(code.getString());
  const std::int64_t number = code.isInteger() ? code.getInt64() : -1;
  if (number < 0 || number > static_cast<std::int64_t>(kMaxTypeCode)) return std::nullopt;
  return kTypeBytes[static_cast<std::size_t>(number)];
}

void read_row(SQLite::Statement& row, const ImportAnswers& answers, LogSink& sink) {
  const std::int64_t line = row.getColumn(0).getInt64();
  const std::string name = row.getColumn(1).getString(), type = row.getColumn(2).getString();
  const MsprofOperator found = find_msprof_operator(type, name);
  if (found.work != MsprofWork::Collective) return sink.skip(line, "no collective that mc2 plans");
  if (!row.getColumn(3).isInteger() || !row.getColumn(4).isInteger() || !row.getColumn(5).isInteger())
    return sink.bad(line, "startNs, endNs or count is no whole number");
  std::int64_t time = 0;
  if (__builtin_sub_overflow(row.getColumn(4).getInt64(), row.getColumn(3).getInt64(), &time) || time <= 0)
    return sink.bad(line, "it ends before it starts, or takes no time");
  const auto bytes = element_bytes(row.getColumn(6), row.getColumn(7));
  const std::int64_t count = row.getColumn(5).getInt64();
  if (!bytes || count < 1 || count > kMaxMessageBytes / *bytes)
    return sink.bad(line, "its count or element type is unknown");
  const auto meaning = hccl_counts_part(found.collective) ? SizeMeaning::PerRank : SizeMeaning::FullArray;
  const int world_size = answers.world_size.value_or(0);
  const auto full = full_array_bytes(count * *bytes, meaning, world_size);
  if (!full && world_size == 0) {
    sink.ask("how many ranks took part (--ranks)");
    return sink.skip(line, "the count is one rank's part and the table does not say how many ranks there were");
  }
  sink.take(line,
            {.collective = found.collective, .message_bytes = full.value_or(0), .time = std::chrono::nanoseconds(time)},
            std::string(planner::to_string(found.collective)));
}

Result<void> read_database(SQLite::Database& database, const ImportAnswers& answers, LogSink& sink) {
  database.exec("PRAGMA trusted_schema = OFF");
  database.exec("PRAGMA cell_size_check = ON");
  if (!is_plain_table(database, "COMMUNICATION_OP"))
    return unreadable("has no table COMMUNICATION_OP: it was written without communication data");
  for (const char* column : {"opName", "startNs", "endNs", "count", "dataType"})
    if (!has_column(database, "COMMUNICATION_OP", column))
      return unreadable(std::string("table COMMUNICATION_OP has no column ") + column +
                        ", which carries the size; profile with CANN 8 or later");
  const bool has_strings = is_plain_table(database, "STRING_IDS"),
             has_types = is_plain_table(database, "ENUM_HCCL_DATA_TYPE");
  SQLite::Statement rows(database,
                         query_text(has_strings, has_column(database, "COMMUNICATION_OP", "opType"), has_types));
  while (rows.executeStep()) read_row(rows, answers, sink);
  return {};
}

} // namespace
} // namespace msprof_db

bool detect_msprof_db(std::string_view head) { return head.starts_with(kSqliteHeader); }

Result<void> read_msprof_db(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  using namespace msprof_db;
  std::string copy;
  try {
    const auto database = open_database(reader, copy);
    if (!database) return unreadable("is larger than 256 MiB and not a file that SQLite can open; unpack it first");
    return read_database(*database, answers, sink);
  } catch (const SQLite::Exception& error) {
    sink.bad(1, std::string("SQLite cannot read it: ") + shown(error.what()));
    return {};
  }
}

} // namespace mc2::profiler
