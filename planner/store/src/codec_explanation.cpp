#include "codec_parts.hpp"
#include "mc2/planner/explanation.hpp"

/// Explanations are written for people and other programs; mc2 does not read them back.
namespace mc2::store {

template <>
inline constexpr auto kFields<planner::LaneUse> = std::tuple(field("busy_us", &planner::LaneUse::busy_us),
                                                             field("before_us", &planner::LaneUse::before_us),
                                                             field("between_us", &planner::LaneUse::between_us),
                                                             field("after_us", &planner::LaneUse::after_us));

template <>
inline constexpr auto kFields<planner::TimelineUse> = std::tuple(field("first", &planner::TimelineUse::first),
                                                                 field("second", &planner::TimelineUse::second),
                                                                 field("overlap_us",
                                                                       &planner::TimelineUse::overlap_us));

template <>
inline constexpr auto kFields<planner::Account> = std::tuple(field("lane", &planner::Account::lane),
                                                             field("uncut_us", &planner::Account::uncut_us),
                                                             field("cutting_us", &planner::Account::cutting_us),
                                                             field("contention_us", &planner::Account::contention_us),
                                                             field("before_us", &planner::Account::before_us),
                                                             field("between_us", &planner::Account::between_us),
                                                             field("after_us", &planner::Account::after_us));

template <>
inline constexpr auto kFields<planner::Loss> = std::tuple(field("lost_us", &planner::Loss::lost_us),
                                                          field("difference", &planner::Loss::difference));

template <>
inline constexpr auto kFields<planner::Flip> = std::tuple(
    field("kind", &planner::Flip::kind), field("value", &planner::Flip::value), field("cut", &planner::Flip::cut),
    field("variant", &planner::Flip::variant), field("best_us", &planner::Flip::best_us),
    field("kept_us", &planner::Flip::kept_us), field("text", &planner::Flip::text));

template <>
inline constexpr auto kFields<planner::Excursion> = std::tuple(field("end_value", &planner::Excursion::end_value),
                                                               field("flips", &planner::Excursion::flips),
                                                               field("one_percent_value",
                                                                     &planner::Excursion::one_percent_value),
                                                               field("end_loss", &planner::Excursion::end_loss));

template <>
inline constexpr auto kFields<planner::ParameterSensitivity> = std::tuple(
    field("parameter", &planner::ParameterSensitivity::parameter),
    field("value", &planner::ParameterSensitivity::value), field("unit", &planner::ParameterSensitivity::unit),
    field("relative_interval", &planner::ParameterSensitivity::relative_interval),
    field("lower", &planner::ParameterSensitivity::lower), field("higher", &planner::ParameterSensitivity::higher),
    field("text", &planner::ParameterSensitivity::text));

template <>
inline constexpr auto kFields<planner::Sensitivity> = std::tuple(
    field("best_cut", &planner::Sensitivity::best_cut), field("best_variant", &planner::Sensitivity::best_variant),
    field("best_us", &planner::Sensitivity::best_us), field("kept_us", &planner::Sensitivity::kept_us),
    field("parameters", &planner::Sensitivity::parameters));

template <>
inline constexpr auto kFields<planner::MeasuredRun> = std::tuple(field("timeline", &planner::MeasuredRun::timeline),
                                                                 field("use", &planner::MeasuredRun::use));

namespace {

struct WholePlan {
  [[nodiscard]] Json write(const planner::Plan& plan) const { return write_plan(plan); }
};

} // namespace

template <>
inline constexpr auto kFields<planner::Explanation> =
    std::tuple(document("explanation"), field("plan", &planner::Explanation::plan, WholePlan{}),
               field("use", &planner::Explanation::use), field("account", &planner::Explanation::account),
               field("bound_text", &planner::Explanation::bound_text), field("losses", &planner::Explanation::losses),
               field("sensitivity", &planner::Explanation::sensitivity),
               field("measured", &planner::Explanation::measured), field("notes", &planner::Explanation::notes));

std::string encode(const planner::Explanation& explanation) {
  return dump(write_object<kFields<planner::Explanation>>(explanation, planner::cut_axis(explanation.plan.op)));
}

} // namespace mc2::store
