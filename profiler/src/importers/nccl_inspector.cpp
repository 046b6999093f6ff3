#include <climits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "event_name.hpp"
#include "fields.hpp"
#include "full_array.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/profiler/importer.hpp"
#include "nccl_row.hpp"

namespace mc2::profiler {
namespace nccl_inspector {
namespace {

using nlohmann::json;
using planner::Collective;

/// A whole number of 0 or more.
std::optional<std::int64_t> whole(const json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number_unsigned()) return std::nullopt;
  const auto value = at->get<std::uint64_t>();
  return value <= static_cast<std::uint64_t>(INT64_MAX) ? std::optional(static_cast<std::int64_t>(value))
                                                        : std::nullopt;
}

std::string text(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

double number(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number() ? at->get<double>() : 0;
}

void read_numbers(std::int64_t line, const json& header, const json& run, Collective collective, LogSink& sink) {
  const auto ranks = whole(header, "n_ranks"), rank = whole(header, "rank"), bytes = whole(run, "coll_msg_size_bytes"),
             time_us = whole(run, "coll_exec_time_us"), number_of_run = whole(run, "coll_sn");
  for (const auto& [is_read, object, key] : {std::tuple(ranks.has_value(), &header, "n_ranks"),
                                             {rank.has_value(), &header, "rank"},
                                             {bytes.has_value(), &run, "coll_msg_size_bytes"},
                                             {time_us.has_value(), &run, "coll_exec_time_us"},
                                             {number_of_run.has_value(), &run, "coll_sn"}})
    if (!is_read) {
      const auto at = object->find(key);
      const std::string value = at == object->end() ? "missing" : "'" + shown(at->dump()) + "'";
      return sink.bad(line, std::string(key) + " is " + value + "; legal: whole numbers from 0 on");
    }
  const std::string communicator = text(header, "id");
  if (communicator.empty() || *rank >= *ranks)
    return sink.bad(line, "its communicator has no id, or its rank is none of it");
  if (*ranks < 2 || *ranks > planner::kMaxWorldSize)
    return sink.skip(line, "a communicator of " + std::to_string(*ranks) + " ranks");
  if (*bytes == 0 || *time_us == 0) return sink.skip(line, "a message of 0 bytes, or shorter than 1 us");
  const int world_size = static_cast<int>(*ranks);
  const auto meaning = collective == Collective::AllReduce ? SizeMeaning::FullArray : SizeMeaning::PerRank;
  const auto full = full_array_bytes(*bytes, meaning, world_size);
  if (!full || *time_us > INT64_MAX / 1000) return sink.bad(line, "its size or time is out of range");
  NcclRow row;
  row.size_bytes = *full;
  row.time_us = {static_cast<double>(*time_us), 1}; // the tool cuts fractions of 1 us off
  const auto printed = [&run](const char* key) {
    constexpr double kSixDecimals = 5e-7;
    const auto at = run.find(key); // null is no measured 0
    return at != run.end() && at->is_number() ? PrintedNumber{number(run, key), kSixDecimals} : PrintedNumber();
  };
  row.alg_bandwidth = printed("coll_algobw_gbs");
  row.bus_bandwidth = printed("coll_busbw_gbs");
  if (const std::string why = contradiction(collective, world_size, row); !why.empty())
    return sink.bad(line, std::string(planner::to_string(collective)) + ": " + why);
  Timing timing{.collective = collective, .message_bytes = *full, .world_size = world_size};
  timing.time = std::chrono::nanoseconds(*time_us * 1000);
  timing.event = event_name(group_name(communicator + text(run, "coll")), static_cast<std::uint64_t>(*number_of_run));
  timing.rank = static_cast<int>(*rank);
  sink.take(line, timing, planner::to_string(collective));
}

void read_run(std::int64_t line, const json& header, const json& run, LogSink& sink) {
  const std::string name = text(run, "coll");
  const auto collective = find_collective(name);
  if (!collective) return sink.skip(line, shown(name) + " is no collective that mc2 plans");
  if (*collective == Collective::AllToAll)
    return sink.skip(line, "an all-to-all, of which NCCL Inspector does not say what its size counts");
  // A time taken by the host ends before the collective does. Older versions do not name the source.
  if (const std::string source = text(run, "coll_timing_source"); !source.empty() && source != "kernel_gpu")
    return sink.skip(line, "timed by the host, not by the kernel");
  read_numbers(line, header, run, *collective, sink);
}

/// 4 and 0 for "v4.0"; nothing for text of another form.
std::optional<std::pair<int, int>> version_in(std::string_view text) {
  if (!text.starts_with('v')) return std::nullopt;
  text.remove_prefix(1);
  const auto whole = number_in<int>(take_part(text, '.'));
  const auto part = number_in<int>(text);
  return whole && part ? std::optional(std::pair(*whole, *part)) : std::nullopt;
}

void check_version(const json& document, LogSink& sink) {
  constexpr std::pair kNewest{4, 0};
  const auto metadata = document.find("metadata");
  if (metadata == document.end() || !metadata->is_object()) return;
  const std::string version = text(*metadata, "inspector_output_format_version");
  if (!version.empty() && version_in(version).value_or(std::pair(INT_MAX, 0)) > kNewest)
    sink.note_newer_format(version, "v4.0");
}

void read_line(const Line& line, LogSink& sink) {
  if (trimmed(line.text).empty()) return sink.skip(line.number, "blank");
  const json document = json::parse(line.text, nullptr, false);
  if (!document.is_object())
    return sink.bad(line.number,
                    "is no JSON object in a line of its own; the log is cut or damaged here, or was printed anew");
  const auto header = document.find("header"), run = document.find("coll_perf");
  check_version(document, sink);
  if (document.contains("p2p_perf")) return sink.skip(line.number, "a send or receive");
  if (run == document.end() && (header != document.end() || document.contains("dump_stats")))
    return sink.skip(line.number, "a record of another kind than coll_perf");
  if (header == document.end() || run == document.end() || !header->is_object() || !run->is_object())
    return sink.bad(line.number, "has no header or no coll_perf");
  read_run(line.number, *header, *run, sink);
}

} // namespace
} // namespace nccl_inspector

bool detect_nccl_inspector(std::string_view head) {
  return trimmed(head).starts_with('{') && has(head, "\"header\"") &&
         (has(head, "\"coll_perf\"") || has(head, "\"p2p_perf\""));
}

Result<void> read_nccl_inspector(LogReader& reader, const ImportAnswers&, LogSink& sink) {
  for (Line line; reader.next(line);) nccl_inspector::read_line(line, sink);
  return {};
}

} // namespace mc2::profiler
