#include "codec_parts.hpp"
#include "mc2/planner/explanation.hpp"

namespace mc2::store {
namespace {

using planner::Account;
using planner::CutAxis;
using planner::Excursion;
using planner::Explanation;
using planner::Flip;
using planner::LaneUse;
using planner::Loss;
using planner::ParameterSensitivity;
using planner::Sensitivity;

Json write_lane_use(const LaneUse& use) {
  return {{"after_us", finite(use.after_us)},
          {"before_us", finite(use.before_us)},
          {"between_us", finite(use.between_us)},
          {"busy_us", finite(use.busy_us)}};
}

Json write_use(const planner::TimelineUse& use) {
  return {{"first", write_lane_use(use.first)},
          {"overlap_us", finite(use.overlap_us)},
          {"second", write_lane_use(use.second)}};
}

Json write_account(const Account& account) {
  return {{"after_us", finite(account.after_us)},     {"before_us", finite(account.before_us)},
          {"between_us", finite(account.between_us)}, {"contention_us", finite(account.contention_us)},
          {"cutting_us", finite(account.cutting_us)}, {"lane", to_string(account.lane)},
          {"uncut_us", finite(account.uncut_us)}};
}

Json write_losses(const std::vector<Loss>& losses) {
  Json result = Json::array();
  for (const Loss& loss : losses) {
    Json each = {{"lost_us", finite(loss.lost_us)}};
    if (loss.difference) each["difference"] = write_account(*loss.difference);
    result.push_back(std::move(each));
  }
  return result;
}

Json write_flip(const Flip& flip, CutAxis axis) {
  Json result = {{"best_us", finite(flip.best_us)}, {"cut", write_cut(flip.cut, axis)},
                 {"kind", to_string(flip.kind)},    {"text", flip.text},
                 {"value", finite(flip.value)},     {"variant", write_variant(flip.variant)}};
  if (flip.kept_us) result["kept_us"] = finite(*flip.kept_us);
  return result;
}

Json write_excursion(const Excursion& excursion, CutAxis axis) {
  Json flips = Json::array();
  for (const Flip& flip : excursion.flips) flips.push_back(write_flip(flip, axis));
  Json result = {{"end_value", finite(excursion.end_value)}, {"flips", std::move(flips)}};
  if (excursion.one_percent_value) result["one_percent_value"] = finite(*excursion.one_percent_value);
  if (excursion.end_loss) result["end_loss"] = finite(*excursion.end_loss);
  return result;
}

Json write_parameter(const ParameterSensitivity& parameter, CutAxis axis) {
  return {{"higher", write_excursion(parameter.higher, axis)},
          {"lower", write_excursion(parameter.lower, axis)},
          {"parameter", to_string(parameter.parameter)},
          {"relative_interval", finite(parameter.relative_interval)},
          {"text", parameter.text},
          {"unit", parameter.unit},
          {"value", finite(parameter.value)}};
}

Json write_sensitivity(const Sensitivity& sensitivity, CutAxis axis) {
  Json parameters = Json::array();
  for (const ParameterSensitivity& parameter : sensitivity.parameters)
    parameters.push_back(write_parameter(parameter, axis));
  return {{"best_cut", write_cut(sensitivity.best_cut, axis)},
          {"best_us", finite(sensitivity.best_us)},
          {"best_variant", write_variant(sensitivity.best_variant)},
          {"kept_us", finite(sensitivity.kept_us)},
          {"parameters", std::move(parameters)}};
}

} // namespace

std::string encode(const Explanation& explanation) {
  Json result = {{"account", write_account(explanation.account)},
                 {"bound_text", explanation.bound_text},
                 {"losses", write_losses(explanation.losses)},
                 {"notes", explanation.notes},
                 {"plan", write_plan(explanation.plan)},
                 {"schema", schema_name("explanation")},
                 {"use", write_use(explanation.use)}};
  if (explanation.sensitivity)
    result["sensitivity"] = write_sensitivity(*explanation.sensitivity, cut_axis(explanation.plan.op));
  if (explanation.measured)
    result["measured"] = {{"timeline", write_timeline(explanation.measured->timeline)},
                          {"use", write_use(explanation.measured->use)}};
  return dump(result);
}

} // namespace mc2::store
