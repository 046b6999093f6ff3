#pragma once

#include <tuple>

#include "codec_parts.hpp"
#include "mc2/planner/plan_ranges.hpp"

/// The parts that documents of plans, plan ranges and plans of language models share.
namespace mc2::store {

template <>
inline constexpr auto kFields<planner::Estimate> = std::tuple(field("us", &planner::Estimate::us),
                                                              field("low_us", &planner::Estimate::low_us),
                                                              field("high_us", &planner::Estimate::high_us),
                                                              field("provenance", &planner::Estimate::provenance,
                                                                    &planner::parse_provenance),
                                                              field("reason", &planner::Estimate::reason));

template <>
inline constexpr auto kFields<planner::BenefitInterval> = std::tuple(field("low", &planner::BenefitInterval::low),
                                                                     field("high", &planner::BenefitInterval::high));

/// A document names a schedule by one flag, or by none for Pipelined. Kept for compatibility with the first documents.
struct ScheduleFlag {
  planner::Schedule schedule;
  [[nodiscard]] bool is_written(planner::Schedule found) const noexcept { return found == schedule; }
  [[nodiscard]] Json write(planner::Schedule) const { return true; }
  void read(const Node& node, planner::Schedule& found) const {
    if (!node.boolean()) return;
    if (found != planner::Schedule::Pipelined) node.fail(ErrorCode::InvalidSpec, "excludes is_local_first");
    found = schedule;
  }
};

template <>
inline constexpr auto kFields<planner::PlanGap> = std::tuple(field("first_m", &planner::PlanGap::first_m, kSize),
                                                             field("last_m", &planner::PlanGap::last_m, kSize),
                                                             field("reason", &planner::PlanGap::reason));

template <>
inline constexpr auto kFields<planner::CutRule> =
    std::tuple(field("variant", &planner::CutRule::variant),
               field("is_local_first", &planner::CutRule::schedule, ScheduleFlag{planner::Schedule::LocalFirst}),
               field("is_serial", &planner::CutRule::schedule, ScheduleFlag{planner::Schedule::Serial}),
               field("block_length", &planner::CutRule::long_rows, WholeNumber{0, planner::kMaxSize}),
               field("min_odd_length", &planner::CutRule::min_odd_rows, WholeNumber{0, planner::kMaxSize}),
               field("is_odd_first", &planner::CutRule::is_odd_first));

template <>
inline constexpr auto kFields<planner::PlanRange> = std::tuple(
    field("first_m", &planner::PlanRange::first_m, kSize), field("last_m", &planner::PlanRange::last_m, kSize),
    field("rule", &planner::PlanRange::rule), field("least_benefit", &planner::PlanRange::least_benefit),
    field("most_benefit", &planner::PlanRange::most_benefit),
    field("benefit_interval", &planner::PlanRange::benefit_interval),
    field("provenance", &planner::PlanRange::provenance, &planner::parse_provenance),
    field("loss", &planner::PlanRange::loss));

[[nodiscard]] inline Result<void> check_ranges(const planner::PlanRanges& ranges) { return ranges.validate(); }

template <>
inline constexpr auto kFields<planner::PlanRanges> =
    std::tuple(document("plan_ranges"), field("op", &planner::PlanRanges::op),
               field("fingerprint", &planner::PlanRanges::fingerprint, Texts{}),
               field("first_m", &planner::PlanRanges::first_m, kSize), field("ranges", &planner::PlanRanges::ranges),
               field("gaps", &planner::PlanRanges::gaps),
               field("planned_count", &planner::PlanRanges::planned_count, at_least(0)), checked(&check_ranges));

} // namespace mc2::store
