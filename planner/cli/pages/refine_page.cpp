#include "pages/refine_page.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "pages/render.hpp"
#include "pages/text.hpp"

namespace mc2::cli {
namespace {

using profiler::CutBelief;
using profiler::LearnedFactor;
using profiler::MeasuredAccount;
using profiler::Refinement;

std::string gain_text(double us, double serial_us) { return percent_text(1 - us / serial_us); }

std::string range_text(const CutBelief& cut) { return time_text(cut.low_us) + " .. " + time_text(cut.high_us); }

std::string measured_table(const Refinement& refinement) {
  std::vector<std::vector<std::string>> rows{{"  cut", "model alone", "from earlier cuts", "measured", "gain"}};
  for (const CutBelief& cut : refinement.measured)
    rows.push_back({"  " + cut.cut.text() + (refinement.plan.cut == cut.cut ? " *" : ""), time_text(cut.profiled_us),
                    cut.foretold_us > 0 ? time_text(cut.foretold_us) : "-",
                    time_text(cut.measured_us) + (cut.is_believed ? "" : ", set aside"),
                    cut.is_believed ? gain_text(cut.measured_us, refinement.serial_us) : "-"});
  rows.push_back(
      {"  serial", "", "", (refinement.is_serial_measured ? "" : "predicted ") + time_text(refinement.serial_us), ""});
  return table(rows);
}

using What = LearnedFactor::What;

/// Whether the measured cuts determine this factor.
bool is_told(const Refinement& refinement, What what) {
  const auto factor = std::ranges::find(refinement.factors, what, &LearnedFactor::what);
  return factor != refinement.factors.end() && factor->is_determined;
}

/// The time of a part, marked if its factor is only assumed.
std::string part_text(double us, bool is_known) { return time_text(us) + (is_known || us == 0 ? "" : ", assumed"); }

/// A table of where the time of each lane goes, with a column for each lane.
std::string account_table(const Refinement& refinement) {
  std::vector<std::vector<std::string>> rows{{"  where the cut's time goes"},
                                             {"  uncut"},
                                             {"  cost of shorter blocks"},
                                             {"  fixed costs of the blocks"},
                                             {"  slowed by the other lane"},
                                             {"  waiting for the other lane"},
                                             {"  not explained"},
                                             {"  all blocks / uncut"}};
  const auto is_bounding = [&](const MeasuredAccount& account) {
    return (account.lane == planner::Lane::Compute) == (refinement.plan.bound == planner::Bound::Compute);
  };
  for (const MeasuredAccount& account : refinement.accounts) {
    const bool is_compute = account.lane == planner::Lane::Compute;
    const bool is_slowdown_told = is_told(refinement, is_compute ? What::ComputeSlowdown : What::CommunicationSlowdown);
    const std::array cells{std::string(to_string(account.lane)) + (is_bounding(account) ? ", the bound" : ""),
                           time_text(account.uncut_us),
                           time_text(account.small_block_us),
                           part_text(account.overhead_us, is_told(refinement, What::BlockOverhead)),
                           part_text(account.contention_us, is_slowdown_told),
                           time_text(account.waiting_us),
                           time_text(account.unexplained_us),
                           number_text(account.expansion(), 3) + (account.is_timed ? ", measured" : ", by the model")};
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row].push_back(cells[row]);
  }
  return table(rows);
}

std::string name_of(LearnedFactor::What what) {
  switch (what) {
    case LearnedFactor::What::ComputeSlowdown: return "slow-down of compute";
    case LearnedFactor::What::CommunicationSlowdown: return "slow-down of communication";
    case LearnedFactor::What::BlockOverhead: break;
  }
  return "fixed cost of a block";
}

std::string value_text(LearnedFactor::What what, double value, double low, double high) {
  if (what == LearnedFactor::What::BlockOverhead)
    return time_text(value) + " (" + time_text(low) + " .. " + time_text(high) + ")";
  return number_text(value, 3) + " (" + number_text(low, 3) + " .. " + number_text(high, 3) + ")";
}

std::string factor_table(const Refinement& refinement) {
  std::vector<std::vector<std::string>> rows{{"  what cutting costs", "before", "now", ""}};
  for (const LearnedFactor& factor : refinement.factors)
    rows.push_back({"  " + name_of(factor.what),
                    value_text(factor.what, factor.before, factor.before_low, factor.before_high),
                    value_text(factor.what, factor.after, factor.after_low, factor.after_high),
                    factor.is_determined ? "" : "not determined"});
  return table(rows);
}

std::string next_table(const Refinement& refinement) {
  std::vector<std::vector<std::string>> rows{{"  run next", "expected", "90 % interval", "gain"}};
  for (const CutBelief& cut : refinement.next)
    rows.push_back(
        {"  " + cut.cut.text(), time_text(cut.us), range_text(cut), gain_text(cut.us, refinement.serial_us)});
  return table(rows);
}

/// Why nothing could be used, by the example of the first cut.
std::string unusable_text(const Refinement& refinement) {
  const CutBelief& cut = refinement.measured.front();
  const planner::Plan& uncut = refinement.plan;
  const bool is_compute = uncut.compute_us > uncut.communication_us;
  const std::string part = is_compute ? std::string(to_string(planner::traits_of(uncut.op.kind).work)) : "collective";
  const double part_us = is_compute ? uncut.compute_us : uncut.communication_us;
  return "nothing usable was measured: " + time_text(cut.measured_us) + " is below what " +
         (cut.measured_us < part_us ? "the " + part + " alone takes, " + time_text(part_us)
                                    : "blocks of " + cut.cut.text() + " take undisturbed") +
         "; time it again";
}

std::string use_text(const Refinement& refinement) {
  if (refinement.measured.empty())
    return std::string(refinement.is_serial_measured ? "only the uncut operator was measured yet"
                                                     : "nothing was measured yet") +
           (refinement.next.empty() ? "" : ": run these cuts");
  if (!refinement.has_usable_cut()) return unusable_text(refinement);
  if (!refinement.plan.is_cut()) return "use: do not cut; no cut that was measured is faster than serial";
  const CutBelief* fastest = nullptr;
  for (const CutBelief& cut : refinement.measured)
    if (cut.is_believed && (fastest == nullptr || cut.measured_us < fastest->measured_us)) fastest = &cut;
  const bool is_plan = fastest == nullptr || planner::is_same_choice(*fastest, refinement.plan);
  return "use: " + refinement.plan.cut.text() +
         (is_plan ? ", the fastest that was measured"
                  : ", the fastest after correction for the machine's changes of speed and for measuring error");
}

std::string set_aside_text(const Refinement& refinement) {
  std::vector<std::string> cuts;
  for (const CutBelief& cut : refinement.measured)
    if (!cut.is_believed) cuts.push_back(cut.cut.text());
  return "set aside: " + list_text(cuts) +
         "; the other cuts or the times of the uncut parts contradict this time, so measure it again";
}

std::string verdict_text(const Refinement& refinement, const std::string& next_step) {
  if (refinement.next.empty())
    return "settled: no other cut is expected to gain more than " + percent_text(refinement.expected_gain, 2) +
           (refinement.noise > 0
                ? ", and the standard error of the best cut's time is " + percent_text(refinement.noise, 2)
                : "");
  return "ordered by expected improvement on the best so far, so that uncertain cuts may come first; " + next_step;
}

nlohmann::ordered_json json_of(const CutBelief& cut) {
  nlohmann::ordered_json json{{"cut", {{"block_rows", cut.cut.block_rows}}},
                              {"variant", {{"name", cut.variant.name}, {"fields", cut.variant.fields}}},
                              {"profiled_us", cut.profiled_us},
                              {"expected_us", cut.us},
                              {"low_us", cut.low_us},
                              {"high_us", cut.high_us},
                              {"expected_gain", cut.expected_gain}};
  if (cut.measured_us > 0) {
    json["measured_us"] = cut.measured_us;
    json["is_believed"] = cut.is_believed;
  }
  if (cut.foretold_us > 0) json["foretold_us"] = cut.foretold_us;
  return json;
}

nlohmann::ordered_json json_of(const LearnedFactor& factor) {
  return {{"factor", to_string(factor.what)},
          {"before", {{"value", factor.before}, {"low", factor.before_low}, {"high", factor.before_high}}},
          {"after", {{"value", factor.after}, {"low", factor.after_low}, {"high", factor.after_high}}},
          {"is_determined", factor.is_determined}};
}

nlohmann::ordered_json json_of(const MeasuredAccount& account) {
  return {{"lane", to_string(account.lane)},
          {"blocks_us", account.blocks_us},
          {"is_timed", account.is_timed},
          {"uncut_us", account.uncut_us},
          {"small_block_us", account.small_block_us},
          {"overhead_us", account.overhead_us},
          {"contention_us", account.contention_us},
          {"waiting_us", account.waiting_us},
          {"unexplained_us", account.unexplained_us}};
}

template <typename Items>
nlohmann::ordered_json list_of(const Items& items) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& item : items) list.push_back(json_of(item));
  return list;
}

} // namespace

std::string refine_page(const planner::OpSpec& op, const std::string& machine, const Refinement& refinement,
                        const std::string& next_step, int width) {
  std::string page = op.text() + "\n" + render::hanging("", machine, width) + "\n";
  if (!refinement.measured.empty()) page += measured_table(refinement) + "\n";
  page += remark(use_text(refinement), width) + "\n";
  if (refinement.has_usable_cut() && !std::ranges::all_of(refinement.measured, &CutBelief::is_believed))
    page += remark(set_aside_text(refinement), width) + "\n";
  if (!refinement.accounts.empty()) page += account_table(refinement) + "\n";
  if (!refinement.factors.empty()) page += factor_table(refinement) + "\n";
  if (!refinement.next.empty()) page += next_table(refinement);
  return page + remark(verdict_text(refinement, next_step), width);
}

nlohmann::ordered_json refine_report(const planner::OpSpec& op, const Refinement& refinement) {
  nlohmann::ordered_json report{{"op", nlohmann::json::parse(store::encode(op))},
                                {"serial_us", refinement.serial_us},
                                {"is_serial_measured", refinement.is_serial_measured},
                                {"measured", list_of(refinement.measured)},
                                {"factors", list_of(refinement.factors)},
                                {"next", list_of(refinement.next)},
                                {"expected_gain", refinement.expected_gain},
                                {"noise", refinement.noise},
                                {"plan", nlohmann::json::parse(store::encode(refinement.plan))}};
  if (!refinement.accounts.empty()) report["cut_accounts"] = list_of(refinement.accounts);
  return report;
}

} // namespace mc2::cli
