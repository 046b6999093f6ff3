#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"

namespace mc2::store {

/// One file of schemas/sql/.
struct Migration {
  int version; ///< PRAGMA user_version once it is applied
  std::string_view name;
  std::string_view sql;
};

/// PRAGMA application_id: "mc2s".
inline constexpr int kApplicationId = 0x6D633273;

/// Every migration, by ascending version; the build generates it from schemas/sql/.
[[nodiscard]] std::span<const Migration> migrations() noexcept;

/// What a database file says about its schema.
struct SchemaState {
  int version = 0;
  int application_id = 0;
  bool has_tables = false;
};

[[nodiscard]] SchemaState read_schema_state(SQLite::Database& database);

/// Names a table that contradicts the schema's number, because it is missing or belongs to a later schema: "its schema
/// number is 5, and table replica of schema 6 is there". Empty if there is none.
[[nodiscard]] std::string tables_fault(SQLite::Database& database, std::span<const Migration> steps);

/// Brings the schema up to date in one transaction. Several processes may do so at the same time.
/// Errors: NewerVersion; Corrupt if the file is another program's database, has a damaged header, or has a
/// tables_fault().
[[nodiscard]] Result<void> migrate(SQLite::Database& database, const std::filesystem::path& path,
                                   std::span<const Migration> steps);

/// The oldest schema that can be read without migration: reading does not need what later schemas add.
inline constexpr int kOldestReadable = 1;

// The first schema version that has each feature.
inline constexpr int kNotesChanges = 4; ///< 004_change.sql
inline constexpr int kHasHistory = 5;   ///< 005_history.sql
inline constexpr int kHasReplicas = 6;  ///< 006_replica.sql

/// Checks a file that is only read. Errors: NewerVersion and Corrupt as migrate(), but without tables_fault(); NotFound
/// for an empty store; ReadOnly for a schema older than `oldest_readable`.
[[nodiscard]] Result<void> require_readable(SQLite::Database& database, const std::filesystem::path& path,
                                            std::span<const Migration> steps, int oldest_readable);

} // namespace mc2::store
