#include <SQLiteCpp/Column.h>

#include <string>
#include <utility>
#include <vector>

#include "digest_lookup.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "store_impl.hpp"

namespace mc2::store {
namespace {

using planner::ErrorCode;
using planner::Result;

/// What a filter asks of a row, and the values of its parameters in their order.
class Conditions {
 public:
  explicit Conditions(const ListFilter& filter) {
    // Options of an operator follow its kind's name in the column.
    if (filter.kind) add("(kind = ? OR kind LIKE ? || ' %')", std::string(to_string(*filter.kind)), 2);
    if (!filter.fingerprint_digest.empty()) add("fingerprint_digest = ?", filter.fingerprint_digest);
    if (filter.dtype) add("dtype = ?", std::string(to_string(*filter.dtype)));
    if (filter.m) add("m = ?", *filter.m);
    if (filter.n) add("n = ?", *filter.n);
    if (filter.k) add("k = ?", *filter.k);
    if (filter.world_size) add("world_size = ?", std::int64_t{*filter.world_size});
    if (filter.before_row) add("id < ?", *filter.before_row);
  }

  [[nodiscard]] const std::string& sql() const noexcept { return sql_; }

  void bind(SQLite::Statement& statement) const {
    int index = 0;
    for (const Value& value : values_) {
      ++index;
      if (value.is_text)
        statement.bind(index, value.text);
      else
        statement.bind(index, value.number);
    }
  }

 private:
  struct Value {
    std::string text;
    std::int64_t number = 0;
    bool is_text = false;
  };

  void add(const std::string& condition, const std::string& text, int count = 1) {
    start(condition);
    values_.insert(values_.end(), static_cast<std::size_t>(count), Value{text, 0, true});
  }
  void add(const std::string& condition, std::int64_t number) {
    start(condition);
    values_.push_back({{}, number, false});
  }
  void start(const std::string& condition) { sql_ += (sql_.empty() ? "WHERE " : " AND ") + condition; }

  std::string sql_;
  std::vector<Value> values_;
};

std::vector<Listed> list(const SQLite::Database& database, Table table, const ListFilter& filter) {
  const Conditions conditions(filter);
  SQLite::Statement statement(database, select_sql(table, conditions.sql() + " ORDER BY id DESC"));
  conditions.bind(statement);
  std::vector<Listed> listed;
  while (std::cmp_less(listed.size(), filter.limit) && statement.executeStep()) {
    auto record = current_record(statement, table);
    if (!record) continue; // check() reports it
    Record& row = record.value();
    listed.push_back({row.row_id, std::move(row.key), std::move(row.digest), std::move(row.created_at)});
  }
  return listed;
}

} // namespace

Result<std::vector<Listed>> Store::list_plans(const ListFilter& filter) const {
  return impl_->read("Store::list_plans",
                     [&]() -> Result<std::vector<Listed>> { return list(impl_->database, Table::Plan, filter); });
}

Result<std::vector<Listed>> Store::list_models(const ListFilter& filter) const {
  return impl_->read("Store::list_models",
                     [&]() -> Result<std::vector<Listed>> { return list(impl_->database, Table::Model, filter); });
}

Result<StoredModel> Store::find_model(const std::string& digest_prefix) const {
  return impl_->read("Store::find_model", [&]() -> Result<StoredModel> {
    auto record = find_by_digest(impl_->database, Table::Model, digest_prefix);
    if (!record) return impl_->located(record.error());
    auto model = decode_model(record.value().document);
    if (!model) return impl_->error(ErrorCode::Corrupt, "a model cannot be read (" + model.error().text() + ")");
    Record& row = record.value();
    return StoredModel{std::move(model).value(), std::move(row.document), std::move(row.digest),
                       std::move(row.created_at)};
  });
}

Result<std::vector<StoredFingerprint>> Store::list_fingerprints() const {
  return impl_->read("Store::list_fingerprints", [&]() -> Result<std::vector<StoredFingerprint>> {
    SQLite::Statement statement(impl_->database, "SELECT digest, document FROM fingerprint ORDER BY id");
    std::vector<StoredFingerprint> listed;
    while (statement.executeStep()) {
      std::string digest_text = statement.getColumn(0).getString();
      auto fingerprint = decode_fingerprint(statement.getColumn(1).getString());
      // The digest is of the content: what does not match is damaged.
      if (fingerprint && fingerprint_digest(fingerprint.value()) == digest_text)
        listed.push_back({std::move(digest_text), std::move(fingerprint).value()});
    }
    return listed;
  });
}

Result<std::int64_t> Store::revision() const {
  return impl_->read("Store::revision", [&]() -> Result<std::int64_t> {
    SQLite::Statement statement(impl_->database, "SELECT value FROM revision WHERE id = 1");
    if (!statement.executeStep()) return impl_->error(ErrorCode::Corrupt, "has lost its revision");
    return statement.getColumn(0).getInt64();
  });
}

Result<void> Store::remove_plan(const std::string& digest) {
  return impl_->write("Store::remove_plan", [&]() -> Result<void> {
    SQLite::Statement remove(impl_->database, "DELETE FROM plan WHERE digest = ?1");
    remove.bind(1, digest);
    if (remove.exec() == 0) return impl_->error(ErrorCode::NotFound, "has no plan with digest " + digest);
    return {};
  });
}

} // namespace mc2::store
