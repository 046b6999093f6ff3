#include "pages/race_page.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/render/answer.hpp"
#include "mc2/render/plan_page.hpp"
#include "mc2/render/text.hpp"
#include "mc2/store/codec.hpp"
#include "pages/render.hpp"
#include "pages/trace.hpp"

namespace mc2::cli {
namespace {

constexpr int kFindingColumns = 20; ///< of the names

std::string interval_text(const std::string& value, const std::string& low, const std::string& high) {
  return value + " (95 % interval " + low + " to " + high + ")";
}

/// How sure the prediction was, and whether it came true.
std::string prediction_text(const planner::Plan& plan, const profiler::Race& race, int width, int name_columns) {
  const planner::Estimate& predicted = plan.makespan;
  if (!(predicted.us > 0)) return {};
  const std::string note = render::outside_note(plan, race.contenders.front().validation().fused_us);
  return render::fact_line("predicted",
                           time_text(predicted.us) + " (90 % interval " +
                               time_interval_text(predicted.low_us, predicted.high_us) + "), " +
                               std::string(to_string(predicted.provenance)) + ": " + predicted.reason,
                           width, name_columns) +
         (note.empty() ? "" : render::fact_line("note", note, width, name_columns));
}

std::string verdict(const planner::Validation& measured) {
  if (measured.benefit_low > 0) return "faster than serial beyond the noise";
  if (measured.benefit_high < 0) return "SLOWER than serial beyond the noise: do not use this plan here";
  return "not distinguishable from serial";
}

/// The measured times, and the predicted ones if there are any.
std::string times_table(const planner::Plan& plan, const profiler::Race& race) {
  const planner::Validation measured = race.contenders.front().validation();
  const double compute_us = profiler::median(race.compute_us),
               communication_us = profiler::median(race.communication_us);
  const std::string work(to_string(planner::traits_of(plan.op.kind).work));
  std::vector<std::vector<std::string>> rows{
      {"", "fused", "serial", work + " alone", "collective alone", "ideal"},
      {"measured", time_text(measured.fused_us), time_text(measured.serial_us), time_text(compute_us),
       time_text(communication_us), time_text(std::max(compute_us, communication_us))}};
  if (plan.makespan.us > 0)
    rows.push_back({"predicted", time_text(plan.makespan.us), time_text(plan.serial_us), time_text(plan.compute_us),
                    time_text(plan.communication_us), time_text(plan.ideal_us)});
  return table(rows);
}

/// What the race says about the cut, as names and texts.
std::vector<std::pair<std::string, std::string>> findings(const planner::Plan& plan, const profiler::Race& race) {
  const planner::Validation measured = race.contenders.front().validation();
  const std::string pairs = "; medians of " + std::to_string(measured.pair_count) + " interleaved pairs";
  if (!plan.overlaps())
    return {{"cut", plan.cut.text()},
            {"benefit", "none: this plan is serial, and both sides of every pair ran the same"},
            {"verdict", "this plan is not cut: it is serial" + pairs}};
  const profiler::Interval efficiency = race.overlap_efficiency(race.contenders.front());
  const auto predicted = [&](const std::string& share) { return plan.makespan.us > 0 ? ", predicted " + share : ""; };
  return {{"cut", plan.cut.text()},
          {"benefit", interval_text(percent_text(measured.benefit), percent_text(measured.benefit_low),
                                    percent_text(measured.benefit_high)) +
                          predicted(percent_text(plan.benefit())) + render::ratio_note(measured)},
          {"overlap efficiency",
           interval_text(render::efficiency_text(efficiency.value), render::efficiency_text(efficiency.low),
                         render::efficiency_text(efficiency.high)) +
               predicted(render::efficiency_text(plan.overlap_efficiency()))},
          {"verdict", verdict(measured) + pairs}};
}

} // namespace

planner::Timeline measured_timeline(const planner::OpSpec& op, const executor::RunRecord& record) {
  const auto last_end = [](const executor::RankTimes& rank) {
    return std::max(rank.compute.back().end, rank.communication.back().end);
  };
  const auto& slowest = *std::max_element(record.ranks.begin(), record.ranks.end(),
                                          [&](const auto& a, const auto& b) { return last_end(a) < last_end(b); });
  const render::MeasuredLanes lanes = measured_lanes(op, slowest);
  const bool compute_first = planner::traits_of(op.kind).first_lane == planner::Lane::Compute;
  planner::Timeline timeline;
  timeline.first = compute_first ? lanes.compute : lanes.communication;
  timeline.second = compute_first ? lanes.communication : lanes.compute;
  if (lanes.local) { // shown as block 0, as in predicted timelines
    timeline.first.insert(timeline.first.begin(), planner::Span{});
    timeline.second.insert(timeline.second.begin(), *lanes.local);
  }
  timeline.makespan_us = planner::to_us(record.makespan);
  return timeline;
}

std::string race_table(const profiler::Race& race, const std::vector<planner::Plan>& plans) {
  std::vector<std::vector<std::string>> rows{
      {"cut", "variant", "predicted", "measured", "serial", "benefit (95 % interval)", "overlap efficiency", "pairs"}};
  std::vector<planner::Variant> variants;
  for (const auto& contender : race.contenders) variants.push_back(contender.variant);
  const auto names = render::variant_names(variants).names;
  for (std::size_t i = 0; i < race.contenders.size(); ++i) {
    const auto& contender = race.contenders[i];
    const planner::Validation v = contender.validation();
    rows.push_back({contender.cut.text(), names[i], time_text(plans[i].makespan.us), time_text(v.fused_us),
                    time_text(v.serial_us),
                    percent_text(v.benefit) + " (" + percent_interval_text(v.benefit_low, v.benefit_high) + ")",
                    !contender.is_serial ? render::efficiency_text(race.overlap_efficiency(contender).value) : "-",
                    std::to_string(v.pair_count)});
  }
  return table(rows);
}

std::string run_page(const planner::Plan& plan, const profiler::Race& race, const executor::Verification& verification,
                     const executor::RunRecord& record, const planner::Fingerprint& here, int width, bool color) {
  const planner::Lane first_lane = planner::traits_of(plan.op.kind).first_lane;
  std::string page = render::question_text(plan) + "\n" + render::hanging("", here.label(), width);
  if (!(plan.fingerprint == here)) page += render::hanging("plan made on ", plan.fingerprint.label(), width);
  page += "\n";
  page += render::hanging("  correct: ", verification.text, width) + "\n" + times_table(plan, race) + "\n";
  for (const auto& [name, text] : findings(plan, race)) page += render::fact_line(name, text, width, kFindingColumns);
  page += prediction_text(plan, race, width, kFindingColumns);
  page += "\n  measured, one run, slowest rank\n" +
          draw_timeline(measured_timeline(plan.op, record), first_lane, width, color);
  if (plan.has_timeline()) page += "  predicted\n" + draw_timeline(plan.timeline, first_lane, width, color);
  if (!(plan.makespan.us > 0)) page += render::hanging("  nothing is predicted: ", plan.reason, width);
  return page;
}

std::string verification_page(const planner::Plan& plan, const executor::Verification& verification,
                              const planner::Fingerprint& here, int width) {
  return render::question_text(plan) + "\n" + render::hanging("", here.label(), width) + "\n" +
         render::hanging("  correct: ", verification.text, width) + "\n" +
         render::fact_line("cut", plan.cut.text(), width, kFindingColumns) +
         render::fact_line("variant", plan.variant.text(), width, kFindingColumns) +
         render::fact_line("times", "none: ranks that share a device wait for one another", width, kFindingColumns);
}

nlohmann::json verification_report(const planner::Plan& plan, const executor::Verification& verification) {
  return {{"plan", nlohmann::json::parse(store::encode(plan))},
          {"verification",
           {{"worst_error_ratio", verification.worst_error_ratio},
            {"element_count", verification.element_count},
            {"exact_row_count", verification.exact_row_count}}}};
}

nlohmann::json run_report(const planner::Plan& plan, const profiler::Race& race,
                          const executor::Verification& verification, const planner::Fingerprint& here) {
  const auto& contender = race.contenders.front();
  planner::Validation v = contender.validation();
  profiler::Interval efficiency = race.overlap_efficiency(contender);
  if (!plan.overlaps()) { // both sides of every pair were the same run, so that what differs is noise
    v.benefit = v.benefit_low = v.benefit_high = 0;
    efficiency = {};
  }
  nlohmann::json report = verification_report(plan, verification);
  report["measured"] = {{"machine", here.label()},
                        {"fused_us", v.fused_us},
                        {"serial_us", v.serial_us},
                        {"compute_us", profiler::median(race.compute_us)},
                        {"communication_us", profiler::median(race.communication_us)},
                        {"benefit", v.benefit},
                        {"benefit_low", v.benefit_low},
                        {"benefit_high", v.benefit_high},
                        {"overlap_efficiency", efficiency.value},
                        {"overlap_efficiency_low", efficiency.low},
                        {"overlap_efficiency_high", efficiency.high},
                        {"pair_count", v.pair_count}};
  return report;
}

} // namespace mc2::cli
