#include <SQLiteCpp/Statement.h>

#include <algorithm>

#include "codec_parts.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "migrations.hpp"
#include "store_impl.hpp"

/// The history of a service's figures.
namespace mc2::store {
namespace {

/// The numbers in a row's document. Anything else is ignored, since other programs may have written the row.
std::map<std::string, double> numbers_in(const std::string& document) {
  std::map<std::string, double> numbers;
  const auto json = parse_json(document);
  if (!json || !json.value().is_object()) return numbers;
  for (const auto& [name, value] : json.value().items())
    if (value.is_number()) numbers.emplace(name, value.get<double>());
  return numbers;
}

} // namespace

std::string encode(const std::vector<HistoryPoint>& points) {
  Json list = Json::array();
  for (const HistoryPoint& point : points) list.push_back({{"moment", point.moment}, {"numbers", point.numbers}});
  return dump({{"points", std::move(list)}, {"schema", schema_name("history")}});
}

Result<void> Store::add_history(const HistoryPoint& point) {
  return impl_->write("Store::add_history", [&]() -> Result<void> {
    SQLite::Statement statement(impl_->database, "INSERT OR REPLACE INTO history (moment, document) VALUES (?1, ?2)");
    statement.bind(1, point.moment);
    statement.bind(2, dump(Json(point.numbers)));
    statement.exec();
    return {};
  });
}

Result<std::vector<HistoryPoint>> Store::history_after(const std::string& moment, int limit) const {
  return impl_->read("Store::history_after", [&]() -> Result<std::vector<HistoryPoint>> {
    std::vector<HistoryPoint> points;
    if (read_schema_state(impl_->database).version < kHasHistory) return points;
    SQLite::Statement statement(impl_->database,
                                "SELECT moment, document FROM history WHERE moment > ?1 ORDER BY moment DESC LIMIT ?2");
    statement.bind(1, moment);
    statement.bind(2, limit);
    while (statement.executeStep())
      points.push_back({statement.getColumn(0).getString(), numbers_in(statement.getColumn(1).getString())});
    std::ranges::reverse(points);
    return points;
  });
}

} // namespace mc2::store
