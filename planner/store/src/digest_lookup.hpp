#pragma once

#include <SQLiteCpp/Database.h>

#include <string>

#include "mc2/planner/error.hpp"
#include "records.hpp"

namespace mc2::store {

/// The newest document of a table whose digest begins with `prefix`. Errors: InvalidSpec if the prefix does not have 6
/// to 64 hexadecimal digits, or if several digests begin with it; NotFound; Corrupt.
[[nodiscard]] Result<Record> find_by_digest(const SQLite::Database& database, Table table, const std::string& prefix);

} // namespace mc2::store
