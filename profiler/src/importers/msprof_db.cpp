#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "event_name.hpp"
#include "fields.hpp"
#include "full_array.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/profiler/importer.hpp"
#include "msprof_kernels.hpp"
#include "msprof_names.hpp"

namespace mc2::profiler {
namespace msprof_db {
namespace {

using planner::Collective;

constexpr std::size_t kMaxDatabaseBytes = 256 << 20; ///< limit for a database that is compressed or not in a file
constexpr std::size_t kMaxTypeCode = 12;

/// ENUM_HCCL_DATA_TYPE of the msprof manual: element bytes by code.
constexpr std::array<std::int64_t, kMaxTypeCode + 1> kTypeBytes{1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16};

Error unreadable(const std::string& what) { return {ErrorCode::Malformed, "", what}; }

/// A temporary folder; the destructor removes it with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "mc2-import-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  /// Path of the folder; empty where it could not be made.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Whether the database keeps changes in a file beside it (SQLite's file format, 1.3: read version 2). Reading such a
/// database also creates files beside it.
bool has_side_files(std::string_view head) {
  constexpr std::size_t kReadVersionAt = 19;
  return head.size() > kReadVersionAt && head[kReadVersionAt] == 2;
}

/// Copies a database with its side file. Errors: Malformed where there is no room for the copy.
Result<std::filesystem::path> copy_with_side_file(const std::filesystem::path& from, const TemporaryFolder& to) {
  const auto copy = to.path() / "log.db";
  std::error_code failure;
  const bool is_copied = !to.path().empty() && std::filesystem::copy_file(from, copy, failure);
  const std::filesystem::path side = from.string() + "-wal";
  if (is_copied && std::filesystem::exists(side, failure))
    std::filesystem::copy_file(side, copy.string() + "-wal", failure);
  if (is_copied && !failure) return copy;
  return unreadable("is in WAL mode, and there is no room in " + std::filesystem::temp_directory_path().string() +
                    " for the copy that is read instead");
}

/// Opens the file itself read-only, or a copy of its bytes in memory.
std::unique_ptr<SQLite::Database> open_database(LogReader& reader, std::string& copy) {
  if (const auto path = reader.source().path(); !path.empty() && !reader.is_compressed())
    return std::make_unique<SQLite::Database>(path.string(), SQLite::OPEN_READONLY);
  auto bytes = reader.rest(kMaxDatabaseBytes);
  if (!bytes) return nullptr;
  copy = std::move(bytes).value();
  // The copy has no side file, so it shows the state when the side file was last merged.
  if (has_side_files(copy)) copy[18] = copy[19] = 1;
  auto database = std::make_unique<SQLite::Database>(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  const int code = sqlite3_deserialize(database->getHandle(), "main", reinterpret_cast<unsigned char*>(copy.data()),
                                       static_cast<sqlite3_int64>(copy.size()), static_cast<sqlite3_int64>(copy.size()),
                                       SQLITE_DESERIALIZE_READONLY);
  return code == SQLITE_OK ? std::move(database) : nullptr;
}

/// Whether the name is a plain table. A view or a virtual table would run SQL or modules that the file names.
bool is_plain_table(SQLite::Database& database, const std::string& name) {
  SQLite::Statement query(database, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?");
  query.bind(1, name);
  return query.executeStep() && plain(query.getColumn(0).getString().substr(0, 16)).starts_with("createtable");
}

bool has_column(SQLite::Database& database, const std::string& table, const std::string& column) {
  SQLite::Statement query(database, "SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
  query.bind(1, table);
  query.bind(2, column);
  return query.executeStep();
}

constexpr int kNoRank = -1;

/// The ranks that were profiled, by device; kNoRank for a device of several or of an unknown one.
std::map<std::int64_t, int> profiled_ranks(SQLite::Database& database) {
  std::map<std::int64_t, int> ranks;
  if (!is_plain_table(database, "RANK_DEVICE_MAP") || !has_column(database, "RANK_DEVICE_MAP", "rankId")) return ranks;
  const std::string device = has_column(database, "RANK_DEVICE_MAP", "deviceId") ? "deviceId" : "0";
  SQLite::Statement query(database, "SELECT DISTINCT rankId, " + device + " FROM RANK_DEVICE_MAP LIMIT 1024");
  while (query.executeStep()) {
    const std::int64_t id = query.getColumn(0).isInteger() ? query.getColumn(0).getInt64() : -1;
    const bool is_rank = id >= 0 && id < planner::kMaxWorldSize;
    const auto [at, is_new] =
        ranks.try_emplace(query.getColumn(1).getInt64(), is_rank ? static_cast<int>(id) : kNoRank);
    if (!is_new) at->second = kNoRank;
  }
  return ranks;
}

/// Names the runs of one database and the ranks that tell them.
class RunTellers {
 public:
  /// @param log  names the database, so that runs of others get other names
  RunTellers(std::uint64_t log, std::map<std::int64_t, int> ranks) : log_(log), ranks_(std::move(ranks)) {}

  /// Sets event and rank. A run that cannot be matched with those of other ranks gets an event of its own.
  /// @param run  run_name()
  /// @param device  nothing where the table does not say whose run it is
  void name(Timing& timing, std::optional<std::uint64_t> run, std::optional<std::int64_t> device) {
    const auto rank = rank_of(device);
    const auto teller = static_cast<std::uint64_t>(device.value_or(0));
    const bool is_matched = run && (rank || device);
    timing.event = is_matched ? runs_.next(*run, teller) : event_name(log_, ++run_count_);
    timing.rank = rank.value_or(static_cast<int>(spread_number(log_, teller) & INT32_MAX)); // hosts number alike
  }

 private:
  /// The rank of the device, or of the only one that there is.
  [[nodiscard]] std::optional<int> rank_of(std::optional<std::int64_t> device) const {
    const auto at = device ? ranks_.find(*device) : ranks_.size() == 1 ? ranks_.begin() : ranks_.end();
    return at == ranks_.end() || at->second == kNoRank ? std::nullopt : std::optional(at->second);
  }

  std::uint64_t log_;
  std::map<std::int64_t, int> ranks_; ///< profiled_ranks()
  RunNames runs_;
  std::uint64_t run_count_ = 0;
};

/// Which tables and columns a database has. They differ between versions and profiling levels.
struct Layout {
  bool has_strings = false, has_type = false, has_types = false, has_ranks = false, has_groups = false;
  bool has_devices = false;
};

std::string query_text(const Layout& layout) {
  const auto& [has_strings, has_type, has_types, has_ranks, has_groups, has_devices] = layout;
  const std::string name = has_strings ? "COALESCE(n.value, c.opName)" : "c.opName";
  const std::string type = !has_type ? "''" : has_strings ? "COALESCE(t.value, c.opType)" : "c.opType";
  std::string sql = "SELECT c.rowid, " + name + ", " + type + ", c.startNs, c.endNs, c.count, c.dataType, ";
  sql += has_types ? "e.name, " : "NULL, ";
  sql += has_ranks ? "c.rankSize, " : "NULL, ";
  sql += !has_groups ? "NULL, " : has_strings ? "COALESCE(g.value, c.groupName), " : "c.groupName, ";
  sql += has_devices ? "c.deviceId" : "NULL";
  sql += " FROM COMMUNICATION_OP c";
  if (has_strings) sql += " LEFT JOIN STRING_IDS n ON n.id = c.opName";
  if (has_strings && has_groups) sql += " LEFT JOIN STRING_IDS g ON g.id = c.groupName";
  if (has_strings && has_type) sql += " LEFT JOIN STRING_IDS t ON t.id = c.opType";
  if (has_types) sql += " LEFT JOIN ENUM_HCCL_DATA_TYPE e ON e.id = c.dataType";
  return sql;
}

std::optional<std::int64_t> element_bytes(const SQLite::Column& code, const SQLite::Column& name) {
  if (name.isText())
    if (const auto bytes = find_element_bytes(name.getString())) return bytes;
  if (code.isText()) return find_element_bytes(code.getString());
  const std::int64_t number = code.isInteger() ? code.getInt64() : -1;
  if (number < 0 || number > static_cast<std::int64_t>(kMaxTypeCode)) return std::nullopt;
  return kTypeBytes[static_cast<std::size_t>(number)];
}

/// The number of ranks of the group; 0 where the profiler does not state it.
int group_ranks(const SQLite::Column& column) {
  const std::int64_t ranks = column.isInteger() ? column.getInt64() : 0;
  return ranks >= 2 && ranks <= planner::kMaxWorldSize ? static_cast<int>(ranks) : 0;
}

/// Whether the row was profiled at level 0. Count and type are then -1 and 65534; the operator's name still names the
/// collective.
bool is_level_0(SQLite::Statement& row) {
  constexpr std::int64_t kNoType = 65534;
  return row.getColumn(5).getInt64() == -1 || (row.getColumn(6).isInteger() && row.getColumn(6).getInt64() == kNoType);
}

/// A name that a run has in the databases of all ranks. The profiler numbers the runs of a group, as in
/// "hcom_allReduce__568_0_1".
std::optional<std::uint64_t> run_name(SQLite::Statement& row, const std::string& name) {
  const std::string group = row.getColumn(9).isNull() ? "N/A" : row.getColumn(9).getString();
  if (name.find("__") == std::string::npos || group == "N/A") return std::nullopt;
  return group_name(group + " " + name);
}

/// Takes a run, whose time is set already, with the size of its message, or skips it where the size is unknown.
void take_sized(SQLite::Statement& row, Timing timing, const ImportAnswers& answers, LogSink& sink) {
  const std::int64_t line = row.getColumn(0).getInt64();
  const std::string_view collective = planner::to_string(timing.collective);
  if (is_level_0(row)) {
    if (!answers.message_bytes) sink.ask("the collectives' bytes (--bytes); or profile with level 1");
    if (!answers.message_bytes) return sink.skip(line, "profiled at level 0, which has no sizes");
    timing.message_bytes = *answers.message_bytes;
    return sink.take(line, timing, collective);
  }
  const auto bytes = element_bytes(row.getColumn(6), row.getColumn(7));
  const std::int64_t count = row.getColumn(5).getInt64();
  if (!bytes || count < 1 || count > kMaxMessageBytes / *bytes)
    return sink.bad(line, "its count or element type is unknown");
  const auto meaning = hccl_counts_part(timing.collective) ? SizeMeaning::PerRank : SizeMeaning::FullArray;
  const int world_size = timing.world_size > 0 ? timing.world_size : answers.world_size.value_or(0);
  const auto full = full_array_bytes(count * *bytes, meaning, world_size);
  if (!full && world_size == 0) {
    sink.ask(kAskRanks);
    return sink.skip(line, "the count is one rank's part and the table does not say how many ranks there were");
  }
  timing.message_bytes = full.value_or(0);
  sink.take(line, timing, collective);
}

void read_row(SQLite::Statement& row, const ImportAnswers& answers, RunTellers& tellers, LogSink& sink) {
  const std::int64_t line = row.getColumn(0).getInt64();
  const std::string name = row.getColumn(1).getString();
  std::string type = row.getColumn(2).getString();
  if (type == "N/A") type.clear();
  const MsprofOperator found = find_msprof_operator(type, name);
  if (found.work != MsprofWork::Collective) return sink.skip(line, "no collective that mc2 plans");
  Timing timing{.collective = found.collective, .world_size = group_ranks(row.getColumn(8))};
  const auto device =
      row.getColumn(10).isInteger() ? std::optional<std::int64_t>(row.getColumn(10).getInt64()) : std::nullopt;
  tellers.name(timing, run_name(row, name), device); // before the time check: bad rows count as runs
  if (!row.getColumn(3).isInteger() || !row.getColumn(4).isInteger() || !row.getColumn(5).isInteger())
    return sink.bad(line, "startNs, endNs or count is no whole number");
  std::int64_t time = 0;
  if (__builtin_sub_overflow(row.getColumn(4).getInt64(), row.getColumn(3).getInt64(), &time) || time <= 0)
    return sink.bad(line, "it ends before it starts, or takes no time");
  timing.time = std::chrono::nanoseconds(time);
  take_sized(row, timing, answers, sink);
}

/// "12.345" for 12345 ns.
std::string us_text(std::int64_t ns) {
  return (ns < 0 ? "-" : "") + std::to_string(std::abs(ns / 1000)) + "." +
         std::to_string(1000 + std::abs(ns % 1000)).substr(1);
}

/// Reads matmuls and fused operators in the form of op_summary. The tables are those of the msprof_*.db manual, where
/// texts are numbers of STRING_IDS.
void read_kernels(SQLite::Database& database, const ImportAnswers& answers, LogSink& sink) {
  const bool has_formats = has_column(database, "COMPUTE_TASK_INFO", "inputFormats") &&
                           has_column(database, "COMPUTE_TASK_INFO", "outputFormats");
  SQLite::Statement rows(
      database,
      std::string("SELECT i.rowid, n.value, o.value, k.endNs - k.startNs, s.value, t.value, p.value, k.deviceId, "
                  "k.startNs, ") +
          (has_formats ? "f.value, g.value " : "'', '' ") +
          "FROM COMPUTE_TASK_INFO i JOIN TASK k ON k.globalTaskId = i.globalTaskId "
          "LEFT JOIN STRING_IDS n ON n.id = i.name LEFT JOIN STRING_IDS o ON o.id = i.opType "
          "LEFT JOIN STRING_IDS s ON s.id = i.inputShapes LEFT JOIN STRING_IDS t ON t.id = i.inputDataTypes "
          "LEFT JOIN STRING_IDS p ON p.id = i.outputShapes " +
          (has_formats ? "LEFT JOIN STRING_IDS f ON f.id = i.inputFormats "
                         "LEFT JOIN STRING_IDS g ON g.id = i.outputFormats "
                       : "") +
          "ORDER BY k.deviceId, k.startNs");
  read_msprof_kernels(answers, sink, [&]() -> std::optional<MsprofKernel> {
    if (!rows.executeStep()) return std::nullopt;
    const auto text = [&](int column) { return rows.getColumn(column).getString(); };
    const std::int64_t time_ns = rows.getColumn(3).getInt64();
    return MsprofKernel{.line = rows.getColumn(0).getInt64(),
                        .cells = {text(1), text(2), us_text(time_ns), text(4), text(5), text(6), text(9), text(10),
                                  text(7), "", text(8), ""}};
  });
}

bool has_kernel_tables(SQLite::Database& database) {
  for (const char* table : {"COMPUTE_TASK_INFO", "TASK", "STRING_IDS"})
    if (!is_plain_table(database, table)) return false;
  for (const char* column : {"name", "opType", "inputShapes", "inputDataTypes", "outputShapes", "globalTaskId"})
    if (!has_column(database, "COMPUTE_TASK_INFO", column)) return false;
  for (const char* column : {"startNs", "endNs", "globalTaskId", "deviceId"})
    if (!has_column(database, "TASK", column)) return false;
  return true;
}

/// @param log  names the database, so that runs of others get other names
Result<void> read_database(SQLite::Database& database, std::uint64_t log, const ImportAnswers& answers, LogSink& sink) {
  database.exec("PRAGMA trusted_schema = OFF");
  database.exec("PRAGMA cell_size_check = ON");
  if (is_plain_table(database, "CUPTI_ACTIVITY_KIND_KERNEL"))
    return unreadable(
        "is a database of Nsight Systems; import what nsys stats --report cuda_gpu_trace:nvtx-name --format csv "
        "prints");
  const bool has_kernels = has_kernel_tables(database);
  if (has_kernels) read_kernels(database, answers, sink);
  if (!is_plain_table(database, "COMMUNICATION_OP"))
    return has_kernels ? Result<void>()
                       : unreadable(
                             "has neither table COMMUNICATION_OP nor TASK and COMPUTE_TASK_INFO: nothing was "
                             "profiled");
  for (const char* column : {"opName", "startNs", "endNs", "count", "dataType"})
    if (!has_column(database, "COMMUNICATION_OP", column))
      return unreadable(std::string("table COMMUNICATION_OP has no column ") + column +
                        ", which carries the size; profile with CANN 8 or later");
  const Layout layout{.has_strings = is_plain_table(database, "STRING_IDS"),
                      .has_type = has_column(database, "COMMUNICATION_OP", "opType"),
                      .has_types = is_plain_table(database, "ENUM_HCCL_DATA_TYPE"),
                      .has_ranks = has_column(database, "COMMUNICATION_OP", "rankSize"),
                      .has_groups = has_column(database, "COMMUNICATION_OP", "groupName"),
                      .has_devices = has_column(database, "COMMUNICATION_OP", "deviceId")};
  SQLite::Statement rows(database, query_text(layout));
  RunTellers tellers(log, profiled_ranks(database));
  while (rows.executeStep()) read_row(rows, answers, tellers, sink);
  return {};
}

} // namespace
} // namespace msprof_db

bool detect_msprof_db(std::string_view head) { return head.starts_with(kSqliteHeader); }

Result<void> read_msprof_db(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  using namespace msprof_db;
  std::string copy;
  try {
    const auto path = reader.source().path();
    // The path, too: databases in WAL mode may begin alike, and differ in the files beside them.
    const std::uint64_t log = group_name(path.string().append(reader.head()));
    if (!path.empty() && !reader.is_compressed() && has_side_files(reader.head())) {
      const TemporaryFolder folder;
      MC2_ASSIGN(const auto copied, copy_with_side_file(path, folder));
      SQLite::Database database(copied.string(), SQLite::OPEN_READWRITE);
      return read_database(database, log, answers, sink);
    }
    const auto database = open_database(reader, copy);
    if (!database) return unreadable("is larger than 256 MiB and not a file that SQLite can open; unpack it first");
    return read_database(*database, log, answers, sink);
  } catch (const SQLite::Exception& error) {
    sink.bad(1, std::string("SQLite cannot read it: ") + shown(error.what()));
    return {};
  }
}

} // namespace mc2::profiler
