#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::cli {

/// How a collective is timed; every figure says which.
enum class TimingMode : std::uint8_t {
  LaneTime,   ///< first start to last end on the communication lanes, of one collective
  Throughput, ///< of several back to back, likewise, divided by their number
  Latency,    ///< of one, from the caller's call to its return: waking the lanes and waiting included
};

/// "lane time", "throughput" or "latency".
[[nodiscard]] std::string_view to_string(TimingMode mode) noexcept;

/// What collectives of one size took: medians in us, of the slowest rank.
struct CollectiveTimes {
  std::int64_t message_bytes = 0;
  std::vector<double> lane_us, throughput_us, latency_us; ///< by variant
  /// Speed of light: every rank copies as many bytes from one place to another, all at once, the slowest counts. 0 for
  /// ranks whose memory is not this process's.
  double copy_us = 0;

  [[nodiscard]] std::span<const double> of(TimingMode mode) const noexcept;
  /// Index of the fastest variant.
  [[nodiscard]] std::size_t fastest(TimingMode mode) const noexcept;
};

/// "low_latency up to 16 KiB, direct up to 1 MiB, two_shot": who is the fastest from which size on. `sizes` ascend and
/// are not empty.
[[nodiscard]] std::string switch_overs(std::span<const CollectiveTimes> sizes, std::span<const std::string> variants,
                                       TimingMode mode);

/// Bus bandwidth over message size: one line per variant, and the copy's.
/// @param bus_factor what each rank sends and receives, over the message
[[nodiscard]] std::string collectives_chart(std::span<const CollectiveTimes> sizes,
                                            std::span<const std::string> variants, double bus_factor,
                                            const std::string& title);

} // namespace mc2::cli
