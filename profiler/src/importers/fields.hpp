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

/// 1 PiB, full array. A larger message means a wrong number or unit.
inline constexpr std::int64_t kMaxMessageBytes = std::int64_t{1} << 50;

/// The text without white space and quotes at either end. msprof writes tabs after numbers.
[[nodiscard]] std::string_view bare(std::string_view text) noexcept;
/// The line without the prefixes that launchers write: "[1,0]<stdout>:" of mpirun --tag-output, the date of its
/// --timestamp-output, "0: " of srun -l, "[0] " of mpiexec -l, "node-1: " and "10.0.0.4: " of pdsh, pod and time stamp
/// of kubectl logs, "[2026-11-24 10:00:00] ", "2026-11-24 10:00:00 " and "10:00:00 ". Several may follow one another.
[[nodiscard]] std::string_view without_launcher_tag(std::string_view line) noexcept;
/// Whether the part stands anywhere in the text.
[[nodiscard]] inline bool has(std::string_view text, std::string_view part) noexcept {
  return text.find(part) != std::string_view::npos;
}
/// The words of the text, which white space separates.
[[nodiscard]] std::vector<std::string_view> words(std::string_view text);
/// The letters, in lower case, and digits of the text; everything else is left out.
[[nodiscard]] std::string plain(std::string_view text);
/// Text of a log for a message: printable, cut after 48 characters.
[[nodiscard]] std::string shown(std::string_view text);

/// A whole number that is all of the text.
[[nodiscard]] std::optional<std::int64_t> parse_whole(std::string_view text) noexcept;
/// Parses microseconds in decimal notation as nanoseconds. Exact for up to three decimals, so that a time stamp of 16
/// digits keeps its last one; further decimals are rounded. Nothing for any other text, NaN and infinities included.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_us(std::string_view text) noexcept;
/// Converts us; nothing for a number that is not finite or beyond the range of nanoseconds.
[[nodiscard]] std::optional<std::chrono::nanoseconds> from_us(double us) noexcept;

/// The element type by any tool's name for it: float, float32, half, fp16, bfloat16, bfp16, DT_BF16, MPI_FLOAT, ...
/// Nothing for types that mc2 does not plan.
[[nodiscard]] std::optional<planner::DType> find_dtype(std::string_view text);
/// Bytes of an element of any type that one of the tools names; nothing for an unknown one.
[[nodiscard]] std::optional<std::int64_t> find_element_bytes(std::string_view text);
/// The collective that a benchmark's program is named after: all_reduce_perf, osu_allgather, alltoall_test, ...
[[nodiscard]] std::optional<planner::Collective> find_program(std::string_view word);
/// A collective by any spelling of its name: allReduce, all-gather, Reduce_scatter, alltoall.
[[nodiscard]] std::optional<planner::Collective> find_collective(std::string_view name);

/// The facts about a test in a command line that the log repeats.
struct LaunchLine {
  std::optional<planner::Collective> collective;
  std::optional<int> world_size;
  std::optional<std::string> element_type;
};
/// Reads "mpirun -n 8 ./bin/all_reduce_test -d fp32 ...". Nothing for lines that name no program of find_program(). The
/// number of ranks is the sum over all contexts (":") of the launcher; it is unknown where a context does not state it,
/// or the line has no known launcher.
[[nodiscard]] std::optional<LaunchLine> read_launch_line(std::string_view line);
/// The error text for a command line that starts fewer than 2 ranks; empty for others.
[[nodiscard]] std::string ranks_fault(const LaunchLine& launch);

/// A cell of a row, with the name of its column.
struct NamedCell {
  std::string_view name, text;
};
/// The error text for times that do not stand in this order: "its t_avg, 9.00, is above its t_max, 8.00", or for one
/// that is no number. Empty where they do, and where one is empty. Each may be off by its last digit.
[[nodiscard]] std::string order_fault(NamedCell shorter, NamedCell longer);

/// The error text for a column with another unit than `legal`; empty when the unit is right or absent.
/// @param column  e.g. "Task Duration(us)"
[[nodiscard]] std::string unit_fault(std::string_view column, std::string_view legal);
/// The error text for the first column that occurs twice in a heading; empty where none does.
[[nodiscard]] std::string twin_fault(std::span<const std::string> columns);

} // namespace mc2::profiler
