#include "peer_page.hpp"

#include <algorithm>
#include <cmath>

#include "mc2/planner/text.hpp"
#include "overlap_chart.hpp"
#include "pages/render.hpp"

namespace mc2::cli {
namespace {

constexpr double kLeastEfficiency = 0.01; ///< smaller values count as this, because a geometric mean needs values > 0

std::string ratio_text(double ratio) { return number(ratio, "%.3fx"); }

std::string signed_percent(double ratio) { return (ratio >= 0 ? "+" : "") + percent_text(ratio); }

std::string form_text(const PeerTimes& torch, const std::string& name) {
  if (const auto found = torch.form_us.find(name); found != torch.form_us.end())
    return time_text(median(found->second));
  const bool has_failed = std::ranges::any_of(torch.forms, [&](const TorchForm& form) { return form.name == name; });
  return has_failed ? "failed" : "-";
}

std::vector<std::string> heading() {
  return {"shape",        "serial best",
          "variant",      "mc2",
          "plan",         "ideal",
          "serial/mc2",   "95 % interval",
          "efficiency",   "prediction error",
          "as tuned",     "torch fused: eager",
          "graph",        "torch unfused: eager",
          "graph",        "torch/mc2",
          "95 % interval"};
}

std::string interval_text(const profiler::Interval& interval) {
  return ratio_text(interval.low) + " to " + ratio_text(interval.high);
}

std::vector<std::string> row_of(const PeerRace& shape) {
  const auto speedup = shape.speedup();
  const std::string peer = shape.torch.peer();
  return {shape_text(shape.op),
          time_text(shape.serial_us()),
          shape.race.serial_variant.text(),
          time_text(shape.mc2_us()),
          plan_text(shape.plan),
          time_text(ideal_us(shape.race)),
          ratio_text(speedup.value),
          interval_text(speedup),
          shape.is_cut() ? percent_text(shape.race.overlap_efficiency(shape.contender()).value) : "-",
          shape.prediction ? signed_percent(shape.prediction_error()) : "no model",
          shape.prediction ? signed_percent(shape.tuned_prediction_error()) : "-",
          form_text(shape.torch, "fused_eager"),
          form_text(shape.torch, "fused_graph"),
          form_text(shape.torch, "unfused_eager"),
          form_text(shape.torch, "unfused_graph"),
          peer.empty() ? "-" : ratio_text(shape.torch.ratio(peer).value),
          peer.empty() ? "-" : interval_text(shape.torch.ratio(peer))};
}

std::string summary_text(const PeerSummary& summary) {
  std::string text = "  serial/mc2, geometric mean: ";
  text += summary.promising_count > 0
              ? ratio_text(summary.speedup_geomean) + ", overlap efficiency " + percent_text(summary.efficiency_geomean)
              : "none";
  text += " over " + std::to_string(summary.promising_count) + " of " + std::to_string(summary.shape_count) +
          " shapes with ideal benefit of " + percent_text(kPromisingBenefit) + " or more\n";
  text += "  worst serial/mc2 of all shapes: " + ratio_text(summary.worst_speedup) + "\n";
  if (summary.predicted_count > 0)
    text += "  prediction error: median " + percent_text(summary.prediction_error_median) + ", worst " +
            percent_text(summary.prediction_error_worst) + "; as tuned: median " +
            percent_text(summary.tuned_error_median) + ", worst " + percent_text(summary.tuned_error_worst) + "\n";
  if (summary.torch_count == 0) return text + "  torch/mc2: not measured\n";
  return text + "  torch/mc2, the better of eager and graph: geometric mean " + ratio_text(summary.torch_geomean) +
         ", worst " + ratio_text(summary.torch_worst) + " over " + std::to_string(summary.torch_count) + " shapes\n";
}

std::vector<PeerRace> finished(std::span<const PeerRace> shapes, const planner::OpKind* kind) {
  std::vector<PeerRace> result;
  for (const auto& shape : shapes)
    if (!shape.error && (kind == nullptr || shape.op.kind == *kind)) result.push_back(shape);
  return result;
}

std::string kind_text(const planner::OpTraits& traits, std::span<const PeerRace> shapes) {
  std::vector<std::vector<std::string>> rows{heading()};
  for (const auto& shape : shapes) rows.push_back(row_of(shape));
  return std::string(traits.name) + "\n" + render::table(rows, render::kAnyWidth) + summary_text(summarize(shapes)) +
         "\n";
}

std::string heading_text(const PeerRun& run) {
  std::string text =
      "mc2 beside its peers, medians of interleaved runs, the slowest rank counts\n  command: " + run.command +
      "\n  started: " + run.started_at + "\n  machine: " + run.fingerprint.canonical_text() + "\n";
  std::string software;
  for (const auto& [name, value] : run.software) software += (software.empty() ? "" : ", ") + name + " " + value;
  if (!software.empty()) text += "  PyTorch: " + software + "\n";
  if (!run.torch_reason.empty()) text += "  PyTorch missing: " + run.torch_reason + "\n";
  return text + "\n";
}

/// The failures, one line per reason: a form usually fails for every shape.
std::string failures_text(const PeerRun& run) {
  std::map<std::string, std::string> shapes_by_reason;
  const auto add = [&](const std::string& reason, const planner::OpSpec& op) {
    if (reason.empty()) return;
    std::string& shapes = shapes_by_reason[reason];
    shapes += (shapes.empty() ? "" : "; ") + op.text();
  };
  for (const auto& shape : run.shapes) {
    if (shape.error) add(shape.error->text(), shape.op);
    if (shape.torch.failure != run.torch_reason) add(shape.torch.failure, shape.op);
    for (const auto& form : shape.torch.forms)
      if (!form.failure.empty()) add("torch " + form.name + ": " + form.failure, shape.op);
  }
  std::string text;
  for (const auto& [reason, shapes] : shapes_by_reason) text += "  " + shapes + ": " + reason + "\n";
  return text.empty() ? "" : "failed\n" + text + "\n";
}

} // namespace

PeerSummary summarize(std::span<const PeerRace> shapes) {
  PeerSummary summary;
  std::vector<double> speedups, efficiencies, all_speedups, errors, tuned_errors, ratios;
  for (const auto& shape : shapes) {
    if (shape.error) continue;
    all_speedups.push_back(shape.speedup().value);
    if (shape.prediction) {
      errors.push_back(std::abs(shape.prediction_error()));
      tuned_errors.push_back(std::abs(shape.tuned_prediction_error()));
    }
    if (const std::string peer = shape.torch.peer(); !peer.empty()) ratios.push_back(shape.torch.ratio(peer).value);
    if (ideal_benefit(shape.race) < kPromisingBenefit) continue;
    speedups.push_back(all_speedups.back());
    const double efficiency = shape.is_cut() ? shape.race.overlap_efficiency(shape.contender()).value : 0;
    efficiencies.push_back(std::max(kLeastEfficiency, efficiency));
  }
  summary.shape_count = static_cast<int>(all_speedups.size());
  summary.promising_count = static_cast<int>(speedups.size());
  summary.torch_count = static_cast<int>(ratios.size());
  summary.speedup_geomean = geomean(speedups);
  summary.efficiency_geomean = geomean(efficiencies);
  summary.torch_geomean = geomean(ratios);
  if (!ratios.empty()) summary.torch_worst = std::ranges::min(ratios);
  if (all_speedups.empty()) return summary;
  summary.worst_speedup = std::ranges::min(all_speedups);
  summary.predicted_count = static_cast<int>(errors.size());
  if (errors.empty()) return summary;
  summary.prediction_error_median = median(errors);
  summary.prediction_error_worst = std::ranges::max(errors);
  summary.tuned_error_median = median(tuned_errors);
  summary.tuned_error_worst = std::ranges::max(tuned_errors);
  return summary;
}

std::string peer_page(const PeerRun& run) {
  std::string text = heading_text(run);
  for (const auto& traits : planner::op_registry()) {
    const auto shapes = finished(run.shapes, &traits.kind);
    if (!shapes.empty()) text += kind_text(traits, shapes);
  }
  const auto all = finished(run.shapes, nullptr);
  if (!all.empty()) text += "all operators\n" + summary_text(summarize(all)) + "\n";
  text += failures_text(run);
  for (std::size_t i = 0; i < run.left_out.size(); ++i)
    text += (i == 0 ? "left out\n  " : "  ") + run.left_out[i].text() + "\n";
  return text;
}

} // namespace mc2::cli
