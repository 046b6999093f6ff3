#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::profiler {

/// A message larger than 1 PiB, full array, is a wrong number or unit.
inline constexpr std::int64_t kMaxMessageBytes = std::int64_t{1} << 50;

/// Without white space (and tabs that msprof puts behind numbers) and quotes at either end.
[[nodiscard]] std::string_view bare(std::string_view text) noexcept;
/// Without what a launcher writes before every line: "[1,0]<stdout>:" of mpirun --tag-output, "0: " of srun -l, pod and
/// time stamp of kubectl logs, "[2026-11-24 10:00:00] ".
[[nodiscard]] std::string_view without_launcher_tag(std::string_view line) noexcept;
/// Whether the part stands anywhere in the text.
[[nodiscard]] inline bool has(std::string_view text, std::string_view part) noexcept {
  return text.find(part) != std::string_view::npos;
}
/// Words between white space.
[[nodiscard]] std::vector<std::string_view> words(std::string_view text);
/// Parts between separators, trimmed; at least one.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
/// Lower-case letters and digits, nothing else.
[[nodiscard]] std::string plain(std::string_view text);
/// Text of a log for a message: printable, at most 48 characters.
[[nodiscard]] std::string shown(std::string_view text);

/// A whole number, nothing before or behind it.
[[nodiscard]] std::optional<std::int64_t> parse_whole(std::string_view text) noexcept;
/// Microseconds in decimal notation as nanoseconds: exact with up to three decimals, rounded beyond, however large,
/// so that a time stamp of 16 digits keeps its last. Nothing for anything else, NaN and infinities included.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_us(std::string_view text) noexcept;
/// Of a finite number of us; nothing beyond the range of nanoseconds.
[[nodiscard]] std::optional<std::chrono::nanoseconds> from_us(double us) noexcept;

/// float, float32, half, fp16, bfloat16, bfp16, DT_BF16, MPI_FLOAT, ...; nothing for types that mc2 does not plan.
[[nodiscard]] std::optional<planner::DType> find_dtype(std::string_view text);
/// Bytes of an element of any type that one of the tools names; nothing for an unknown one.
[[nodiscard]] std::optional<std::int64_t> find_element_bytes(std::string_view text);
/// The collective that a benchmark's program is named after: all_reduce_perf, osu_allgather, alltoall_test, ...
[[nodiscard]] std::optional<planner::Collective> find_program(std::string_view word);
/// A collective by any spelling of its name: allReduce, all-gather, Reduce_scatter, alltoall.
[[nodiscard]] std::optional<planner::Collective> find_collective(std::string_view name);

/// What a command line that a log repeats says of its test.
struct LaunchLine {
  std::optional<planner::Collective> collective;
  std::optional<int> world_size;
  std::optional<std::string> element_type;
};
/// Reads "mpirun -n 8 ./bin/all_reduce_test -d fp32 ..."; nothing for lines that name no such program. The ranks are
/// what the launcher is told, of all its contexts (":") together; of another program's line they are not known.
[[nodiscard]] std::optional<LaunchLine> read_launch_line(std::string_view line);

/// The error text of a column whose unit is another than `legal`; empty when it is right or absent.
/// @param column  e.g. "Task Duration(us)"
[[nodiscard]] std::string unit_fault(std::string_view column, std::string_view legal);
/// The error text of the first of a heading's columns that stands there twice; empty where none does.
[[nodiscard]] std::string twin_fault(std::span<const std::string> columns);

} // namespace mc2::profiler
