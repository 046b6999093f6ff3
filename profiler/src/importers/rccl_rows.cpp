#include "rccl_rows.hpp"

#include <array>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "csv_columns.hpp"
#include "fields.hpp"

namespace mc2::profiler {
namespace {

constexpr std::size_t kMaxRcclListBytes = 64 << 20;

/// The fields of the list, in the order of rccl_columns().
constexpr std::array<std::string_view, 11> kRcclFields{"name",    "ranks", "gpusPerRank", "size",  "type", "redop",
                                                       "inPlace", "time",  "algBw",       "busBw", "wrong"};

const std::vector<WantedColumn>& rccl_columns() {
  static const std::vector<WantedColumn> kColumns{{{"collective"}, "'collective'", true},
                                                  {{"ranks"}, "'ranks'", true},
                                                  {{"gpusperrank"}, "'gpusPerRank'", true},
                                                  {{"size"}, "'size'", true},
                                                  {{"type"}, ""},
                                                  {{"redop"}, ""},
                                                  {{"inplace"}, "'inplace'", true},
                                                  {{"time"}, "'time'", true, true},
                                                  {{"algbw"}, ""},
                                                  {{"busbw"}, ""},
                                                  {{"wrong"}, ""}};
  return kColumns;
}

/// A cell as a string of JSON.
std::string json_text(std::string_view cell) {
  return nlohmann::json(std::string(cell)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class RcclTable {
 public:
  explicit RcclTable(LogSink& sink) : sink_(sink), row_(rccl_columns()) {}

  [[nodiscard]] Result<void> begin(std::string_view heading) {
    list_ += '\n';
    return row_.read_heading(heading);
  }

  void read(const Line& line) {
    if (list_.size() > kMaxRcclListBytes) return sink_.bad(line.number, "is behind the first 64 MiB of the table");
    read_row(line);
    list_ += '\n';
  }

  [[nodiscard]] std::string list() const { return list_ + "]"; }

 private:
  void read_row(const Line& line) {
    if (trimmed(line.text).empty()) return sink_.skip(line.number, "blank");
    if (row_.is_heading(line.text)) return sink_.skip(line.number, "the heading again");
    if (const auto fault = row_.read_row(line)) return sink_.bad(line.number, *fault);
    list_ += std::exchange(has_rows_, true) ? ",{" : "{";
    const char* separator = "";
    for (std::size_t i = 0; i < kRcclFields.size(); ++i) {
      if (!row_.has(i)) continue;
      list_.append(separator).append("\"").append(kRcclFields[i]).append("\":").append(json_text(row_.cell(i)));
      separator = ",";
    }
    list_ += '}';
  }

  LogSink& sink_;
  CsvColumns row_;
  std::string list_ = "[";
  bool has_rows_ = false;
};

} // namespace

bool is_rccl_table(std::string_view head) {
  const std::string_view first = head.substr(0, head.find('\n'));
  const std::string names = plain(first.substr(0, 256));
  return has(first, ",") && has(names, "collective") && has(names, "gpusperrank") && has(names, "busbw");
}

Result<std::string> rccl_list_of_table(LogReader& reader, LogSink& sink) {
  RcclTable table(sink);
  MC2_TRY(read_table(reader, table, sink));
  return table.list();
}

bool has_rccl_lines(std::string_view head) {
  return trimmed(head).starts_with('{') && has(head, "\"ranksPerNode\"") && has(head, "\"busBw\"");
}

std::string rccl_list_of_lines(std::string_view text) {
  std::string list = "[";
  bool has_rows = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = trimmed(text.substr(0, end));
    if (line.ends_with(',')) line.remove_suffix(1);
    if (line.starts_with('{') && std::exchange(has_rows, true)) list += ',';
    list += line;
    if (end == std::string_view::npos) break;
    list += '\n';
    text.remove_prefix(end + 1);
  }
  return list + "]";
}

} // namespace mc2::profiler
