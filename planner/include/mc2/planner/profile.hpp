#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/units.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// What a sample measured. Values are stored: never renumber.
enum class Component : std::uint8_t { Matmul = 1, Collective = 2 };

/// What the other lane did meanwhile. Values are stored: never renumber.
enum class Context : std::uint8_t { Alone = 1, CoRun = 2 };

[[nodiscard]] std::string_view to_string(Component component) noexcept;
[[nodiscard]] std::string_view to_string(Context context) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<Component> parse_component(std::string_view text);
/// Errors: UnknownName.
[[nodiscard]] Result<Context> parse_context(std::string_view text);

/// One timed iteration of one lane over `block_count` equal blocks.
struct Sample {
  Component component = Component::Matmul;
  Context context = Context::Alone;
  std::string variant;              ///< Variant::text() of the variant that was timed
  std::int64_t block_rows = 0;      ///< rows of one block on the cut axis
  std::int64_t block_count = 1;     ///< blocks that the iteration ran back to back
  std::int64_t message_bytes = 0;   ///< of one block, full array; 0 for a matmul
  std::chrono::nanoseconds time{0}; ///< of ONE block: the slowest rank's lane time / block_count
  int slowest_rank = 0;
  int round = 0;           ///< samples of one round were taken within moments of each other
  bool is_outlier = false; ///< kept and reported, but not fitted
  /// Time of the iteration besides its blocks, as its caller waited for it (LaneCost::start_us); 0 where nothing tells
  /// it.
  std::chrono::nanoseconds start{0};

  /// The x of this sample on its curve: rows for a matmul, bytes for a collective.
  [[nodiscard]] std::int64_t size() const noexcept {
    return component == Component::Matmul ? block_rows : message_bytes;
  }
  [[nodiscard]] double time_us() const noexcept { return to_us(time); }
  /// Errors: InvalidSpec naming an empty variant, a size or number outside its range, a matmul with bytes, a time
  /// outside 1 ns to kMaxTimeUs, or a start outside 0 to kMaxTimeUs.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const Sample&) const = default;
};

/// Every sample of one operator on one machine.
struct Profile {
  OpSpec op; ///< m is the uncut size
  Fingerprint fingerprint;
  std::vector<Sample> samples;
  /// The first round of each session after the first one, ascending; add_session() fills it. Not part of the document.
  std::vector<int> later_sessions = {};

  /// Adds the samples of another session. If its rounds are not all later than the profile's, they are renumbered to
  /// follow them, so that samples of two sessions never share a round: each round has a machine speed of its own.
  void add_session(std::span<const Sample> session);
  /// Errors: as OpSpec::validate; InvalidSpec naming a sample as Sample::validate, a collective whose bytes are not
  /// those of its block, a slowest rank that is not one of the ranks, or a fingerprint with another number of ranks. A
  /// message in a log need not be a whole number of rows: its block has the rows that fit into it, at least one.
  /// Samples from logs of several operators do not form a profile that is valid here: only their bytes count, because
  /// their rows are those of the operator that each was imported for.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const Profile& other) const {
    return op == other.op && fingerprint == other.fingerprint && samples == other.samples;
  }
};

/// The relative error of a time whose runs do not tell it.
inline constexpr double kUsualError = 0.01;

/// Times of a cut of a fused operator, and of its uncut parts beside it: medians in us. Only fused_us is always known;
/// the others are 0 where nothing tells them.
struct CutTimes {
  double fused_us = 0;
  double serial_us = 0, compute_us = 0, communication_us = 0; ///< uncut
  double compute_blocks_us = 0, communication_blocks_us = 0;  ///< sums over a lane's blocks, as they ran in the cut
  int run_count = 1;                                          ///< in a race, pairs of a fused and a serial run
  double relative_error = 0;                                  ///< standard error of fused_us, relative; 0 where unknown

  /// relative_error, or kUsualError where it is unknown.
  [[nodiscard]] double likely_error() const noexcept { return relative_error > 0 ? relative_error : kUsualError; }
  bool operator==(const CutTimes&) const = default;
};

/// A lane's blocks run one after the other, so together they take no longer than the cut. This check allows 5 % more,
/// because the medians may come from different runs. Errors: InvalidSpec naming the lane's field.
[[nodiscard]] Result<void> validate_block_times(const CutTimes& times);

/// Errors: InvalidSpec naming the field, for a fused_us that validate_measured_time refuses, another time that
/// validate_known_time or validate_block_times refuses, and a relative_error below 0, or of 1 and above.
[[nodiscard]] Result<void> validate_cut_times(const CutTimes& times);

/// All runs of one cut of a fused operator, as the user's own executor timed them.
struct CutRuns : CutTimes {
  std::string blocks; ///< as parse_cut() reads them, or the digest of a kept plan
};

/// Checks that the times of a cut's runs are in one unit: the parts are no longer than the whole, and the whole is
/// about as long as its parts. Errors: InvalidSpec (blocks), naming both times.
[[nodiscard]] Result<void> validate_units(const CutTimes& times);

} // namespace mc2::planner

#pragma GCC visibility pop
