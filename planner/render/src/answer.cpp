#include "mc2/render/answer.hpp"

#include <cmath>

#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/routing.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/render/text.hpp"

namespace mc2::render {
namespace {

constexpr int kAnswerNameColumns = 9;
constexpr std::size_t kBlockLines = 2, kSentenceLines = 8; ///< a list of blocks may be cut, a sentence only if absurd
constexpr double kNoBenefit = 0.0005;                      ///< a smaller benefit shows as 0.0 %
constexpr std::string_view kGiven = "given";               ///< the strategy of a plan whose blocks the caller chose
constexpr std::string_view kNoCut = "do not cut: ";        ///< the reasons of serial plans may begin with this

std::string work_of(const planner::Plan& plan) { return std::string(to_string(planner::traits_of(plan.op.kind).work)); }

std::string blocks_text(const planner::Plan& plan) {
  const std::string variant = ", variant " + plan.variant.text();
  if (plan.is_cut()) return plan.cut.text() + " " + planner::cut_axis_text(plan.op) + variant;
  if (plan.overlaps()) return "one block that overlaps by itself" + variant;
  return "do not cut: " + work_of(plan) + ", then collective" + variant;
}

/// The benefit in words, as a share of the serial time.
std::string benefit_text(const planner::Plan& plan) {
  if (plan.validation && plan.overlaps()) {
    const auto& v = *plan.validation;
    if (v.benefit <= -kNoBenefit)
      return percent_text(-v.benefit) + " MORE time than serial, measured (95 % interval of the benefit " +
             percent_interval_text(v.benefit_low, v.benefit_high) + "): do not run it for speed";
    return percent_text(v.benefit) + " less time than serial (95 % interval " +
           percent_interval_text(v.benefit_low, v.benefit_high) + ")";
  }
  if (!plan.overlaps() && plan.is_undecided()) return plan.reason;
  if (!plan.overlaps() && plan.reason.starts_with(kNoCut)) return "none: " + plan.reason.substr(kNoCut.size());
  if (!plan.overlaps() && plan.strategy == kGiven) return "none: blocks as asked, nothing was compared";
  if (!plan.overlaps()) return "none: no cut is faster here";
  if (!(plan.serial_us > 0)) return "unknown: nothing is predicted of these blocks";
  if (plan.benefit() < kNoBenefit && plan.benefit() > -kNoBenefit) return "below 0.05 %, predicted";
  if (plan.benefit() < 0)
    return percent_text(-plan.benefit()) + " MORE time than serial, predicted: do not run it for speed";
  const auto& predicted = plan.benefit_interval;
  const std::string interval = predicted ? "; 90 %: " + percent_interval_text(predicted->low, predicted->high) : "";
  return percent_text(plan.benefit()) + " less time than serial (predicted" + interval + ")";
}

std::string time_line(const planner::Plan& plan) {
  if (plan.validation && !plan.overlaps()) return time_text(plan.validation->fused_us);
  if (plan.validation)
    return time_text(plan.validation->fused_us) + " instead of " + time_text(plan.validation->serial_us) +
           ratio_note(*plan.validation);
  if (!(plan.makespan.us > 0)) return {};
  const std::string interval = " (90 %: " + time_interval_text(plan.makespan.low_us, plan.makespan.high_us) + ")";
  if (!plan.overlaps()) return time_text(plan.makespan.us) + interval;
  return time_text(plan.makespan.us) + " instead of " + time_text(plan.serial_us) + interval;
}

/// Says so where the machine's speed changed during the race by more than cuts usually gain.
std::string unsteady_text(const planner::Validation& race) {
  constexpr double kSteady = 1.5;
  if (!race.spread || race.spread->speed_range <= kSteady) return {};
  return "; UNSTEADY: serial's runs differed by " + number_text(race.spread->speed_range, 3) + "x";
}

std::string sure_text(const planner::Plan& plan) {
  if (plan.validation && plan.strategy == "refined")
    return "measured: imported, " + std::to_string(plan.validation->pair_count) +
           (plan.validation->pair_count == 1 ? " run" : " runs");
  if (plan.validation)
    return std::string(plan.is_undecided() ? planner::kUndecided : "measured: ") + "raced on this machine, " +
           std::to_string(plan.validation->pair_count) + " pairs" +
           (plan.validation->measured_at.empty() ? "" : ", " + plan.validation->measured_at.substr(0, 16) + "Z") +
           (plan.is_undecided() ? "; mc2 tune --fresh with a longer --budget asks again"
                                : unsteady_text(*plan.validation));
  if (!(plan.makespan.us > 0)) return plan.makespan.reason.empty() ? "no model" : plan.makespan.reason;
  return std::string(to_string(plan.makespan.provenance)) + ": " + plan.makespan.reason;
}

/// One field; empty without text.
std::string field(const char* label, const std::string& text, int width, std::size_t most_lines = kSentenceLines) {
  return text.empty() ? "" : fact_line(label, text, width, kAnswerNameColumns, most_lines);
}

} // namespace

std::string question_text(const planner::Plan& plan) {
  if (plan.counts.empty()) return plan.op.text();
  return plan.op.text() + ", counts of imbalance " + number_text(planner::imbalance_of(plan.op, plan.counts), 3);
}

std::string ratio_note(const planner::Validation& measured) {
  constexpr double kPoint = 0.01;
  const double of_medians = 1 - measured.fused_us / measured.serial_us;
  const auto sign = [](double benefit) { return (benefit >= kNoBenefit) - (benefit <= -kNoBenefit); };
  const bool is_other_sign = sign(of_medians) * sign(measured.benefit) < 0;
  if (!is_other_sign && !(std::abs(of_medians - measured.benefit) > kPoint)) return {};
  return "; the benefit is the median of the pairs' ratios";
}

std::string answer(const planner::Plan& plan, const std::string& next, int width) {
  return question_text(plan) + "\n" + hanging("", plan.fingerprint.label(), width) +
         field("blocks", blocks_text(plan), width, kBlockLines) + field("benefit", benefit_text(plan), width) +
         field("time", time_line(plan), width) + field("basis", sure_text(plan), width) + field("next", next, width);
}

} // namespace mc2::render
