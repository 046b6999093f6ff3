#include "digest_lookup.hpp"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>

#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::store {
namespace {

/// The only digest that begins with `prefix`. Errors: NotFound; InvalidSpec if there are several.
Result<std::string> whole_digest(const SQLite::Database& database, Table table, const std::string& prefix) {
  const TableTraits& traits = traits_of(table);
  // 'g' follows the last hexadecimal digit, so the range holds exactly the digests with this prefix.
  SQLite::Statement statement(database, "SELECT DISTINCT digest FROM " + std::string(traits.name) +
                                            " WHERE digest >= ?1 AND digest < ?1 || 'g' ORDER BY digest LIMIT 2");
  statement.bind(1, prefix);
  if (!statement.executeStep())
    return Error{ErrorCode::NotFound, "", "has no " + std::string(traits.noun) + " with digest " + prefix};
  const std::string first = statement.getColumn(0).getString();
  if (!statement.executeStep()) return first;
  return Error{ErrorCode::InvalidSpec, "digest",
               prefix + " is ambiguous; give more digits: " + one_line(first) + " or " +
                   one_line(statement.getColumn(0).getString())};
}

} // namespace

Result<Record> find_by_digest(const SQLite::Database& database, Table table, const std::string& prefix) {
  MC2_ASSIGN(const auto valid, read_digest(prefix));
  MC2_ASSIGN(const auto whole, whole_digest(database, table, valid));
  SQLite::Statement statement(database, select_sql(table, "WHERE digest = ?1 ORDER BY created_at DESC, id DESC"));
  statement.bind(1, whole);
  std::optional<Error> damage;
  while (statement.executeStep()) { // the same document may be kept several times, and one of them be damaged
    auto record = current_record(statement, table);
    if (record) return record;
    if (!damage) damage = record.error();
  }
  if (damage) return *damage;
  return Error{ErrorCode::Corrupt, "", "has a damaged index of " + std::string(traits_of(table).noun) + " digests"};
}

} // namespace mc2::store
