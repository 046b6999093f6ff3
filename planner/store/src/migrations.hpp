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

/// What a database file claims to be.
struct SchemaState {
  int version = 0;
  int application_id = 0;
  bool has_tables = false;
};

[[nodiscard]] SchemaState read_schema_state(SQLite::Database& database);

/// A table that the schema's number says is there and is not, or that a later schema brings: "its schema number is 5,
/// and table replica of schema 6 is there". Empty where the number is right.
[[nodiscard]] std::string tables_fault(SQLite::Database& database, std::span<const Migration> steps);

/// Brings the schema up to date in one transaction; two processes may do so at once.
/// Errors: NewerVersion; Corrupt when the file holds another program's database or a damaged header, or as
/// tables_fault().
[[nodiscard]] Result<void> migrate(SQLite::Database& database, const std::filesystem::path& path,
                                   std::span<const Migration> steps);

/// Stores of this version are read as they are: later migrations only added what nobody who reads asks for.
inline constexpr int kOldestReadable = 1;

// From which schema on a store has it.
inline constexpr int kNotesChanges = 4; ///< 004_change.sql
inline constexpr int kHasHistory = 5;   ///< 005_history.sql
inline constexpr int kHasReplicas = 6;  ///< 006_replica.sql

/// For a file that is not written: as migrate, and ReadOnly for one older than `oldest_readable`.
[[nodiscard]] Result<void> require_readable(SQLite::Database& database, const std::filesystem::path& path,
                                            std::span<const Migration> steps, int oldest_readable);

} // namespace mc2::store
