#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::cli {

/// How a collective is timed. Every figure names its mode.
enum class TimingMode : std::uint8_t {
  LaneTime,   ///< one collective: first start to last end on the communication lanes
  Throughput, ///< several collectives back to back: first start to last end, divided by their number
  Latency,    ///< one collective: from the caller's call to its return, including waking the lanes and waiting
};

/// "lane time", "throughput" or "latency".
[[nodiscard]] std::string_view to_string(TimingMode mode) noexcept;

/// Times of collectives of one size: medians in us, of the slowest rank.
struct CollectiveTimes {
  std::int64_t message_bytes = 0;
  std::vector<double> lane_us, throughput_us, latency_us; ///< by variant
  /// Lower bound for comparison: all ranks at once copy as many bytes within memory, and the slowest counts. 0 for
  /// ranks whose memory is not this process's.
  double copy_us = 0;

  [[nodiscard]] std::span<const double> of(TimingMode mode) const noexcept;
  /// Index of the fastest variant.
  [[nodiscard]] std::size_t fastest(TimingMode mode) const noexcept;
};

/// The fastest variant in each range of sizes: "low_latency up to 16 KiB, direct up to 1 MiB, two_shot". `sizes` ascend
/// and are not empty.
[[nodiscard]] std::string switch_overs(std::span<const CollectiveTimes> sizes, std::span<const std::string> variants,
                                       TimingMode mode);

/// A chart of bus bandwidth over message size: one line per variant and one for the copy.
/// @param bus_factor  bytes that each rank sends and receives / message bytes
[[nodiscard]] std::string collectives_chart(std::span<const CollectiveTimes> sizes,
                                            std::span<const std::string> variants, double bus_factor,
                                            const std::string& title);

} // namespace mc2::cli
