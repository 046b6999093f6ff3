#include <SQLiteCpp/Column.h>
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "codec_parts.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/dates.hpp"
#include "mc2/store/store.hpp"
#include "migrations.hpp"
#include "store_impl.hpp"

/// Functions for whole stores: check, count, export, import and merge.
namespace mc2::store {
namespace {

/// Limits of an export, which may be far larger than one document.
constexpr JsonLimits kExportLimits{
    .max_bytes = kMaxExportBytes, .max_value_count = 100'000'000, .max_array_length = 10'000'000, .max_depth = 32};
constexpr std::size_t kShownDigits = 12;

/// A record, with its table and fingerprint.
struct Entry {
  Table table;
  planner::Fingerprint fingerprint;
  Record record;
};

struct Contents {
  std::vector<Entry> entries;
  std::vector<Damage> damages;
  std::vector<std::string> refused; ///< invalid documents of an export, with the reason
};

Contents read_contents(const SQLite::Database& database) {
  Contents result;
  for (const TableTraits& traits : all_tables()) {
    const auto damages = scan_records(database, traits.table, [&](const Record& record, const auto& fingerprint) {
      result.entries.push_back({traits.table, fingerprint, record});
    });
    result.damages.insert(result.damages.end(), damages.begin(), damages.end());
  }
  return result;
}

std::string damage_text(const Damage& damage) {
  return damage.table + (damage.row_id > 0 ? " row " + std::to_string(damage.row_id) : "") + ": " + damage.what;
}

std::string conflict_text(Table table, const Record& ours, const Record& theirs) {
  const auto shown = [](const Record& record) {
    return record.digest.substr(0, kShownDigits) + " of " + one_line(record.created_at);
  };
  return std::string(traits_of(table).noun) + " for " + ours.key.op.text() +
         (ours.key.purpose.empty() ? "" : " (" + one_line(ours.key.purpose, 24) + ")") + ": kept ours " + shown(ours) +
         ", left theirs " + shown(theirs);
}

/// Whether an undamaged row of a table without unique keys already holds exactly this record.
bool has_same_row(const SQLite::Database& database, Table table, const Record& record) {
  SQLite::Statement statement(database, select_sql(table, "WHERE checksum = ?1"));
  statement.bind(1, checksum(table, record));
  return has_sound_row(statement, table);
}

void add(SQLite::Database& database, const Entry& entry, MergeReport& report) {
  const bool is_unique = traits_of(entry.table).has_unique_key;
  if (!is_unique && has_same_row(database, entry.table, entry.record)) {
    ++report.same_count;
    return;
  }
  if (is_unique) {
    // A damaged row of ours gives way to theirs.
    const auto ours = find_record(database, entry.table, entry.record.key);
    if (ours && ours.value() && ours.value()->digest == entry.record.digest) {
      ++report.same_count;
      return;
    }
    if (ours && ours.value()) {
      report.conflicts.push_back(conflict_text(entry.table, *ours.value(), entry.record));
      return;
    }
  }
  put_fingerprint(database, entry.fingerprint);
  put_record(database, entry.table, entry.record);
  ++report.added_count;
}

/// Documents are added in several transactions, each with at most so many documents or bytes, so that other users of
/// the store wait for one transaction at most. If the program ends in between, the next call adds the rest.
constexpr std::size_t kEntriesPerWrite = 256, kBytesPerWrite = 8U << 20U;

/// The end of the transaction that begins with entry `first`.
std::size_t end_of_part(const std::vector<Entry>& entries, std::size_t first) {
  std::size_t end = first, bytes = 0;
  while (end < entries.size() && end - first < kEntriesPerWrite && bytes < kBytesPerWrite)
    bytes += entries[end++].record.document.size();
  return end;
}

/// Adds the report of one transaction to that of all.
void append(MergeReport& report, MergeReport part) {
  report.added_count += part.added_count;
  report.same_count += part.same_count;
  std::ranges::move(part.conflicts, std::back_inserter(report.conflicts));
}

Error after_some(const Error& error, const MergeReport& report) {
  return {error.code, error.field,
          error.message + "; " + std::to_string(report.added_count) +
              " documents were added before, and adding the same again adds the rest"};
}

template <typename Impl>
Result<MergeReport> add_all(Impl& store, const char* call, const Contents& contents) {
  MergeReport report;
  for (const Damage& damage : contents.damages) report.damaged.push_back(damage_text(damage));
  report.refused = contents.refused;
  std::size_t next = 0;
  do { // runs once even without entries, to report a store that cannot be written
    const std::size_t end = end_of_part(contents.entries, next);
    auto part = store.write_documents(call, [&]() -> Result<MergeReport> {
      MergeReport added;
      for (std::size_t i = next; i < end; ++i) add(store.database, contents.entries[i], added);
      return added;
    });
    if (!part) return next == 0 ? part.error() : after_some(part.error(), report);
    append(report, std::move(part).value());
    next = end;
  } while (next < contents.entries.size());
  return report;
}

/// An entry of an export. The document is copied as it is kept, not encoded again.
std::string entry_json(const Entry& entry) {
  std::string result = "{\"created_at\":" + dump(entry.record.created_at) + ",\"document\":" + entry.record.document;
  if (traits_of(entry.table).has_purpose) result += ",\"purpose\":" + dump(entry.record.key.purpose);
  return result + "}";
}

std::string entries_json(const Contents& contents, Table table) {
  std::string result = "["; // may be a gibibyte, so no list of its parts is made first
  for (const Entry& entry : contents.entries)
    if (entry.table == table) result.append(result.size() > 1 ? "," : "").append(entry_json(entry));
  return result.append("]");
}

std::string moment_at(const Node& node) {
  std::string text = node.text();
  if (later(text, 0).empty())
    node.fail(ErrorCode::Malformed, "is '" + text.substr(0, 32) + "', no moment such as 2027-01-31T12:00:00Z");
  return text;
}

/// Reads one entry of an export. Returns the errors of its document, which alone is then refused. Errors around the
/// document are recorded in the status of `fields` and fail the whole export.
template <typename T>
Result<Entry> read_entry(const Fields& fields, Table table) {
  ReadStatus status;
  const Node whole = fields["document"], document = whole.apart(status);
  const T value = read_document<T>(document);
  const std::string created_at = moment_at(fields["created_at"]);
  if (status.error) return *status.error;
  document.check(value.fingerprint.require_speeds());
  Entry entry{table, {}, {}};
  entry.fingerprint = value.fingerprint;
  if constexpr (std::is_same_v<T, planner::Plan>) {
    const std::string purpose = fields["purpose"].text();
    document.check(require_fit_counts(value, purpose));
    entry.record = make_record(value.op, value.fingerprint, encode(value), created_at);
    entry.record.key.purpose = purpose;
  } else if constexpr (std::is_same_v<T, MeasurementRecord>)
    entry.record = make_record(value.measurement.op, value.fingerprint, encode(value), created_at);
  else
    entry.record = make_record(value.op, value.fingerprint, encode(value), created_at);
  if (status.error) return *status.error;
  return entry;
}

Result<Entry> read_table_entry(const Node& node, Table table) {
  if (table == Table::Plan) {
    const Fields fields(node, {"created_at", "document", "purpose"});
    return read_entry<planner::Plan>(fields, table);
  }
  const Fields fields(node, {"created_at", "document"});
  switch (table) {
    case Table::SampleBatch: return read_entry<planner::Profile>(fields, table);
    case Table::Model: return read_entry<planner::CostModel>(fields, table);
    default: return read_entry<MeasurementRecord>(fields, table);
  }
}

/// Errors: Malformed, NewerVersion, UnknownName, InvalidSpec.
Result<Contents> decode_export(std::string_view text) {
  MC2_ASSIGN(const auto json, parse_json(text, kExportLimits));
  ReadStatus status;
  const Node root(json, status);
  check_schema(root, "store");
  const Fields fields(root, {"damages", "measurements", "models", "plans", "samples", "schema"});
  Contents contents;
  static_cast<void>(fields["damages"].list([](const Node& node) { return node.text(); }));
  for (const TableTraits& traits : all_tables()) {
    const Node list = fields[traits.export_key];
    for (auto& entry : list.list([&](const Node& node) { return read_table_entry(node, traits.table); }))
      if (entry)
        contents.entries.push_back(std::move(entry).value());
      else
        contents.refused.push_back(entry.error().text());
  }
  if (status.error) return *status.error;
  return contents;
}

std::int64_t count(SQLite::Database& database, const std::string& what) {
  return database.execAndGet("SELECT " + what).getInt64();
}

/// The first few lines of SQLite's own check, or "ok".
std::string integrity(SQLite::Database& database) {
  std::vector<std::string> lines;
  SQLite::Statement statement(database, "PRAGMA integrity_check(5)");
  while (statement.executeStep()) lines.push_back(one_line(statement.getColumn(0).getString()));
  SQLite::Statement orphans(database, "PRAGMA foreign_key_check");
  if (orphans.executeStep()) lines.push_back(orphans.getColumn(0).getString() + " refers to a missing fingerprint");
  return list_text(lines, "; ");
}

} // namespace

CheckReport Store::check() const {
  CheckReport report;
  const auto verdict = impl_->read("Store::check", [&]() -> Result<std::string> {
    report.damages = scan_fingerprints(impl_->database, report.row_count);
    const auto tokens = scan_tokens(impl_->database, report.row_count);
    report.damages.insert(report.damages.end(), tokens.begin(), tokens.end());
    for (const TableTraits& traits : all_tables()) {
      const auto damages =
          scan_records(impl_->database, traits.table, [&](const Record&, const auto&) { ++report.row_count; });
      report.damages.insert(report.damages.end(), damages.begin(), damages.end());
      report.row_count += static_cast<std::int64_t>(damages.size());
    }
    const std::string fault = tables_fault(impl_->database, migrations()), said = integrity(impl_->database);
    return fault.empty() ? said : said == "ok" ? fault : fault + "; " + said;
  });
  report.database_check = verdict ? verdict.value() : verdict.error().message;
  report.is_healthy = report.database_check == "ok" && report.damages.empty();
  return report;
}

Result<StoreStats> Store::stats() const {
  return impl_->read("Store::stats", [&]() -> Result<StoreStats> {
    SQLite::Database& database = impl_->database;
    StoreStats stats;
    stats.path = impl_->path;
    stats.schema_version = read_schema_state(database).version;
    stats.file_bytes = count(database, "page_count * page_size FROM pragma_page_count, pragma_page_size");
    stats.fingerprint_count = count(database, "count(*) FROM fingerprint");
    stats.sample_count = count(database,
                               "coalesce(sum(CASE WHEN json_valid(document) THEN json_array_length(document, "
                               "'$.samples') END), 0) FROM sample_batch");
    stats.model_count = count(database, "count(*) FROM model");
    stats.plan_count = count(database, "count(*) FROM plan");
    stats.measurement_count = count(database, "count(*) FROM measurement");
    return stats;
  });
}

Result<std::string> Store::latest_date() const {
  return impl_->read("Store::latest_date", [&]() -> Result<std::string> {
    std::string newest;
    for (const char* table : {"sample_batch", "model", "plan", "measurement"}) {
      const std::string last = "(SELECT created_at FROM " + std::string(table) + " ORDER BY id DESC LIMIT 100)";
      newest =
          std::max(newest, impl_->database.execAndGet("SELECT coalesce(max(created_at), '') FROM " + last).getString());
    }
    return newest;
  });
}

Result<Exported> Store::export_all() const {
  return impl_->read("Store::export_all", [&]() -> Result<Exported> {
    const Contents contents = read_contents(impl_->database);
    Exported exported;
    for (const Damage& damage : contents.damages)
      if (const auto text = damage_text(damage); std::ranges::find(exported.damaged, text) == exported.damaged.end())
        exported.damaged.push_back(text);
    exported.json = "{\"damages\":" + dump(Json(exported.damaged)) +
                    ",\"measurements\":" + entries_json(contents, Table::Measurement) +
                    ",\"models\":" + entries_json(contents, Table::Model) +
                    ",\"plans\":" + entries_json(contents, Table::Plan) +
                    ",\"samples\":" + entries_json(contents, Table::SampleBatch) +
                    ",\"schema\":" + dump(schema_name("store")) + "}";
    return exported;
  });
}

Result<std::string> Store::export_json() const {
  MC2_ASSIGN(auto exported, export_all());
  return std::move(exported).json;
}

Result<std::vector<StoredPlan>> plans_of_export(std::string_view json) {
  MC2_ASSIGN(auto contents, decode_export(json));
  std::vector<StoredPlan> plans;
  for (Entry& entry : contents.entries) {
    if (entry.table != Table::Plan) continue;
    Record& record = entry.record;
    auto plan = decode_document<planner::Plan>(record.document).value(); // decode_export() has read it before
    plans.push_back({record.key, std::move(plan), std::move(record.document), record.digest, record.created_at});
  }
  return plans;
}

Result<MergeReport> Store::import_json(std::string_view json) {
  MC2_ASSIGN(const auto contents, decode_export(json));
  return add_all(*impl_, "Store::import_json", contents);
}

Result<MergeReport> Store::merge(const Store& other) {
  // Read everything before writing: both stores may be the same file.
  MC2_ASSIGN(const auto contents, other.impl_->read("Store::merge", [&]() -> Result<Contents> {
    return read_contents(other.impl_->database);
  }));
  return add_all(*impl_, "Store::merge", contents);
}

} // namespace mc2::store
