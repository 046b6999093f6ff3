#include "migrations.hpp"

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <set>
#include <string>

#include "file_place.hpp"

namespace mc2::store {
namespace {

/// Errors: NewerVersion; Corrupt if the file is not an undamaged mc2 store.
Result<void> validate(const SchemaState& state, const std::filesystem::path& path, int latest) {
  const bool is_fresh = !state.has_tables && state.version == 0 && state.application_id == 0;
  if (is_fresh) return {};
  if (state.application_id != kApplicationId || !state.has_tables || state.version < 1)
    return Error{ErrorCode::Corrupt, path.string(),
                 "is an SQLite database, but no undamaged mc2 store; name another file, or move it away"};
  if (state.version > latest)
    return Error{ErrorCode::NewerVersion, path.string(),
                 "was written by a newer mc2 (schema " + std::to_string(state.version) + ", this one knows " +
                     std::to_string(latest) + "); update mc2 or name another store"};
  return {};
}

std::set<std::string> table_names(SQLite::Database& database) {
  std::set<std::string> names;
  SQLite::Statement rows(database, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*'");
  while (rows.executeStep()) names.insert(rows.getColumn(0).getString());
  return names;
}

int latest_version(std::span<const Migration> steps) { return steps.empty() ? 0 : steps.back().version; }

} // namespace

SchemaState read_schema_state(SQLite::Database& database) {
  return {database.execAndGet("PRAGMA user_version").getInt(), database.execAndGet("PRAGMA application_id").getInt(),
          database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() > 0};
}

std::string tables_fault(SQLite::Database& database, std::span<const Migration> steps) {
  const int version = read_schema_state(database).version;
  const auto there = table_names(database);
  SQLite::Database fresh(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  std::set<std::string> known;
  for (const Migration& step : steps) {
    fresh.exec(std::string(step.sql));
    for (const std::string& table : table_names(fresh)) {
      if (!known.insert(table).second || (step.version <= version) == there.contains(table)) continue;
      return "its schema number is " + std::to_string(version) + ", and table " + table + " of schema " +
             std::to_string(step.version) + (there.contains(table) ? " is there" : " is missing");
    }
  }
  return {};
}

Result<void> migrate(SQLite::Database& database, const std::filesystem::path& path, std::span<const Migration> steps) {
  const int latest = latest_version(steps);
  SchemaState state = read_schema_state(database);
  if (auto valid = validate(state, path, latest); !valid || state.version == latest) return valid;
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  state = read_schema_state(database); // another process may have migrated meanwhile
  MC2_TRY(validate(state, path, latest));
  if (const std::string fault = state.has_tables ? tables_fault(database, steps) : ""; !fault.empty())
    return Error{
        ErrorCode::Corrupt, path.string(),
        "is no undamaged mc2 store (" + fault + "); salvage it with 'mc2 db export', or move it away to start afresh"};
  for (const Migration& step : steps) {
    if (step.version <= state.version) continue;
    database.exec(std::string(step.sql));
    database.exec("PRAGMA user_version = " + std::to_string(step.version));
  }
  database.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
  transaction.commit();
  return {};
}

Result<void> require_readable(SQLite::Database& database, const std::filesystem::path& path,
                              std::span<const Migration> steps, int oldest_readable) {
  const SchemaState state = read_schema_state(database);
  MC2_TRY(validate(state, path, latest_version(steps)));
  if (!state.has_tables) return nothing_kept(path);
  if (state.version < oldest_readable)
    return Error{ErrorCode::ReadOnly, path.string(),
                 "was written by an older mc2 and must be brought up to date; open it once for writing"};
  return {};
}

} // namespace mc2::store
