#include "fields.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "bandwidth.hpp"

namespace mc2::profiler {
namespace {

using planner::Collective;
using planner::DType;

/// Inlined comparisons. std::string_view::find_first_of() would call memchr() for each character.
constexpr auto is_space = [](char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); };
constexpr auto is_digit = [](char c) noexcept { return c >= '0' && c <= '9'; };
constexpr std::size_t kShownBytes = 48;
constexpr double kMaxNs = 9e18;

struct TypeName {
  std::string_view name; ///< in the form of plain()
  std::int64_t bytes;
  std::optional<DType> dtype;
};
constexpr std::array kTypes{TypeName{"float", 4, DType::F32},
                            TypeName{"float32", 4, DType::F32},
                            TypeName{"fp32", 4, DType::F32},
                            TypeName{"f32", 4, DType::F32},
                            TypeName{"half", 2, DType::F16},
                            TypeName{"float16", 2, DType::F16},
                            TypeName{"fp16", 2, DType::F16},
                            TypeName{"f16", 2, DType::F16},
                            TypeName{"bfloat16", 2, DType::Bf16},
                            TypeName{"bf16", 2, DType::Bf16},
                            TypeName{"bfp16", 2, DType::Bf16},
                            TypeName{"double", 8, {}},
                            TypeName{"float64", 8, {}},
                            TypeName{"fp64", 8, {}},
                            TypeName{"char", 1, {}},
                            TypeName{"int8", 1, DType::I8},
                            TypeName{"uint8", 1, {}},
                            TypeName{"int16", 2, {}},
                            TypeName{"uint16", 2, {}},
                            TypeName{"int", 4, {}},
                            TypeName{"int32", 4, {}},
                            TypeName{"uint32", 4, {}},
                            TypeName{"int64", 8, {}},
                            TypeName{"uint64", 8, {}},
                            TypeName{"f8e4m3", 1, DType::F8E4m3},
                            TypeName{"f8e5m2", 1, {}},
                            TypeName{"fp8e4m3", 1, DType::F8E4m3},
                            TypeName{"fp8e5m2", 1, {}},
                            TypeName{"hif8", 1, {}},
                            TypeName{"int128", 16, {}}};

const TypeName* find_type(std::string_view text) {
  std::string name = plain(text);
  for (const std::string_view prefix : {"dt", "mpi", "hccldatatype", "nccl"})
    if (name.starts_with(prefix) && name.size() > prefix.size()) name.erase(0, prefix.size());
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& type) { return type.name == name; });
  return found == kTypes.end() ? nullptr : &*found;
}

bool ends_program(std::string_view word, std::string_view suffix, std::string_view& name) {
  if (!word.ends_with(suffix)) return false;
  name = word.substr(0, word.size() - suffix.size());
  return true;
}

} // namespace

std::string_view bare(std::string_view text) noexcept {
  const auto is_edge = [](char c) { return c == '"' || is_space(c); };
  while (!text.empty() && is_edge(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_edge(text.back())) text.remove_suffix(1);
  return text;
}

namespace {

/// Whether the text begins with the form, in which 0 stands for any digit.
bool begins_with_form(std::string_view text, std::string_view form) noexcept {
  const auto fits = [](char of_form, char c) { return of_form == '0' ? is_digit(c) : c == of_form; };
  return text.size() >= form.size() && std::ranges::equal(form, text.substr(0, form.size()), fits);
}

/// The text without the "[pod/worker-0/nccl] " and "2026-11-21T00:18:30.123456789Z " of kubectl logs --prefix
/// --timestamps.
std::string_view without_kubectl_tag(std::string_view text) noexcept {
  if (text.starts_with("[pod/"))
    if (const std::size_t end = text.find("] "); end != std::string_view::npos) text.remove_prefix(end + 2);
  if (!begins_with_form(text, "0000-00-00T00:00:00")) return text;
  const std::size_t end = text.find_first_of(" \t");
  return end == std::string_view::npos ? text : text.substr(end + 1);
}

/// "row" of "[2026-11-24 10:00:00.123] row".
std::string_view without_bracketed_time(std::string_view text) noexcept {
  const std::size_t end = text.front() == '[' ? text.find_first_not_of("0123456789-:/., TZ+", 1) : text.npos;
  if (end == std::string_view::npos || text[end] != ']' || end + 1 == text.size() || text[end + 1] != ' ') return text;
  const std::string_view time = text.substr(1, end - 1);
  const bool is_time = std::ranges::count(time, ':') == 2 && time.find_first_of("-/") != std::string_view::npos;
  return is_time ? text.substr(end + 2) : text;
}

/// Without the "stdout F " of a container's log.
std::string_view without_stream_name(std::string_view text) noexcept {
  for (const std::string_view stream : {"stdout F ", "stderr F "})
    if (text.starts_with(stream)) return text.substr(stream.size());
  return text;
}

/// Without the "[1,0]<stdout>:" of Open MPI's --tag-output, of whose job the name may stand there, and the "Tue Dec  1
/// 10:00:00 2026<stdout>:" of its --timestamp-output, or both.
std::string_view without_stream_tag(std::string_view text) noexcept {
  constexpr std::size_t kMaxTagBytes = 160;
  const bool begins_tag = text.front() == '[' || (text.front() >= 'A' && text.front() <= 'Z');
  const std::size_t at = begins_tag ? text.substr(0, kMaxTagBytes).find('<') : std::string_view::npos;
  if (at == std::string_view::npos) return text;
  for (const std::string_view stream : {"<stdout>:", "<stderr>:"})
    if (text.substr(at).starts_with(stream)) return text.substr(at + stream.size());
  return text;
}

/// Without the "0: " of srun -l and the "[0] " of Hydra's -l.
std::string_view without_rank(std::string_view text) noexcept {
  const bool is_bracketed = text.front() == '[';
  const std::size_t begin = is_bracketed ? 1 : 0, end = text.find_first_not_of("0123456789", begin);
  if (end == std::string_view::npos || end == begin) return text;
  const std::string_view mark = is_bracketed ? "] " : ": ";
  return text.substr(end).starts_with(mark) ? text.substr(end + mark.size()) : text;
}

constexpr auto is_letter = [](char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };

/// Whether the name is an address, as 10.0.0.4.
bool is_address(std::string_view name) noexcept {
  return std::ranges::count(name, '.') == 3 && name.find_first_not_of("0123456789.") == name.npos && !has(name, "..") &&
         is_digit(name.back());
}

/// Without the "node-1: " or "10.0.0.4: " of pdsh and its like, and the "worker-1  | " of docker compose.
std::string_view without_node(std::string_view text) noexcept {
  const bool begins_with_digit = is_digit(text.front());
  if ((!begins_with_digit && !is_letter(text.front())) || text.starts_with("rccl-tests:")) return text;
  const auto end = std::ranges::find_if_not(
      text, [&](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.'; });
  const std::string_view name(text.begin(), end), rest(end, text.end());
  const bool is_name = !begins_with_digit || is_address(name);
  if (rest.starts_with(": ")) return is_name || std::ranges::any_of(name, is_letter) ? rest.substr(2) : text;
  if (!is_name) return text; // a number: the columns of hccl_test have bars between them
  const std::size_t bar = rest.find_first_not_of(' ');
  return bar != rest.npos && bar > 0 && rest.substr(bar).starts_with("| ") ? rest.substr(bar + 2) : text;
}

/// Without the "10:00:00 " of Jenkins, and the "2026-11-24 10:00:00 " of ts '%F %T'.
std::string_view without_time(std::string_view text) noexcept {
  for (const std::string_view form : {"00:00:00 ", "0000-00-00 00:00:00 "})
    if (begins_with_form(text, form)) return text.substr(form.size());
  return text;
}

std::string_view without_first_tag(std::string_view text) noexcept {
  for (const auto without : {without_kubectl_tag, without_stream_name, without_stream_tag, without_bracketed_time,
                             without_rank, without_node, without_time})
    if (const std::string_view rest = without(text); rest.size() < text.size()) return rest;
  return text;
}

} // namespace

std::string_view without_launcher_tag(std::string_view line) noexcept {
  while (true) {
    const std::size_t first = line.find_first_not_of(' ');
    if (first == std::string_view::npos) return line;
    const std::string_view text = line.substr(first), rest = without_first_tag(text);
    if (rest.size() == text.size()) return line;
    line = rest;
  }
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  for (auto at = text.begin(); (at = std::find_if_not(at, text.end(), is_space)) != text.end();) {
    const auto end = std::find_if(at, text.end(), is_space);
    result.emplace_back(at, end);
    at = end;
  }
  return result;
}

std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') result.push_back(static_cast<char>(c - 'A' + 'a'));
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) result.push_back(c);
  }
  return result;
}

std::string shown(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, kShownBytes))
    result.push_back(static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c);
  return text.size() > kShownBytes ? result + "..." : result;
}

std::optional<std::int64_t> parse_whole(std::string_view text) noexcept { return number_in<std::int64_t>(text); }

std::optional<std::chrono::nanoseconds> from_us(double us) noexcept {
  const double ns = us * planner::kNsPerUs;
  if (!std::isfinite(ns) || std::abs(ns) > kMaxNs) return std::nullopt;
  return std::chrono::nanoseconds(std::llround(ns));
}

std::optional<std::chrono::nanoseconds> parse_us(std::string_view text) noexcept {
  std::string_view rest = text;
  const bool is_negative = rest.starts_with('-');
  if (is_negative) rest.remove_prefix(1);
  if (rest.empty() || rest == ".") return std::nullopt;
  std::int64_t ns = 0;
  int decimals = -1; ///< digits after the point so far; -1 before the point
  bool rounds_up = false;
  for (const char c : rest) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
      continue;
    }
    if (c < '0' || c > '9') {
      const auto us = number_in<double>(text); // 1.2e+03
      return us ? from_us(*us) : std::nullopt;
    }
    if (decimals >= 0) ++decimals;
    if (decimals == 4) rounds_up = c >= '5';
    if (decimals > 3) continue;
    if (ns > (std::numeric_limits<std::int64_t>::max() - 9) / 10) return std::nullopt;
    ns = ns * 10 + (c - '0');
  }
  for (int i = std::max(decimals, 0); i < 3; ++i) {
    if (ns > std::numeric_limits<std::int64_t>::max() / 10) return std::nullopt;
    ns *= 10;
  }
  ns += rounds_up && ns < std::numeric_limits<std::int64_t>::max() ? 1 : 0;
  return std::chrono::nanoseconds(is_negative ? -ns : ns);
}

std::optional<DType> find_dtype(std::string_view text) {
  const TypeName* type = find_type(text);
  return type ? type->dtype : std::nullopt;
}

std::optional<std::int64_t> find_element_bytes(std::string_view text) {
  const TypeName* type = find_type(text);
  return type ? std::optional(type->bytes) : std::nullopt;
}

std::optional<Collective> find_collective(std::string_view name) {
  const std::string word = plain(name);
  if (word == "allreduce") return Collective::AllReduce;
  if (word == "reducescatter") return Collective::ReduceScatter;
  if (word == "allgather") return Collective::AllGather;
  if (word == "alltoall") return Collective::AllToAll;
  return std::nullopt;
}

namespace {

std::string_view file_name(std::string_view word) noexcept { return word.substr(word.find_last_of('/') + 1); }

using Words = std::string_view[];
constexpr std::string_view kSlurm = "srun";
constexpr Words kLaunchers{"mpirun",  "mpiexec", "mpiexec.hydra", "mpirun_rsh", "orterun",
                           "prterun", "prun",    "ibrun",         "aprun",      kSlurm};
/// Programs that bind the command after them to cores and have options of their own.
constexpr Words kBinders{"taskset", "numactl"};
constexpr Words kOptionsOfTwoValues{"--mca", "-mca", "--gmca", "-gmca", "-env", "-genv"};

bool is_one_of(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool is_launcher(std::string_view word) {
  const std::string_view text = bare(word);
  return !has(text, "=") && is_one_of(kLaunchers, file_name(text));
}

bool counts_ranks(std::string_view option, std::string_view launcher) {
  // srun's -c counts the CPUs of a task.
  return option == "-n" || option == "-np" || option == "--np" || (option == "-c" && launcher != kSlurm);
}

/// The number of ranks among a launcher's own options, which end at the command that it starts: 8 of "-np 8 -x A=1
/// taskset -c 3 ./test". Nothing where the options do not state it.
std::optional<std::int64_t> ranks_of(std::span<const std::string_view> context, std::string_view launcher) {
  int value_count = 0; ///< values that the last option may still have
  for (std::size_t i = 0; i + 1 < context.size(); ++i) {
    const std::string_view word = context[i];
    const bool is_option = word.starts_with('-');
    const bool is_command = find_program(word) || is_one_of(kBinders, file_name(word));
    if (is_command || (!is_option && value_count == 0)) return std::nullopt;
    if (is_option)
      value_count = is_one_of(kOptionsOfTwoValues, word) ? 2 : 1;
    else
      --value_count;
    if (counts_ranks(word, launcher)) return parse_whole(context[i + 1]);
  }
  return std::nullopt;
}

/// The sum of ranks over all contexts: 8 of "-np 4 ./test : -np 4 ./test". Nothing where a context does not state it.
std::optional<int> told_ranks(std::span<const std::string_view> told, std::string_view launcher) {
  constexpr std::int64_t kMostRanks = 1'000'000;
  std::int64_t sum = 0;
  while (true) {
    const auto end = std::ranges::find(told, std::string_view(":"));
    const auto size = static_cast<std::size_t>(end - told.begin());
    const auto count = ranks_of(told.first(size), launcher);
    if (!count || *count < 0 || *count > kMostRanks - sum) return std::nullopt;
    sum += *count;
    if (end == told.end()) return static_cast<int>(sum);
    told = told.subspan(size + 1);
  }
}

} // namespace

namespace {

/// Of OSU's benchmarks: allgather, iallgather (non-blocking), allgather_persistent, reduce_scatter_block.
std::optional<Collective> find_osu_program(std::string_view name) {
  for (const std::string_view form : {"_persistent", "_block"})
    if (name.ends_with(form)) name.remove_suffix(form.size());
  const auto collective = find_collective(name);
  return collective || !name.starts_with('i') ? collective : find_collective(name.substr(1));
}

} // namespace

std::optional<Collective> find_program(std::string_view word) {
  word = file_name(word);
  std::string_view name;
  if (word.starts_with("osu_")) return find_osu_program(word.substr(4));
  if (ends_program(word, "_perf_mpi", name) || ends_program(word, "_perf", name) || ends_program(word, "_test", name))
    return find_collective(name);
  return std::nullopt;
}

std::optional<LaunchLine> read_launch_line(std::string_view line) {
  if (line.find('_') == std::string_view::npos) return std::nullopt; // a quick test, because every row comes here
  const auto parts = words(line);
  const auto program =
      std::find_if(parts.begin(), parts.end(), [](std::string_view word) { return find_program(word).has_value(); });
  if (program == parts.end()) return std::nullopt;
  LaunchLine launch{find_program(*program), {}, {}};
  // The last launcher before the program: another launcher may have started it.
  const auto launcher = std::find_if(std::make_reverse_iterator(program), parts.rend(), is_launcher);
  if (launcher != parts.rend())
    launch.world_size = told_ranks(std::span(launcher.base(), parts.end()), file_name(bare(*launcher)));
  for (auto option = program; option != parts.end() && option + 1 != parts.end(); ++option)
    if (*option == "-d" || *option == "--datatype") launch.element_type = std::string(option[1]);
  return launch;
}

std::string ranks_fault(const LaunchLine& launch) {
  if (launch.world_size.value_or(2) >= 2) return {};
  return "its command line says " + std::to_string(*launch.world_size) +
         (*launch.world_size == 1 ? " rank" : " ranks") + ", and a collective is among 2 or more; leave this test out";
}

std::string order_fault(NamedCell shorter, NamedCell longer) {
  if (shorter.text.empty() || longer.text.empty()) return {};
  const auto least_time = parse_us(shorter.text), most_time = parse_us(longer.text);
  if (least_time && most_time && *least_time <= *most_time) return {};
  for (const NamedCell& cell : {shorter, longer})
    if (!parse_us(cell.text)) return "its " + std::string(cell.name) + ", '" + shown(cell.text) + "', is no number";
  const PrintedNumber least = printed_number(shorter.text), most = printed_number(longer.text);
  if (least.value <= most.value + least.rounding + most.rounding) return {};
  return "its " + std::string(shorter.name) + ", " + shown(shorter.text) + ", is above its " +
         std::string(longer.name) + ", " + shown(longer.text);
}

std::string unit_fault(std::string_view column, std::string_view legal) {
  const std::size_t open = column.find('('), close = column.find(')', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return "";
  const std::string_view unit = trimmed(column.substr(open + 1, close - open - 1));
  if (unit == legal) return "";
  return "column '" + shown(column) + "' is in " + shown(unit) + "; legal: " + std::string(legal);
}

std::string twin_fault(std::span<const std::string> columns) {
  const auto twin =
      std::ranges::find_if(columns, [&](const std::string& column) { return std::ranges::count(columns, column) > 1; });
  return twin == columns.end() ? "" : "'" + shown(*twin) + "' is a column twice";
}

} // namespace mc2::profiler
