#pragma once

#include <SQLiteCpp/Database.h>

#include <string>

#include "mc2/planner/error.hpp"
#include "records.hpp"

namespace mc2::store {

/// The prefix of a digest in lower case. Errors: InvalidSpec.
[[nodiscard]] planner::Result<std::string> valid_prefix(const std::string& prefix);

/// The one digest that begins like this among the plans or models. Errors: NotFound; InvalidSpec when several do.
[[nodiscard]] planner::Result<std::string> whole_digest(const SQLite::Database& database, Table table,
                                                        const std::string& prefix);

} // namespace mc2::store
