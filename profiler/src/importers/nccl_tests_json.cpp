#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fields.hpp"
#include "json_handler.hpp"
#include "json_pieces.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/importer.hpp"
#include "nccl_row.hpp"
#include "rccl_rows.hpp"

namespace mc2::profiler {
namespace nccl_tests_json {
namespace {

using planner::Collective;

constexpr std::size_t kMaxJsonBytes = 64 << 20;
constexpr std::size_t kMaxScalarBytes = 4096;
constexpr std::int64_t kNewestVersion = 3;

/// Settings of NCCL that change times. No other variable of the logged environment is read, because it may hold
/// secrets.
constexpr std::array<std::string_view, 19> kSettings{
    "NCCL_ALGO",          "NCCL_BUFFSIZE",    "NCCL_COLLNET_ENABLE", "NCCL_CROSS_NIC",     "NCCL_CTA_POLICY",
    "NCCL_CUMEM_ENABLE",  "NCCL_IB_DISABLE",  "NCCL_MAX_CTAS",       "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS", "NCCL_NTHREADS",    "NCCL_NVLS_ENABLE",    "NCCL_P2P_DISABLE",   "NCCL_P2P_LEVEL",
    "NCCL_PROTO",         "NCCL_SHM_DISABLE", "NCCL_LAUNCH_MODE",    "NCCL_NET_GDR_LEVEL"};

/// Replaces nan and inf by null. The tool prints numbers as C does, but JSON has neither.
std::string without_nan(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  bool is_string = false, is_escaped = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      is_string = is_escaped || c != '"';
      is_escaped = !is_escaped && c == '\\';
    } else {
      is_string = c == '"';
      std::size_t size = 0;
      for (const std::string_view word : {"-Infinity", "Infinity", "-nan", "-inf", "nan", "inf", "NaN"})
        if (size == 0 && text.substr(i, word.size()) == word) size = word.size();
      if (size > 0) {
        result += "null";
        i += size - 1;
        continue;
      }
    }
    result.push_back(c);
  }
  return result;
}

/// A scalar as text.
struct Scalar {
  std::string text;
  bool is_null = false;
};

/// The timings of one size that have been read so far.
struct Entry {
  std::optional<std::int64_t> size, count;
  std::string size_text; ///< the size as it stands there
  std::string type;
  std::string redop;
  std::int64_t root = -1;
  Scalar time[2], wrong[2], alg_bandwidth[2], bus_bandwidth[2];
  bool has_time[2] = {false, false};
  bool is_untimed[2] = {false, false}; ///< the whole side is null
  bool has_host_time = false;
  std::set<std::string> fields; ///< names of the fields read so far
  std::string twin;             ///< a field that occurs twice; empty where none does
};

class Handler final : public JsonHandler {
 public:
  /// @param line  current line of the parser; must outlive the handler
  Handler(const ImportAnswers& answers, LogSink& sink, const std::int64_t& line)
      : answers_(answers), sink_(sink), line_(line) {}

  bool null() override { return scalar({"", true}); }
  bool boolean(bool value) override { return scalar({value ? "true" : "false"}); }
  bool number_integer(number_integer_t value) override { return scalar({std::to_string(value)}); }
  bool number_unsigned(number_unsigned_t value) override { return scalar({std::to_string(value)}); }
  bool number_float(number_float_t, const string_t& text) override { return scalar({text}); }
  bool string(string_t& text) override { return scalar({text.substr(0, kMaxScalarBytes)}); }
  bool start_object(std::size_t) override { return open_named(""); }
  bool start_array(std::size_t) override { return open_named("[]"); }
  bool key(string_t& name) override {
    path_.back() = name.substr(0, kMaxScalarBytes);
    return true;
  }
  bool end_array() override { return close_named(); }
  bool end_object() override {
    const std::string path = path_text(1);
    if (path == "results/[]") take_entry();
    if (path == "[]") take_rccl_entry();
    return close_named();
  }
  void finish() override {
    if (is_out_of_bounds_) sink_.bad(line_, "out_of_bounds.okay is false: results were wrong");
    flush();
  }

 private:
  bool open_named(const char* name) {
    path_.emplace_back(name);
    return open();
  }
  bool close_named() {
    path_.pop_back();
    return close();
  }

  /// The keys from the root, without the last `without` levels.
  [[nodiscard]] std::string path_text(std::size_t without = 0) const {
    return list_text(std::span(path_).first(path_.size() - std::min(without, path_.size())), "/");
  }

  bool scalar(const Scalar& value) {
    const std::string path = path_text();
    if (path.starts_with("results/[]/"))
      read_result(std::string_view(path).substr(11), value);
    else if (path.starts_with("[]/"))
      read_rccl(std::string_view(path).substr(3), value);
    else if (path == "args/[]")
      read_argument(value.text);
    else if (path == "env/[]")
      read_setting(value.text);
    else if (path == "nccl_version")
      sink_.fact("nccl", planner::nccl_version(value.text));
    else if (path == "version" && parse_whole(value.text).value_or(0) > kNewestVersion)
      sink_.note_newer_format(value.text, std::to_string(kNewestVersion));
    else if (path.starts_with("config/"))
      read_launch(std::string_view(path).substr(7), value.text);
    else if (path == "out_of_bounds/okay")
      is_out_of_bounds_ = value.text == "false";
    return true;
  }

  void read_launch(std::string_view field, const std::string& text) {
    if (field == "nthreads") thread_count_ = parse_whole(text).value_or(0);
    if (field == "ngpus") gpu_count_ = parse_whole(text).value_or(0);
    if (field == "aggregated_iterations") launched_count_ = parse_whole(text).value_or(1);
    if (field == "blocking_collectives") is_blocking_ = text == "true";
    if (field == "devices/[]/pid") pid_ = text;
    if (field == "devices/[]/hostname") processes_.insert(text + " " + pid_);
    if (field == "devices/[]/rank") ranks_.insert(text);
    if (field == "devices/[]/group") groups_.insert(text);
    if (field == "devices/[]/device_info") sink_.fact("device", text);
  }

  /// Finds the program among the arguments, whether mc2 plans its collective or not.
  void read_argument(const std::string& text) {
    if (collective_ || !other_program_.empty()) return;
    collective_ = find_program(text);
    const std::string name = text.substr(text.find_last_of('/') + 1);
    if (!collective_ && (name.ends_with("_perf") || name.ends_with("_perf_mpi"))) other_program_ = name;
  }

  /// The number of ranks: processes times threads times GPUs, or the number of listed ranks if larger, because a short
  /// list of devices names only some. 0 where unknown.
  [[nodiscard]] int world_size() const {
    if (rccl_.world_size > 0)
      return rccl_.world_size <= planner::kMaxWorldSize ? static_cast<int>(rccl_.world_size) : 0;
    const std::int64_t count = std::max<std::int64_t>(static_cast<std::int64_t>(ranks_.size()),
                                                      static_cast<std::int64_t>(processes_.size()) *
                                                          std::clamp<std::int64_t>(thread_count_, 0, 1024) *
                                                          std::clamp<std::int64_t>(gpu_count_, 0, 1024));
    return count >= 2 && count <= planner::kMaxWorldSize ? static_cast<int>(count) : 0;
  }

  void read_setting(const std::string& text) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || std::find(kSettings.begin(), kSettings.end(), name) == kSettings.end()) return;
    std::string key;
    for (const char c : name) key.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    sink_.fact(key, text.substr(equals + 1));
  }

  /// Remembers a field. Of two fields with one name it is unknown which is right, so the entry is marked.
  void see(std::string_view field) {
    if (!has(field, "[]") && !entry_.fields.emplace(field).second) entry_.twin = field;
  }

  void read_result(std::string_view field, const Scalar& value) {
    see(field);
    if (field == "size") entry_.size = parse_whole(value.text), entry_.size_text = value.text;
    if (field == "count") entry_.count = parse_whole(value.text);
    if (field == "type") entry_.type = value.text;
    if (field == "redop") entry_.redop = value.text;
    if (field == "root") entry_.root = parse_whole(trimmed(value.text)).value_or(-1);
    if (field == "out_of_place") entry_.is_untimed[0] = value.is_null;
    if (field == "in_place") entry_.is_untimed[1] = value.is_null;
    const bool is_in_place = field.starts_with("in_place/");
    if (!is_in_place && !field.starts_with("out_of_place/")) return;
    const std::size_t side = is_in_place ? 1 : 0;
    if (field.ends_with("/cpu_time")) entry_.has_host_time = true;
    if (field.ends_with("/time")) entry_.time[side] = value, entry_.has_time[side] = true;
    if (field.ends_with("/nwrong")) entry_.wrong[side] = value;
    if (field.ends_with("/alg_bw")) entry_.alg_bandwidth[side] = value;
    if (field.ends_with("/bus_bw")) entry_.bus_bandwidth[side] = value;
  }

  /// Reads a field of rccl-tests -Z json or csv, which write one object or line for each row and side.
  void read_rccl(std::string_view field, const Scalar& value) {
    see(field);
    const auto number = parse_whole(value.text);
    if (field == "name") rccl_.name = value.text;
    if (field == "ranks" || field == "gpus") rccl_.processes = number.value_or(0);
    if (field == "gpusPerRank") rccl_.gpus = number.value_or(0);
    if (field == "inPlace") rccl_.is_in_place = value.text == "1";
    if (field == "size") entry_.size = number, entry_.size_text = value.text;
    if (field == "type") entry_.type = value.text;
    if (field == "redop") entry_.redop = value.text;
    if (field == "root") entry_.root = parse_whole(trimmed(value.text)).value_or(-1);
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) { // the field that tells the side may come later
      if (field == "time") entry_.time[side] = value, entry_.has_time[side] = true;
      if (field == "wrong") entry_.wrong[side] = value;
      if (field == "algBw") entry_.alg_bandwidth[side] = value;
      if (field == "busBw") entry_.bus_bandwidth[side] = value;
    }
  }

  void take_rccl_entry() {
    flush(); // entries may be of different collectives
    const Entry entry = std::exchange(entry_, {});
    const RcclEntry row = std::exchange(rccl_, {});
    const std::string name = "[" + std::to_string(entry_count_++) + "]";
    const bool is_wanted =
        answers_.buffers == Buffers::Both || row.is_in_place == (answers_.buffers == Buffers::InPlace);
    if (!is_wanted) return;
    collective_ = find_collective(row.name);
    other_program_ = collective_ ? "" : row.name;
    rccl_.world_size =
        std::clamp<std::int64_t>(row.processes, 0, kMostCounted) * std::clamp<std::int64_t>(row.gpus, 1, kMostCounted);
    take_side(entry, row.is_in_place ? 1 : 0, name);
    flush();
    rccl_.world_size = 0;
  }

  void take_entry() {
    const Entry entry = std::exchange(entry_, {});
    const std::string name = "results[" + std::to_string(entry_count_++) + "]";
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const bool is_wanted = answers_.buffers == Buffers::Both || (side == 1) == (answers_.buffers == Buffers::InPlace);
      if (is_wanted) take_side(entry, side, name);
    }
  }

  void take_side(const Entry& entry, std::size_t side, const std::string& name) {
    const std::string where = name + (side == 1 ? ", in place" : ", out of place");
    if (!entry.twin.empty()) return sink_.bad(line_, where + ": '" + shown(entry.twin) + "' stands there twice");
    if (entry.is_untimed[side])
      return sink_.skip(line_, where + ": not timed" + (side == 1 ? "" : "; see --buffers in-place"));
    if (entry.has_host_time && !entry.has_time[side])
      return sink_.bad(line_, where + ": cpu_time is what the host needs to start it; run without -C");
    if (!entry.has_time[side]) return sink_.bad(line_, where + ": has no time");
    if (groups_.size() > 1)
      return sink_.skip(line_, "of " + std::to_string(groups_.size()) + " groups at once (NCCL_TESTS_SPLIT)");
    if (is_blocking_) return sink_.skip(line_, "not what one collective takes: its time may contain a barrier (-z)");
    if (launched_count_ > 1)
      return sink_.skip(
          line_, "not what one collective takes: its launch ran " + std::to_string(launched_count_) + " at once (-m)");
    if (entry.time[side].is_null) return sink_.bad(line_, where + ": its time is no number (nan)");
    const Scalar& wrong = entry.wrong[side];
    const bool is_checked = !wrong.is_null && !wrong.text.empty() && wrong.text != "N/A";
    if (is_checked && parse_us(wrong.text) != std::chrono::nanoseconds(0))
      return sink_.bad(line_, where + ": the result check found " + shown(wrong.text) + " wrong elements");
    const auto time = parse_us(entry.time[side].text);
    if (!time) return sink_.bad(line_, where + ": '" + shown(entry.time[side].text) + "' is no time");
    if (!entry.size)
      return sink_.bad(line_, where + (entry.size_text.empty() ? ": has no size"
                                                               : ": '" + shown(entry.size_text) +
                                                                     "' is no size: must be a whole number of bytes"));
    if (*entry.size == 0) return sink_.skip(line_, "a message of 0 bytes");
    for (const auto& [name, cell] :
         {std::pair{"alg_bw", &entry.alg_bandwidth[side]}, std::pair{"bus_bw", &entry.bus_bandwidth[side]}})
      if (const std::string fault = cell_fault(name, cell->text); !fault.empty()) // nan and inf are null here
        return sink_.bad(line_, where + ": " + fault);
    pending_.push_back(
        {line_,
         {.message_bytes = *entry.size, .time = *time},
         std::string(side == 1 ? ", in place" : ", out of place") + (is_checked ? "" : ", results not checked"),
         row_of(entry, side),
         entry.redop});
    if (pending_.size() == 1000) flush();
  }

  /// Takes the pending timings. They wait for ranks and program, which come after the results only in short files.
  void flush() {
    for (auto& [line, timing, text, row, redop] : pending_) {
      if (!other_program_.empty()) {
        sink_.skip(line, shown(other_program_) + " is no collective that mc2 plans");
        continue;
      }
      const auto collective = sink_.collective_of(line, collective_, answers_);
      if (!collective) continue;
      timing.collective = *collective;
      row.redop = redop;
      timing.world_size = world_size();
      if (timing.world_size == 0 && !answers_.world_size) timing.world_size = ranks_by_bandwidth(*collective, row);
      const int ranks = timing.world_size > 0 ? timing.world_size : answers_.world_size.value_or(0);
      if (const std::string why = contradiction(*collective, ranks, row); !why.empty()) {
        sink_.bad(line, std::string(planner::to_string(*collective)) + text + ": " + why);
        continue;
      }
      sink_.take(line, timing, std::string(planner::to_string(*collective)) + text);
    }
    pending_.clear();
  }

  static constexpr std::int64_t kMostCounted = 1 << 20;

  struct RcclEntry {
    std::string name;
    std::int64_t processes = 0, gpus = 0, world_size = 0;
    bool is_in_place = false;
  };

  struct Pending {
    std::int64_t line;
    Timing timing;
    std::string text;
    NcclRow row; ///< without redop
    std::string redop;
  };

  [[nodiscard]] static NcclRow row_of(const Entry& entry, std::size_t side) {
    NcclRow row;
    row.size_bytes = entry.size.value_or(0);
    row.count = entry.count.value_or(0);
    row.root = entry.root;
    row.element_bytes = find_element_bytes(entry.type).value_or(0);
    row.time_us = printed_number(entry.time[side].text);
    row.alg_bandwidth = printed_number(entry.alg_bandwidth[side].text);
    row.bus_bandwidth = printed_number(entry.bus_bandwidth[side].text);
    return row;
  }

  const ImportAnswers& answers_;
  LogSink& sink_;
  const std::int64_t& line_;
  std::vector<std::string> path_;
  std::optional<Collective> collective_;
  std::string other_program_; ///< a program whose collective mc2 does not plan
  std::set<std::string> ranks_, processes_, groups_;
  std::string pid_; ///< process of the current device
  std::int64_t thread_count_ = 0, gpu_count_ = 0;
  std::int64_t launched_count_ = 1; ///< collectives in one launch
  bool is_blocking_ = false;
  RcclEntry rccl_;
  Entry entry_;
  std::vector<Pending> pending_;
  std::int64_t entry_count_ = 0;
  bool is_out_of_bounds_ = false;
};

/// The log as one document of JSON.
Result<std::string> document_of(LogReader& reader, LogSink& sink) {
  if (is_rccl_table(reader.head())) return rccl_list_of_table(reader, sink);
  const bool has_lines = has_rccl_lines(reader.head());
  MC2_ASSIGN(auto text, reader.rest(kMaxJsonBytes));
  return without_nan(has_lines ? rccl_list_of_lines(text) : text);
}

} // namespace
} // namespace nccl_tests_json

bool detect_nccl_tests_json(std::string_view head) {
  const std::string_view text = trimmed(head);
  return is_rccl_table(text) || has_rccl_lines(text) ||
         (text.starts_with('{') && (has(text, "\"nccl_version\"") || has(text, "\"out_of_place\""))) ||
         (text.starts_with('[') && has(text, "\"numCycle\"") && has(text, "\"busBw\""));
}

Result<void> read_nccl_tests_json(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  using namespace nccl_tests_json;
  MC2_ASSIGN(const std::string document, document_of(reader, sink));
  JsonPieces pieces{std::string_view(document)};
  Handler handler(answers, sink, pieces.line());
  read_json(pieces, reader, handler, sink);
  return {};
}

} // namespace mc2::profiler
