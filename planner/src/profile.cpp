#include "mc2/planner/profile.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {
constexpr std::array kComponentNames{Name<Component>{Component::Matmul, "matmul"},
                                     Name<Component>{Component::Collective, "collective"}};
constexpr std::array kContextNames{Name<Context>{Context::Alone, "alone"}, Name<Context>{Context::CoRun, "co_run"}};
} // namespace

std::string_view to_string(Component component) noexcept { return name_of<Component>(kComponentNames, component); }
std::string_view to_string(Context context) noexcept { return name_of<Context>(kContextNames, context); }
Result<Component> parse_component(std::string_view text) {
  return parse_name<Component>(kComponentNames, text, "component");
}
Result<Context> parse_context(std::string_view text) { return parse_name<Context>(kContextNames, text, "context"); }

void Profile::add_session(std::span<const Sample> session) {
  if (session.empty()) return;
  const auto [first, last] = std::ranges::minmax(session, {}, &Sample::round);
  const std::int64_t had = samples.empty() ? -1 : std::ranges::max(samples, {}, &Sample::round).round;
  const std::int64_t most = std::int64_t{std::numeric_limits<int>::max()} - last.round;
  const auto shift = static_cast<int>(std::clamp<std::int64_t>(had + 1 - first.round, 0, most));
  if (shift > 0) later_sessions.push_back(first.round + shift); // unshifted rounds continue the last session
  for (Sample sample : session) {
    sample.round += shift;
    samples.push_back(std::move(sample));
  }
}

namespace {

Error sample_error(const char* field, std::int64_t value, const std::string& legal) {
  return {ErrorCode::InvalidSpec, field, "is " + std::to_string(value) + "; " + legal};
}

/// Checks a sample together with its operator.
Result<void> validate_among(const Sample& sample, const OpSpec& op, std::int64_t unit_bytes) {
  MC2_TRY(sample.validate());
  if (sample.slowest_rank >= op.world_size)
    return sample_error("slowest_rank", sample.slowest_rank, "the ranks are 0 to " + std::to_string(op.world_size - 1));
  if (sample.component == Component::Matmul) return {};
  const std::int64_t rows = std::min(sample.message_bytes / unit_bytes, kMaxSize);
  if (sample.block_rows == rows || (sample.block_rows == 1 && rows == 0)) return {};
  return sample_error(
      "message_bytes", sample.message_bytes,
      "must be those of the block, " + std::to_string(sample.block_rows) + " of " + std::to_string(unit_bytes) + " B");
}

} // namespace

Result<void> Sample::validate() const {
  if (variant.empty()) return Error{ErrorCode::InvalidSpec, "variant", "is empty; name what was timed"};
  for (const auto& [field, value, least, most] : {std::tuple{"block_rows", block_rows, std::int64_t{0}, kMaxSize},
                                                  {"block_count", block_count, std::int64_t{1}, kMaxSize}})
    if (value < least || value > most)
      return sample_error(field, value, "legal: " + std::to_string(least) + " to " + std::to_string(most));
  if (message_bytes < 0 || (message_bytes > 0 && component == Component::Matmul))
    return sample_error("message_bytes", message_bytes,
                        component == Component::Matmul ? "must be 0 of a matmul" : "must be at least 0");
  if (size() < 1 && !is_outlier)
    return sample_error(component == Component::Matmul ? "block_rows" : "message_bytes", size(),
                        "must be above 0: nothing was timed");
  if (slowest_rank < 0) return sample_error("slowest_rank", slowest_rank, "must be at least 0");
  if (round < 0) return sample_error("round", round, "must be at least 0");
  constexpr auto kMostNs = static_cast<std::int64_t>(kMaxTimeUs * kNsPerUs);
  if (time.count() < 1 || time.count() > kMostNs)
    return sample_error("time_ns", time.count(), "legal: 1 to " + std::to_string(kMostNs));
  if (start.count() < 0 || start.count() > kMostNs)
    return sample_error("start_ns", start.count(), "legal: 0 to " + std::to_string(kMostNs));
  return {};
}

Result<void> Profile::validate() const {
  MC2_TRY(op.validate());
  if (const auto ranks = fingerprint.field("ranks"); !ranks.empty() && ranks != std::to_string(op.world_size))
    return Error{ErrorCode::InvalidSpec, "fingerprint.ranks",
                 "is \"" + std::string(ranks) + "\"; the operator has " + std::to_string(op.world_size) + " ranks"};
  const std::int64_t unit_bytes = traits_of(op.kind).message_bytes_per_unit(op);
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (const auto verdict = validate_among(samples[i], op, unit_bytes); !verdict)
      return Error{verdict.error().code, "samples[" + std::to_string(i) + "]." + verdict.error().field,
                   verdict.error().message};
  return {};
}

Result<void> validate_block_times(const CutTimes& times) {
  constexpr double kMostBusyShare = 1.05;
  for (const auto& [lane, us] :
       {std::pair{"compute", times.compute_blocks_us}, {"communication", times.communication_blocks_us}})
    if (us > kMostBusyShare * times.fused_us)
      return Error{ErrorCode::InvalidSpec, std::string(lane) + "_blocks_us",
                   std::string("its ") + lane + " blocks take " + time_text(us) + " together, longer than the whole, " +
                       time_text(times.fused_us)};
  return {};
}

Result<void> validate_cut_times(const CutTimes& times) {
  MC2_TRY(validate_measured_time("fused_us", times.fused_us));
  for (const auto& [field, us] : {std::pair{"serial_us", times.serial_us},
                                  {"compute_us", times.compute_us},
                                  {"communication_us", times.communication_us},
                                  {"compute_blocks_us", times.compute_blocks_us},
                                  {"communication_blocks_us", times.communication_blocks_us}})
    MC2_TRY(validate_known_time(field, us));
  if (!(times.relative_error >= 0 && times.relative_error < 1))
    return Error{ErrorCode::InvalidSpec, "relative_error",
                 "is " + number_text(times.relative_error) + "; must be at least 0 and below 1"};
  return validate_block_times(times);
}

namespace {

/// Times of one run that differ by more are in different units, which differ by 1000 times.
constexpr double kMostUnalike = 100;
/// A part takes no longer than the serial operator, except for noise. The fused one may have faster kernels for it.
constexpr double kMostOfSerial = 1.5, kMostOfFused = 3;
/// The parts together take no less than this share of the serial operator.
constexpr double kLeastOfSerial = 0.1;

std::string run_time_text(double us) { return number_text(us, 9) + " us"; }

/// What is wrong with a part beside the time of a whole; empty where nothing is.
std::string part_fault(std::string_view part, double part_us, std::string_view whole, double whole_us, double most) {
  if (whole_us <= 0 || part_us <= most * whole_us) return {};
  return "its " + std::string(part) + ", " + run_time_text(part_us) + ", is longer than its " + std::string(whole) +
         ", " + run_time_text(whole_us) + ", of which it is a part; are both in us?";
}

} // namespace

Result<void> validate_units(const CutTimes& times) {
  const auto refused = [](std::string why) { return Error{ErrorCode::InvalidSpec, "blocks", std::move(why)}; };
  for (const auto& [part, us] :
       {std::pair{"compute_us", times.compute_us}, {"communication_us", times.communication_us}})
    for (const std::string& why : {part_fault(part, us, "serial_us", times.serial_us, kMostOfSerial),
                                   part_fault(part, us, "fused_us", times.fused_us, kMostOfFused)})
      if (!why.empty()) return refused(why);
  const double serial_us = times.serial_us, parts_us = times.compute_us + times.communication_us;
  if (serial_us > 0 && (serial_us > kMostUnalike * times.fused_us || times.fused_us > kMostUnalike * serial_us))
    return refused("its fused_us, " + run_time_text(times.fused_us) + ", and its serial_us, " +
                   run_time_text(serial_us) + ", differ by more than 100 times; are both in us?");
  const bool has_both = times.compute_us > 0 && times.communication_us > 0;
  if (has_both && (parts_us < kLeastOfSerial * serial_us || kMostUnalike * parts_us < times.fused_us))
    return refused(
        "its compute_us and communication_us, " + run_time_text(parts_us) + " together, are far below its " +
        (serial_us > 0 ? "serial_us, " + run_time_text(serial_us) : "fused_us, " + run_time_text(times.fused_us)) +
        "; are all in us?");
  return {};
}

} // namespace mc2::planner
