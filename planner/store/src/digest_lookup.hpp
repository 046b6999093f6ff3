#pragma once

#include <SQLiteCpp/Database.h>

#include <string>

#include "mc2/planner/error.hpp"
#include "records.hpp"

namespace mc2::store {

/// The newest plan or model whose digest begins like this. Errors: InvalidSpec for what is no prefix of 6 to 64 digits,
/// and when several digests begin like this; NotFound; Corrupt.
[[nodiscard]] Result<Record> find_by_digest(const SQLite::Database& database, Table table, const std::string& prefix);

} // namespace mc2::store
