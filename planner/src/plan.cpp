#include "mc2/planner/plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

constexpr std::array kScheduleNames{Name<Schedule>{Schedule::Serial, "serial"},
                                    Name<Schedule>{Schedule::Pipelined, "pipelined"},
                                    Name<Schedule>{Schedule::LocalFirst, "local_first"}};
constexpr std::array kBoundNames{Name<Bound>{Bound::Compute, "compute"},
                                 Name<Bound>{Bound::Communication, "communication"}};

constexpr double kTouching = 1e-9; ///< relative: times that were rounded to a document's digits may overlap by this

Result<void> validate_times(const Plan& plan) {
  std::vector<std::pair<std::string, double>> times{{"makespan.us", plan.makespan.us},
                                                    {"makespan.low_us", plan.makespan.low_us},
                                                    {"makespan.high_us", plan.makespan.high_us},
                                                    {"serial_us", plan.serial_us},
                                                    {"compute_us", plan.compute_us},
                                                    {"communication_us", plan.communication_us},
                                                    {"ideal_us", plan.ideal_us},
                                                    {"timeline.makespan_us", plan.timeline.makespan_us},
                                                    {"timeline.overlap_us", plan.timeline.overlap_us}};
  if (plan.block_overhead_us) times.emplace_back("block_overhead_us", *plan.block_overhead_us);
  for (std::size_t i = 0; i < plan.runners_up.size(); ++i)
    times.emplace_back("runners_up[" + std::to_string(i) + "].makespan_us", plan.runners_up[i].makespan_us);
  for (const auto& [field, us] : times) MC2_TRY(validate_time(field, us));
  return {};
}

bool are_equal(double one, double other) {
  return std::abs(one - other) <= kTouching * std::max(std::abs(one), std::abs(other));
}

/// serial_us is the sum of its two parts, and ideal_us the longer part, which no cut of the same variant beats. If
/// nothing is predicted, all are 0 and there is no timeline.
Result<void> validate_serial(const Plan& plan) {
  const double serial_us = plan.compute_us + plan.communication_us;
  const double ideal_us = std::max(plan.compute_us, plan.communication_us);
  for (const auto& [field, us, right_us, what] :
       {std::tuple{"serial_us", plan.serial_us, serial_us, "the sum of compute_us and communication_us"},
        std::tuple{"ideal_us", plan.ideal_us, ideal_us, "the larger one of compute_us and communication_us"}})
    if (!are_equal(us, right_us))
      return Error{ErrorCode::InvalidSpec, field,
                   "is " + number_text(us) + " us; must be " + what + ", " + number_text(right_us)};
  if (!(plan.makespan.us > 0)) return {};
  const std::string beside = " beside a makespan of " + number_text(plan.makespan.us) + " us; ";
  if (!(plan.serial_us > 0))
    return Error{ErrorCode::InvalidSpec, "serial_us", "is 0" + beside + "must be what serial is predicted to take"};
  if (!plan.has_timeline())
    return Error{ErrorCode::InvalidSpec, "timeline", "is empty" + beside + "must tell when each block runs"};
  return {};
}

Result<void> validate_spread(const MeasuredSpread& spread) {
  for (const auto& [name, low_us, high_us] : {std::tuple{"fused", spread.fused_low_us, spread.fused_high_us},
                                              std::tuple{"serial", spread.serial_low_us, spread.serial_high_us}}) {
    const std::string field = "spread." + std::string(name);
    MC2_TRY(validate_time(field + "_low_us", low_us));
    MC2_TRY(validate_time(field + "_high_us", high_us));
    MC2_TRY(validate_interval(field + "_low_us", low_us, high_us));
  }
  if (spread.speed_range >= 1 && spread.speed_range <= kMaxTimeUs) return {};
  return Error{ErrorCode::InvalidSpec, "spread.speed_range",
               "is " + number_text(spread.speed_range) + "; legal: 1 to 1e15"};
}

Result<void> validate_makespan(const Estimate& makespan) {
  MC2_TRY(validate_interval("makespan.low_us", makespan.low_us, makespan.high_us));
  if (makespan.us >= makespan.low_us * (1 - kTouching) && makespan.us * (1 - kTouching) <= makespan.high_us) return {};
  return Error{ErrorCode::InvalidSpec, "makespan.us",
               "is " + number_text(makespan.us) + " us, outside its own interval, " + number_text(makespan.low_us) +
                   " to " + number_text(makespan.high_us)};
}

Result<void> validate_intervals(const Plan& plan) {
  MC2_TRY(validate_makespan(plan.makespan));
  if (plan.benefit_interval)
    MC2_TRY(validate_interval("benefit_interval.low", plan.benefit_interval->low, plan.benefit_interval->high));
  return {};
}

Result<void> validate_measured(const Plan& plan) {
  if (!plan.validation) return {};
  const auto verdict = plan.validation->validate();
  if (verdict) return {};
  return Error{verdict.error().code, "validation." + verdict.error().field, verdict.error().message};
}

Result<void> validate_slowdown(const Plan& plan) {
  for (const double factor : {plan.slowdown.first, plan.slowdown.second})
    if (!(factor >= 1 && factor <= kMaxSlowdown))
      return Error{ErrorCode::InvalidSpec, "slowdown", "is " + number_text(factor) + "; legal: 1 to 1e15"};
  return {};
}

Result<void> validate_lane(const std::vector<Span>& blocks, std::size_t count, const std::string& field) {
  if (blocks.size() != count)
    return Error{ErrorCode::InvalidSpec, field,
                 "has " + std::to_string(blocks.size()) + " spans; the plan has " + std::to_string(count) + " blocks"};
  double last_us = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string place = field + "[" + std::to_string(i) + "]";
    for (const auto& [name, us] : {std::pair{".start_us", blocks[i].start_us}, {".end_us", blocks[i].end_us}})
      MC2_TRY(validate_time(place + name, us));
    if (!(blocks[i].start_us >= last_us * (1 - kTouching)) || !(blocks[i].end_us >= blocks[i].start_us))
      return Error{ErrorCode::InvalidSpec, place, "must start after the block before it and end after it starts"};
    last_us = blocks[i].end_us;
  }
  return {};
}

Result<void> validate_schedule(const Plan& plan) {
  if (plan.schedule != Schedule::Serial || !plan.is_cut()) return {};
  return Error{ErrorCode::InvalidSpec, "is_serial", "is of plans that are not cut; this one is"};
}

/// Whether a block passes from lane to lane as a whole. Blocks of kTileStoreVariant pass wave by wave.
bool passes_whole(const Variant& variant) {
  return slices_of(variant).count() == 1 && variant.name != kTileStoreVariant;
}

/// A block that passes whole leaves the first lane before it enters the second. A block that passes in slices enters
/// and leaves the first lane before the second.
Result<void> validate_spans(const Plan& plan) {
  if (!plan.has_timeline()) return {};
  const auto& [first, second, makespan_us, overlap_us] = plan.timeline;
  MC2_TRY(validate_timeline(plan.timeline, plan.span_count()));
  const bool is_whole = passes_whole(plan.variant);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double least_us = is_whole ? first[i].end_us : first[i].start_us;
    if (second[i].start_us >= least_us * (1 - kTouching) && second[i].end_us >= first[i].end_us * (1 - kTouching))
      continue;
    return Error{ErrorCode::InvalidSpec, "timeline.second[" + std::to_string(i) + "]",
                 "is from " + number_text(second[i].start_us, 6) + " to " + number_text(second[i].end_us, 6) +
                     " us; the block is on the first lane from " + number_text(first[i].start_us, 6) + " to " +
                     number_text(first[i].end_us, 6) + " us, and comes after that"};
  }
  return {};
}

Result<void> validate_losers(const Plan& plan) {
  for (std::size_t i = 0; i < plan.runners_up.size(); ++i)
    if (const auto verdict = validate_cut(plan.op, plan.runners_up[i].cut); !verdict)
      return Error{verdict.error().code, "runners_up[" + std::to_string(i) + "].cut", verdict.error().message};
  return {};
}

Result<void> validate_certificate(const Plan& plan) {
  if (!plan.certificate) return {};
  const auto& [candidates, simulated, bounded, text, restriction_cost] = *plan.certificate;
  if (simulated > candidates || bounded > candidates - simulated)
    return Error{ErrorCode::InvalidSpec, "certificate.candidate_count",
                 "is " + std::to_string(candidates) + ", fewer than the " + std::to_string(simulated) +
                     " that were simulated and the " + std::to_string(bounded) + " that were excluded"};
  if (restriction_cost && !std::isfinite(*restriction_cost))
    return Error{ErrorCode::InvalidSpec, "certificate.restriction_cost", "must be finite"};
  return {};
}

bool all_equal(std::span<const std::int64_t> rows) {
  return std::adjacent_find(rows.begin(), rows.end(), std::not_equal_to<>()) == rows.end();
}

std::string repeated_text(std::size_t count, std::int64_t rows) {
  return (count == 1 ? "" : std::to_string(count) + " x ") + std::to_string(rows);
}

constexpr std::size_t kMaxParsedBlockCount = 1024;

/// A positive number; white space around it is ignored.
std::optional<std::int64_t> parse_positive(std::string_view text) {
  const auto value = number_in<std::int64_t>(trimmed(text));
  return value && *value >= 1 ? value : std::nullopt;
}

Error unreadable(std::string_view part) {
  return {ErrorCode::InvalidSpec, "blocks",
          "cannot read '" + std::string(part.substr(0, 32)) +
              "'; write positive row counts separated by commas, e.g. 512,896,896 or 512,4x896, at most 1024 blocks"};
}

} // namespace

std::string_view to_string(Schedule schedule) noexcept { return name_of<Schedule>(kScheduleNames, schedule); }
Result<Schedule> parse_schedule(std::string_view text) {
  return parse_name<Schedule>(kScheduleNames, text, "schedule");
}
std::string_view to_string(Bound bound) noexcept { return name_of<Bound>(kBoundNames, bound); }
Result<Bound> parse_bound(std::string_view text) { return parse_name<Bound>(kBoundNames, text, "bound"); }

Result<void> validate_timeline(const Timeline& timeline, std::size_t block_count) {
  MC2_TRY(validate_time("timeline.makespan_us", timeline.makespan_us));
  for (const auto& [field, lane] :
       {std::pair{"timeline.first", &timeline.first}, {"timeline.second", &timeline.second}}) {
    MC2_TRY(validate_lane(*lane, block_count, field));
    if (!lane->empty() && lane->back().end_us * (1 - kTouching) > timeline.makespan_us)
      return Error{ErrorCode::InvalidSpec, "timeline.makespan_us",
                   "is " + number_text(timeline.makespan_us) + " us, before the last block of " + field + " ends"};
  }
  return {};
}

Result<void> Validation::validate() const {
  MC2_TRY(validate_measured_time("fused_us", fused_us));
  MC2_TRY(validate_measured_time("serial_us", serial_us));
  MC2_TRY(validate_benefit(benefit, benefit_low, benefit_high));
  if (pair_count < 1)
    return Error{ErrorCode::InvalidSpec, "pair_count", "is " + std::to_string(pair_count) + "; must be at least 1"};
  if (!measured_at.empty() && !moment_in(measured_at))
    return Error{ErrorCode::InvalidSpec, "measured_at",
                 "is '" + measured_at.substr(0, 32) + "', no moment such as 2027-01-31T12:00:00Z"};
  return spread ? validate_spread(*spread) : Result<void>();
}

Result<void> Plan::validate() const {
  for (const auto& check : {validate_times, validate_serial, validate_intervals, validate_measured, validate_slowdown,
                            validate_schedule, validate_spans, validate_losers, validate_certificate})
    MC2_TRY(check(*this));
  return counts.empty() ? Result<void>() : validate_counts(op, counts);
}

Cut uncut(const OpSpec& op) { return {{cut_axis_length(op)}}; }

Cut equal_blocks(const OpSpec& op, std::int64_t length) {
  const std::int64_t rows = cut_axis_length(op);
  Cut cut{std::vector<std::int64_t>(static_cast<std::size_t>(rows / length), length)};
  if (rows % length != 0) cut.block_rows.push_back(rows % length);
  return cut;
}

Result<void> validate_cut(const OpSpec& op, const Cut& cut) {
  const std::int64_t rows = cut_axis_length(op);
  const std::string unit = cut_axis_text(op);
  if (cut.block_rows.empty()) return Error{ErrorCode::InvalidSpec, "blocks", "is empty; give at least one block"};
  std::int64_t sum = 0;
  for (const auto length : cut.block_rows) {
    if (length < 1 || length > rows)
      return Error{ErrorCode::InvalidSpec, "blocks",
                   "holds " + std::to_string(length) + "; every block is 1 to " + std::to_string(rows) + " " + unit};
    sum += length;
    if (sum > rows) break;
  }
  if (sum != rows)
    return Error{ErrorCode::InvalidSpec, "blocks",
                 "sum to " + std::string(sum > rows ? "more than " : std::to_string(sum) + ", not ") +
                     std::to_string(rows) + " " + unit + ", the length of the cut axis"};
  return {};
}

Schedule overlapping_schedule(const OpSpec& op, const Variant& variant, const Cut& cut) {
  if (traits_of(op.kind).has_local_part) return Schedule::LocalFirst;
  return cut.block_rows.size() > 1 || slices_of(variant).count() > 1 ? Schedule::Pipelined : Schedule::Serial;
}

Result<void> validate_measured_cut(const OpSpec& op, const MeasuredCut& measured) {
  constexpr double kMostRatio = 3;
  const double fused_us = measured.fused_us, serial_us = measured.serial_us;
  MC2_TRY(validate_cut(op, measured.cut));
  if (serial_us <= 0 || overlapping_schedule(op, measured.variant, measured.cut) != Schedule::Serial) return {};
  if (fused_us <= kMostRatio * serial_us && serial_us <= kMostRatio * fused_us) return {};
  return Error{ErrorCode::InvalidSpec, "serial_us",
               "is not cut, so that its fused_us, " + time_text(fused_us) + ", and its serial_us, " +
                   time_text(serial_us) + ", are of the same thing; they must be within a factor of 3"};
}

Validation validation_of(const CutTimes& times) {
  const double ratio = times.fused_us / times.serial_us, half_width = kNormal95 * times.likely_error();
  return {.fused_us = times.fused_us,
          .serial_us = times.serial_us,
          .benefit = 1 - ratio,
          .benefit_low = 1 - ratio * (1 + half_width),
          .benefit_high = 1 - ratio * std::max(0.0, 1 - half_width),
          .pair_count = times.run_count};
}

bool Plan::overlaps() const {
  if (schedule == Schedule::Pipelined) return is_cut() || slices_of(variant).count() > 1;
  return schedule == Schedule::LocalFirst;
}

BlockOrder Cut::order() const noexcept {
  const std::span<const std::int64_t> rows(block_rows);
  if (rows.size() <= 1) return BlockOrder::Uncut;
  if (all_equal(rows)) return BlockOrder::Uniform;
  // Two unequal blocks read either way; the position of the shorter one names the order.
  if (rows.size() == 2) return rows[0] < rows[1] ? BlockOrder::ShortFirst : BlockOrder::ShortLast;
  if (all_equal(rows.subspan(1))) return BlockOrder::ShortFirst;
  if (all_equal(rows.first(rows.size() - 1))) return BlockOrder::ShortLast;
  return BlockOrder::Free;
}

std::string Cut::text() const {
  const std::size_t count = block_rows.size();
  switch (order()) {
    case BlockOrder::Uncut: return "uncut";
    case BlockOrder::Uniform: return repeated_text(count, block_rows[0]);
    case BlockOrder::ShortFirst: return std::to_string(block_rows[0]) + " + " + repeated_text(count - 1, block_rows[1]);
    case BlockOrder::ShortLast:
      return repeated_text(count - 1, block_rows[0]) + " + " + std::to_string(block_rows.back());
    case BlockOrder::Free: break;
  }
  return list_text(block_rows, " + ");
}

Result<Cut> parse_cut(std::string_view text) {
  Cut cut;
  while (true) {
    const std::size_t end = text.find_first_of(",+");
    const std::string_view part = text.substr(0, end);
    const std::size_t cross = part.find('x');
    const auto count =
        cross == std::string_view::npos ? std::optional<std::int64_t>(1) : parse_positive(part.substr(0, cross));
    const auto rows = parse_positive(cross == std::string_view::npos ? part : part.substr(cross + 1));
    if (!count || !rows || static_cast<std::uint64_t>(*count) > kMaxParsedBlockCount - cut.block_rows.size())
      return unreadable(part);
    cut.block_rows.insert(cut.block_rows.end(), static_cast<std::size_t>(*count), *rows);
    if (end == std::string_view::npos) return cut;
    text.remove_prefix(end + 1);
  }
}

} // namespace mc2::planner
