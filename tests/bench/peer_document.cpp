#include <nlohmann/json.hpp>

#include "mc2/store/codec.hpp"
#include "peer_page.hpp"

namespace mc2::cli {
namespace {

using nlohmann::json;

json interval_json(const profiler::Interval& interval) {
  return {{"value", interval.value}, {"low", interval.low}, {"high", interval.high}};
}

json operator_json(const planner::OpSpec& op) {
  return {{"op", to_string(op.kind)}, {"m", op.m}, {"n", op.n}, {"k", op.k}, {"dtype", to_string(op.dtype)},
          {"ranks", op.world_size}};
}

json torch_json(const PeerTimes& torch) {
  json result{{"mc2_us", torch.mc2_us}, {"forms", json::object()}};
  if (!torch.failure.empty()) result["failure"] = torch.failure;
  for (const auto& form : torch.forms) {
    json& one = result["forms"][form.name];
    if (!form.failure.empty()) {
      one = {{"failure", form.failure}};
      continue;
    }
    one = {{"error_ratio", form.error_ratio}};
    const auto times = torch.form_us.find(form.name);
    if (times == torch.form_us.end()) continue;
    one["us"] = times->second;
    one["over_mc2"] = interval_json(torch.ratio(form.name));
  }
  if (const std::string peer = torch.peer(); !peer.empty()) result["peer"] = peer;
  return result;
}

json race_json(const Race& race) {
  const Contender& contender = race.contenders.front();
  return {{"serial_variant", race.serial_variant.text()},
          {"serial_us", contender.serial_us},
          {"mc2_us", contender.fused_us},
          {"compute_us", race.compute_us},
          {"communication_us", race.communication_us},
          {"overlap_efficiency", interval_json(race.overlap_efficiency(contender))}};
}

json shape_json(const PeerRace& shape) {
  json result = operator_json(shape.op);
  result["seconds"] = shape.whole_s;
  if (shape.error) {
    result["error"] = shape.error->text();
    return result;
  }
  result["is_cut"] = shape.is_cut();
  result["tuning_s"] = shape.tuning_s;
  result["plan"] = json::parse(store::encode(shape.plan));
  result["race"] = race_json(shape.race);
  result["summary"] = {{"serial_us", shape.serial_us()},
                       {"mc2_us", shape.mc2_us()},
                       {"ideal_us", ideal_us(shape.race)},
                       {"ideal_benefit", ideal_benefit(shape.race)},
                       {"serial_over_mc2", interval_json(shape.speedup())}};
  if (shape.prediction)
    result["prediction"] = {{"predicted_us", shape.prediction->tuned_us},
                            {"anchored_us", shape.prediction->anchored_us},
                            {"error", shape.prediction_error()},
                            {"tuned_error", shape.tuned_prediction_error()}};
  result["verified_error_ratio"] = shape.verified_error_ratio;
  result["torch"] = torch_json(shape.torch);
  return result;
}

json summary_json(const PeerSummary& summary) {
  return {{"shapes", summary.shape_count},
          {"promising_shapes", summary.promising_count},
          {"serial_over_mc2_geomean", summary.speedup_geomean},
          {"overlap_efficiency_geomean", summary.efficiency_geomean},
          {"serial_over_mc2_worst", summary.worst_speedup},
          {"predicted_shapes", summary.predicted_count},
          {"prediction_error_median", summary.prediction_error_median},
          {"prediction_error_worst", summary.prediction_error_worst},
          {"tuned_error_median", summary.tuned_error_median},
          {"tuned_error_worst", summary.tuned_error_worst},
          {"torch_shapes", summary.torch_count},
          {"torch_over_mc2_geomean", summary.torch_geomean},
          {"torch_over_mc2_worst", summary.torch_worst}};
}

} // namespace

std::string peer_document(const PeerRun& run) {
  json document{{"command", run.command},   {"started_at", run.started_at}, {"fingerprint", run.fingerprint.fields},
                {"software", run.software}, {"shapes", json::array()},      {"left_out", json::array()}};
  if (!run.torch_reason.empty()) document["torch_missing"] = run.torch_reason;
  for (const auto& shape : run.shapes) document["shapes"].push_back(shape_json(shape));
  for (const auto& op : run.left_out) document["left_out"].push_back(operator_json(op));
  document["summary"]["all"] = summary_json(summarize(run.shapes));
  for (const auto& traits : planner::op_registry()) {
    std::vector<PeerRace> shapes;
    for (const auto& shape : run.shapes)
      if (shape.op.kind == traits.kind) shapes.push_back(shape);
    if (!shapes.empty()) document["summary"][std::string(traits.name)] = summary_json(summarize(shapes));
  }
  // Text of other programs may not be UTF-8.
  return document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace mc2::cli
