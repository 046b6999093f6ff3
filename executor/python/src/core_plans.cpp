#include <pybind11/stl.h>

#include <algorithm>

#include "core.hpp"
#include "mc2/finder/device_costs.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/planner/analytic_model.hpp"
#include "mc2/planner/explanation.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/render/plan_page.hpp"
#include "mc2/render/timeline_chart.hpp"
#include "mc2/store/topologies.hpp"
#include "open_store.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using planner::Plan;
using planner::PlanOptions;
using planner::Schedule;
using planner::Timeline;
using Spans = std::vector<std::pair<double, double>>;

Spans to_pairs(const std::vector<planner::Span>& spans) {
  Spans result;
  for (const auto& span : spans) result.emplace_back(span.start_us, span.end_us);
  return result;
}

std::vector<planner::Span> to_spans(const Spans& pairs) {
  std::vector<planner::Span> result;
  for (const auto& [start_us, end_us] : pairs) result.push_back({start_us, end_us});
  return result;
}

Timeline make_timeline(const Spans& first, const Spans& second) {
  Timeline timeline{to_spans(first), to_spans(second), 0, 0};
  for (const auto* lane : {&timeline.first, &timeline.second})
    for (const auto& span : *lane) timeline.makespan_us = std::max(timeline.makespan_us, span.end_us);
  unwrap(planner::validate_timeline(timeline, first.size()));
  for (const auto& a : timeline.first)
    for (const auto& b : timeline.second)
      timeline.overlap_us += std::max(0.0, std::min(a.end_us, b.end_us) - std::max(a.start_us, b.start_us));
  return timeline;
}

/// A whole SVG document. All text in it is escaped, so that it can be put into a page.
std::string svg_of(const Plan& plan, const Timeline* measured) {
  if (!plan.has_timeline() && measured == nullptr)
    throw Failure({ErrorCode::InvalidSpec, "measured", "is None, and the plan has no predicted times to draw"});
  planner::Explanation explanation;
  explanation.plan = plan;
  if (plan.has_timeline()) explanation = unwrap(planner::explain(plan, nullptr, PlanOptions{}));
  if (measured) {
    const std::size_t block_count = plan.span_count();
    if (measured->first.size() != block_count || measured->second.size() != block_count)
      throw Failure({ErrorCode::InvalidSpec, "measured",
                     "has " + std::to_string(measured->first.size()) + " and " +
                         std::to_string(measured->second.size()) + " blocks; the plan has " +
                         std::to_string(block_count) + " on each lane"});
    explanation.measured = planner::MeasuredRun{*measured, planner::timeline_use(*measured)};
  }
  return render::plan_drawing(explanation, {});
}

std::string page_of(const Plan& plan, int width) {
  unwrap(plan.validate()); // an inconsistent plan cannot be drawn
  return render::plan_page(plan, checked_page_width(width), false);
}

std::string html_of(const Plan& plan) {
  if (!plan.has_timeline()) // as a plan that only raced, or an uncut plan without a model
    return render::Markup().element("pre", {}, page_of(plan, kPageWidth)).str();
  const std::string svg = svg_of(plan, nullptr);
  return svg.substr(svg.find("<svg"));
}

std::string timeline_table(const Timeline& timeline) {
  std::vector<std::vector<std::string>> rows{{"block", "first lane, us", "second lane, us"}};
  const auto text = [](const planner::Span& span) { return us_text(span.start_us) + " to " + us_text(span.end_us); };
  for (std::size_t i = 0; i < timeline.first.size(); ++i)
    rows.push_back({std::to_string(i), text(timeline.first[i]), text(timeline.second[i])});
  return html_table(rows);
}

void bind_timeline(py::module_& module) {
  py::class_<Timeline>(module, "Timeline",
                       "When each block runs on the first and on the second lane: (start, end) in us.")
      .def(py::init(&make_timeline), "first"_a, "second"_a)
      .def_property_readonly(
          "first", [](const Timeline& t) { return to_pairs(t.first); },
          "(start, end) in us of each block on the lane that blocks pass first, in order.")
      .def_property_readonly(
          "second", [](const Timeline& t) { return to_pairs(t.second); },
          "(start, end) in us of each block on the other lane.")
      .def_readonly("makespan_us", &Timeline::makespan_us,
                    "End of the last block, in us. In predictions also what a run takes besides its blocks.")
      .def_readonly("overlap_us", &Timeline::overlap_us, "How long both lanes are busy at once, in us.")
      .def("_repr_html_", &timeline_table)
      .def(py::self == py::self);
  py::class_<planner::Estimate> estimate(module, "Estimate", "A time with its 90 % interval and where it came from.");
  estimate.def_readonly("us", &planner::Estimate::us, "The time, in us.")
      .def_readonly("low_us", &planner::Estimate::low_us, "Lower end of the 90 % interval, in us.")
      .def_readonly("high_us", &planner::Estimate::high_us, "Upper end of the 90 % interval, in us.")
      .def_property_readonly(
          "provenance", [](const planner::Estimate& e) { return to_string(e.provenance); },
          "Where the time came from: \"measured\", \"interpolated\", \"extrapolated\" or \"analytic\", from the\n"
          "strongest to the weakest.")
      .def_readonly("reason", &planner::Estimate::reason, "Why it has this provenance.");
  add_repr(estimate, "Estimate", [](const planner::Estimate& e) {
    return us_text(e.us) + " us, " + us_text(e.low_us) + " to " + us_text(e.high_us) + ", " +
           std::string(to_string(e.provenance));
  });
}

void bind_runner_up(py::module_& module) {
  py::class_<planner::RunnerUp> type(module, "RunnerUp", "A cut that was not chosen, and why.");
  type.def_property_readonly(
          "blocks", [](const planner::RunnerUp& r) { return r.cut.block_rows; },
          "Lengths of the blocks in rows or columns of the cut axis, in the order in which they run.")
      .def_readonly("variant", &planner::RunnerUp::variant, "The variant that would run the blocks.")
      .def_readonly("makespan_us", &planner::RunnerUp::makespan_us, "Predicted time of a run, in us.")
      .def_readonly("reason", &planner::RunnerUp::reason, "Why the cut was not chosen, with numbers.");
  add_repr(type, "RunnerUp", [](const planner::RunnerUp& r) {
    return r.cut.text() + " " + r.variant.text() + ", " + us_text(r.makespan_us) + " us";
  });
}

void bind_validation(py::module_& module) {
  py::class_<planner::Validation>(
      module, "Validation",
      "What a race on the machine measured. fused_us and serial_us are medians. benefit is 1 - the median of\n"
      "the paired fused/serial ratios, with its 95 % interval.")
      .def(py::init([](double fused_us, double serial_us, std::tuple<double, double, double> benefit, int pair_count) {
             const auto& [value, low, high] = benefit;
             const planner::Validation measured{fused_us, serial_us, value, low, high, pair_count};
             unwrap(measured.validate());
             return measured;
           }),
           "fused_us"_a, "serial_us"_a, "benefit"_a, "pair_count"_a)
      .def_readonly("fused_us", &planner::Validation::fused_us, "Median time of the plan, in us.")
      .def_readonly("serial_us", &planner::Validation::serial_us,
                    "Median time of the uncut operator, one part after the other, in us.")
      .def_readonly("benefit", &planner::Validation::benefit,
                    "The part of the serial time that the plan saved: 0.2 means 20 % less time.")
      .def_readonly("benefit_low", &planner::Validation::benefit_low, "Lower end of the benefit's 95 % interval.")
      .def_readonly("benefit_high", &planner::Validation::benefit_high, "Upper end of the benefit's 95 % interval.")
      .def_readonly("pair_count", &planner::Validation::pair_count,
                    "How many pairs of a fused and a serial run were timed.")
      .def_property_readonly(
          "fused_interval_us",
          [](const planner::Validation& v) {
            return v.spread ? std::optional(std::pair(v.spread->fused_low_us, v.spread->fused_high_us)) : std::nullopt;
          },
          "95 % interval of fused_us: (low, high) in us, or None if it is not known.")
      .def_property_readonly(
          "serial_interval_us",
          [](const planner::Validation& v) {
            return v.spread ? std::optional(std::pair(v.spread->serial_low_us, v.spread->serial_high_us))
                            : std::nullopt;
          },
          "95 % interval of serial_us: (low, high) in us, or None if it is not known.")
      .def_property_readonly(
          "speed_range",
          [](const planner::Validation& v) { return v.spread ? std::optional(v.spread->speed_range) : std::nullopt; },
          "How unsteady the machine was: the 0.9 quantile of the serial runs' times over their 0.1 quantile.\n"
          "None if it is not known.")
      .def_readonly("measured_at", &planner::Validation::measured_at,
                    "When the plan was measured, ISO 8601 in UTC. Empty if it is not known.");
}

/// The plan with another reason. Throws Failure for a text that a document cannot hold.
Plan because(Plan plan, std::string reason) {
  if (has_control(reason))
    throw Failure({ErrorCode::InvalidSpec, "reason",
                   "has control characters where spaces stand in " + in_quotes(reason) + "; leave them out"});
  plan.reason = std::move(reason);
  return plan;
}

Plan validated(Plan plan, const planner::Validation& validation, std::string reason, std::string strategy) {
  PlanOptions options;
  options.strategy = std::move(strategy);
  unwrap(options.validate());
  plan.strategy = options.strategy;
  plan.validation = validation;
  return because(std::move(plan), std::move(reason));
}

void add_decision(py::class_<Plan>& type) {
  type.def_readonly("op", &Plan::op, "The operator.")
      .def_readonly("fingerprint", &Plan::fingerprint, "The machine that the plan is for.")
      .def_readonly(
          "strategy", &Plan::strategy,
          "How the cut was found. \"search\", \"free\", \"formula\" and \"wave_groups\": strategies of the planner.\n"
          "\"given\": the caller named the blocks. \"raced\": the fastest of a few cuts that were run without a\n"
          "model. \"refined\": the fastest of the cuts that were run elsewhere.")
      .def_readonly("variant", &Plan::variant, "The variant that runs the blocks.")
      .def_property_readonly(
          "blocks", [](const Plan& p) { return p.cut.block_rows; },
          "Lengths of the blocks in rows or columns of the cut axis, in the order in which they run.")
      .def_property_readonly(
          "cut", [](const Plan& p) { return p.cut.text(); },
          "The blocks as text, e.g. \"uncut\", \"8 x 128\" or \"512 + 4 x 896\".")
      .def_property_readonly("is_cut", &Plan::is_cut, "Whether there is more than one block.")
      .def_property_readonly(
          "schedule", [](const Plan& p) { return to_string(p.schedule); },
          "How the blocks pass the two lanes. \"serial\": uncut, one lane after the other. \"pipelined\": a block\n"
          "is on the second lane while the next blocks, or its own next slices, are on the first.\n"
          "\"local_first\": pipelined, and a rank's own rows are multiplied first.")
      .def_property_readonly(
          "is_local_first", [](const Plan& p) { return p.schedule == Schedule::LocalFirst; },
          "Whether schedule is \"local_first\".")
      .def_property_readonly(
          "is_serial", [](const Plan& p) { return p.schedule == Schedule::Serial; }, "Whether schedule is \"serial\".")
      .def_readonly(
          "counts", &Plan::counts,
          "The rows from each rank to each rank that the plan was made for, in one list: from 0 to 0, from 0\n"
          "to 1 and so on. Empty: equally many.")
      .def_readonly(
          "makespan", &Plan::makespan,
          "The predicted time of a run. Its us is 0 if nothing was predicted, and so are serial_us, compute_us,\n"
          "communication_us and ideal_us.")
      .def_property_readonly(
          "makespan_us", [](const Plan& p) { return p.makespan.us; },
          "The predicted time of a run, in us: makespan.us.")
      .def_readonly("serial_us", &Plan::serial_us,
                    "Predicted time of the uncut matmul and the uncut collective one after the other, in us.")
      .def_readonly("compute_us", &Plan::compute_us,
                    "Predicted time of the uncut matmul, a rank's own rows included, in us.")
      .def_readonly("communication_us", &Plan::communication_us, "Predicted time of the uncut collective, in us.")
      .def_readonly("ideal_us", &Plan::ideal_us,
                    "The larger of compute_us and communication_us, in us. Only a variant that makes this part faster\n"
                    "can take less time.")
      .def_property_readonly(
          "bound", [](const Plan& p) { return to_string(p.bound); },
          "The lane that limits the operator: \"compute\" or \"communication\". \"compute\" also if nothing was\n"
          "predicted.")
      .def_property_readonly(
          "benefit", &Plan::benefit,
          "The part of serial_us that the plan is predicted to save: 0.2 means 20 % less time. 0 if nothing\n"
          "was predicted.")
      .def_property_readonly(
          "benefit_interval", [](const Plan& p) { return pair_of(p.benefit_interval); },
          "90 % interval of benefit: (low, high), or None if it was not predicted.")
      .def_readonly("block_overhead_us", &Plan::block_overhead_us,
                    "Time of every block on each lane that the question assumed, in us. None: it assumed none.")
      .def_property_readonly(
          "overlap_efficiency", &Plan::overlap_efficiency,
          "What the plan is predicted to save, as a part of what perfect overlap would save:\n"
          "(serial_us - makespan_us) / (serial_us - ideal_us). 0 if nothing can be gained or nothing\n"
          "was predicted.")
      .def_readonly("timeline", &Plan::timeline,
                    "When each block is predicted to run. Without blocks if nothing was predicted. With schedule\n"
                    "\"local_first\", entry 0 is the matmul of a rank's own rows.")
      .def_readonly("runners_up", &Plan::runners_up, "Cuts that were not chosen, the best first.")
      .def_readonly("validation", &Plan::validation,
                    "What was measured when the plan was run on the machine; None if it was not.")
      .def_readonly("reason", &Plan::reason, "Why this cut was chosen, in one or two sentences.");
}

/// Adds the methods that return a changed copy of a plan.
void add_changes(py::class_<Plan>& type) {
  type.def(
          "with_variant", [](Plan p, planner::Variant variant) { return p.variant = std::move(variant), p; },
          "variant"_a, "Returns a copy with another variant. The times stay as they are, and nothing is checked.")
      .def(
          "with_fingerprint",
          [](Plan p, planner::Fingerprint machine) { return p.fingerprint = std::move(machine), p; }, "fingerprint"_a,
          "Returns a copy for another machine. The times stay as they are, and nothing is checked.")
      .def("because", &because, "reason"_a,
           "Returns a copy with another reason. Raises mc2.Error (invalid_spec) for a text with control\n"
           "characters.")
      .def("with_validation", &validated, "validation"_a, "reason"_a, "strategy"_a = "search",
           "A copy of the plan with the result of a race, the reason for the choice, and the strategy that\n"
           "proposed the cut.");
}

void add_forms(py::class_<Plan>& type) {
  type.def_property_readonly(
          "digest", [](const Plan& p) { return store::digest(store::encode(p)); },
          "SHA-256 of to_json(), as 64 hexadecimal digits.")
      .def("page", &page_of, "width"_a = kPageWidth,
           "The plan as text, as `mc2 plan` prints it. width: from 40 to 400 columns.")
      .def("svg", &svg_of, "measured"_a = py::none(),
           "The predicted timeline as an SVG document. measured: the timeline of a run, drawn beside it, e.g.\n"
           "that of mc2.timeline_of(). Raises mc2.Error (invalid_spec) if there is neither a predicted nor a\n"
           "measured timeline, or if the measured one has another number of blocks.")
      .def("_repr_html_", &html_of)
      .def("__repr__", [](const Plan& p) { return "<mc2.Plan " + p.op.text() + ": " + p.cut.text() + ">"; });
}

void bind_plan(py::module_& module) {
  py::class_<Plan> type(module, "Plan",
                        "How one operator is cut on one machine, why, and the predicted and measured times.");
  add_decision(type);
  add_changes(type);
  add_forms(type);
  add_document(type, &store::decode_plan);
}

Plan plan(const planner::OpSpec& op, const planner::CostModel& model, const py::kwargs& words) {
  const PlanOptions options = to_options(words, planner::default_options_on(model.fingerprint));
  const py::gil_scoped_release released;
  return unwrap(finder::plan_given(model, {.op = op, .machine = {}, .options = options, .may_transfer = false}));
}

Plan predict(const planner::OpSpec& op, const planner::CostModel& model, std::vector<std::int64_t> blocks,
             std::optional<planner::Variant> variant) {
  return unwrap(finder::predict_given(model,
                                      {.op = op, .machine = {}, .variant = std::move(variant), .may_transfer = false},
                                      planner::Cut{std::move(blocks)}));
}

} // namespace

int checked_page_width(int width) {
  if (width < 40 || width > 400)
    throw Failure({ErrorCode::InvalidSpec, "width", std::to_string(width) + " is not a width from 40 to 400"});
  return width;
}

/// Reads one factor for both lanes, or a pair for compute and communication.
std::optional<planner::LaneContention> to_contention(const py::handle& value) {
  if (value.is_none()) return std::nullopt;
  if (!py::isinstance<py::sequence>(value)) return planner::LaneContention{value.cast<double>(), value.cast<double>()};
  const auto [compute, communication] = value.cast<std::pair<double, double>>();
  return planner::LaneContention{compute, communication};
}

PlanOptions to_options(const py::kwargs& words, PlanOptions options) {
  const std::map<std::string, std::function<void(const py::handle&)>> setters{
      {"strategy", [&](const py::handle& v) { options.strategy = v.cast<std::string>(); }},
      {"alignment", [&](const py::handle& v) { options.alignment = v.cast<std::int64_t>(); }},
      {"min_block_rows", [&](const py::handle& v) { options.min_block_rows = v.cast<std::int64_t>(); }},
      {"max_block_count", [&](const py::handle& v) { options.max_block_count = v.cast<std::int64_t>(); }},
      {"runner_up_count", [&](const py::handle& v) { options.runner_up_count = v.cast<int>(); }},
      {"objective_quantile", [&](const py::handle& v) { options.objective_quantile = v.cast<double>(); }},
      {"require_significant_gain", [&](const py::handle& v) { options.require_significant_gain = v.cast<bool>(); }},
      {"contention", [&](const py::handle& v) { options.contention = to_contention(v); }},
      {"counts", [&](const py::handle& v) { options.counts = v.cast<planner::RowCounts>(); }},
      {"block_overhead_us", [&](const py::handle& v) { options.block_overhead_us = v.cast<std::optional<double>>(); }},
      {"formula_contention", [&](const py::handle& v) { options.formula_contention = v.cast<double>(); }},
      {"formula_short_block", [&](const py::handle& v) {
         options.formula_short_block = unwrap(planner::parse_short_block_rule(v.cast<std::string>()));
       }}};
  for (const auto& [key, value] : words) {
    const auto name = key.cast<std::string>();
    const auto found = setters.find(name);
    if (found == setters.end())
      throw Failure({ErrorCode::UnknownName, name,
                     "is no option; there are: " + list_text(setters, [](const auto& each) { return each.first; })});
    try {
      found->second(value);
    } catch (const py::cast_error&) {
      throw Failure({ErrorCode::InvalidSpec, name, py::repr(value).cast<std::string>() + " is of the wrong type"});
    }
  }
  if (words.contains("alignment") && !words.contains("min_block_rows")) options.min_block_rows = options.alignment;
  unwrap(options.validate());
  return options;
}

void bind_published_models(py::module_& module) {
  module.def(
      "device_model",
      [](const std::string& device, const planner::OpSpec& op, OpenStore* store) {
        const auto model_of = [&](std::optional<finder::Kept> kept) -> Result<planner::CostModel> {
          MC2_ASSIGN(auto costs, finder::device_costs(device, op, PlanOptions(), kept));
          return std::move(costs.model);
        };
        if (store == nullptr) return unwrap(model_of({}));
        return store->use([&](const store::Store& opened) { return model_of(finder::kept_in_unnamed(opened)); });
      },
      "device"_a, "op"_a, "store"_a = py::none(), NoGil(),
      "The cost model of an operator on a device that this machine need not have. It starts from the device's\n"
      "published figures. Samples that were imported into the store under the device's name override them. If\n"
      "cuts of the operator were measured on the device, they recalibrate the model.");
  module.def(
      "topology_model",
      [](const std::string& topology, const planner::OpSpec& op) {
        return unwrap(planner::analytic_model(unwrap(store::topology_of(topology)), op));
      },
      "topology"_a, "op"_a,
      "The cost model of an operator on a cluster. topology: the description of the cluster as JSON\n"
      "(schemas/topology.schema.json), or the name of a published one.");
}

void bind_plans(py::module_& module) {
  bind_timeline(module);
  bind_runner_up(module);
  bind_validation(module);
  bind_plan(module);
  module.def("plan", &plan, "op"_a, "model"_a,
             "Decides how to cut `op` on the machine that `model` describes. Keywords: the options of the planner;\n"
             "those that are not given are default_options(model.fingerprint).");
  module.def(
      "unpredicted",
      [](const planner::OpSpec& op, const planner::Fingerprint& fingerprint, std::vector<std::int64_t> blocks,
         const planner::Variant& variant) {
        return unwrap(planner::unpredicted_plan(op, fingerprint, variant, {std::move(blocks)}));
      },
      "op"_a, "fingerprint"_a, "blocks"_a, "variant"_a,
      "A plan with blocks that the caller chose, where no model predicts them: its times are 0.");
  module.def("predict", &predict, "op"_a, "model"_a, "blocks"_a, "variant"_a = py::none(), NoGil(),
             "The plan with blocks that the caller chose, and with the times that the model predicts. variant None:\n"
             "the one that is predicted fastest.");
}

} // namespace mc2::python
