#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/recalibrate.hpp"
#include "mc2/profiler/refine.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/profiler/sweep.hpp"

namespace mc2::python {

std::vector<planner::Sample> samples_of(const Measure& measure, const std::string& field, const std::string& name) {
  const py::gil_scoped_acquire acquired;
  auto samples = returned_by<std::vector<planner::Sample>>(field + ": " + name, "a list of mc2.Sample", measure());
  if (samples.empty()) throw Failure({ErrorCode::InvalidSpec, field, name + " returned no sample"});
  return samples;
}

int checked_count(const char* name, int count) {
  if (count < 1) throw Failure({ErrorCode::InvalidSpec, name, "is " + std::to_string(count) + "; needs 1 or more"});
  return count;
}

namespace {

using namespace py::literals;
using planner::Sample;

/// A case of a sweep that is measured by a Python function. Ctrl-C takes effect between measurements.
profiler::SweepCase to_case(const std::pair<std::string, Measure>& named) {
  const auto& [name, measure] = named;
  if (!measure) throw py::type_error("cases: '" + name + "' is None; needs a callable");
  return {name,
          [measure = measure, name = name] {
            if (PyErr_CheckSignals() != 0) throw py::error_already_set();
            return samples_of(measure, "cases", "'" + name + "'");
          },
          [](const Sample&) { return false; }};
}

std::vector<Sample> sweep(const std::vector<std::pair<std::string, Measure>>& cases, double budget_s, int max_count,
                          std::uint64_t seed) {
  profiler::SweepOptions options;
  options.budget = unwrap(profiler::budget_of(budget_s));
  options.seed = seed;
  options.stopping.limit(checked_count("max_count", max_count));
  profiler::SweepHooks hooks;
  hooks.now = [] { return std::chrono::steady_clock::now(); };
  std::vector<profiler::SweepCase> made;
  for (const auto& named : cases) made.push_back(to_case(named));
  return unwrap(profiler::run_sweep(made, options, hooks, {})).samples;
}

profiler::FitSummary fit(const planner::Profile& profile, double quantile, double robust_scale) {
  profiler::FitOptions options;
  options.quantile = quantile;
  options.robust_scale = robust_scale;
  return unwrap(profiler::fit_cost_model(profile, options));
}

/// Returns the times. Errors: as planner::validate_cut_times.
planner::CutTimes checked_times(const planner::CutTimes& times) {
  unwrap(planner::validate_cut_times(times));
  return times;
}

void bind_fit(py::module_& module) {
  py::class_<profiler::FitSummary>(module, "FitSummary", "A fitted cost model, with notes on the fit.")
      .def_readonly("model", &profiler::FitSummary::model, "The cost model.")
      .def_readonly("notes", &profiler::FitSummary::notes,
                    "Notes for people: outliers that were left out, sizes with few samples, factors and how they were\n"
                    "found.")
      .def("_repr_html_",
           [](const profiler::FitSummary& fitted) { return py::cast(fitted.model).attr("_repr_html_")(); });
  module.def("fit", &fit, "profile"_a, py::kw_only(), "quantile"_a = 0.25, "robust_scale"_a = 0.05, NoGil(),
             "Fits a cost model to the samples of a profile: both lanes' curves and slow-downs of every variant.");
  py::class_<RaceObservation>(
      module, "RaceObservation",
      "Measured times of one cut, and of the uncut parts that ran moments before and after it.\n"
      "compute_blocks_us and communication_blocks_us are sums over a lane's blocks (0: not timed).")
      .def(py::init([](planner::Variant variant, std::vector<std::int64_t> blocks, double fused_us, double compute_us,
                       double communication_us, double compute_blocks_us, double communication_blocks_us) {
             return RaceObservation{{checked_times({fused_us, 0, compute_us, communication_us, compute_blocks_us,
                                                    communication_blocks_us}),
                                     std::move(variant),
                                     {std::move(blocks)}}};
           }),
           "variant"_a, "blocks"_a, "fused_us"_a, "compute_us"_a, "communication_us"_a, py::kw_only(),
           "compute_blocks_us"_a = 0.0, "communication_blocks_us"_a = 0.0);
  py::class_<profiler::Recalibration>(
      module, "Recalibration", "A cost model that was adjusted to measured cuts, with its errors before and after.")
      .def_readonly("model", &profiler::Recalibration::model, "The adjusted model.")
      .def_readonly("error_before", &profiler::Recalibration::error_before,
                    "Root mean square of the relative errors of the predicted times, before the adjustment.")
      .def_readonly("error_after", &profiler::Recalibration::error_after,
                    "Root mean square of the relative errors of the predicted times, after the adjustment.")
      .def_readonly("text", &profiler::Recalibration::text, "What was adjusted, in one sentence.");
  module.def(
      "recalibrate",
      [](const planner::CostModel& model, const std::vector<RaceObservation>& observations) {
        const std::vector<planner::MeasuredCut> cuts(observations.begin(), observations.end());
        return unwrap(profiler::recalibrate(model, cuts));
      },
      "model"_a, "observations"_a, NoGil(),
      "Adjusts the model's slow-downs and fixed costs to the measured times of cuts.");
}

/// A value with its interval: value, low, high.
using Sure = std::tuple<double, double, double>;

void bind_measured_cut(py::module_& module) {
  using planner::MeasuredCut;
  py::class_<MeasuredCut>(
      module, "MeasuredCut",
      "A cut that the caller's own executor ran. Times are in us; all but fused_us are 0 where they were not\n"
      "measured.\n"
      "fused_us           median time of the cut\n"
      "serial_us          time of the uncut operator, one part after the other\n"
      "compute_us         time of its matmul alone\n"
      "communication_us   time of its collective alone\n"
      "relative_error     relative standard error of fused_us; 0 where unknown, which counts as 0.01\n"
      "compute_blocks_us and communication_blocks_us are sums over a lane's blocks, as they ran in the cut.")
      .def(py::init([](planner::Variant variant, std::vector<std::int64_t> blocks, double fused_us, double serial_us,
                       double compute_us, double communication_us, double relative_error, double compute_blocks_us,
                       double communication_blocks_us) {
             return MeasuredCut{checked_times({fused_us, serial_us, compute_us, communication_us, compute_blocks_us,
                                               communication_blocks_us, 1, relative_error}),
                                std::move(variant),
                                {std::move(blocks)}};
           }),
           "variant"_a, "blocks"_a, "fused_us"_a, py::kw_only(), "serial_us"_a = 0.0, "compute_us"_a = 0.0,
           "communication_us"_a = 0.0, "relative_error"_a = 0.0, "compute_blocks_us"_a = 0.0,
           "communication_blocks_us"_a = 0.0);
}

void bind_account(py::module_& module) {
  using profiler::MeasuredAccount;
  py::class_<MeasuredAccount>(
      module, "MeasuredAccount",
      "The parts of a measured cut's time as seen from one lane, in us. uncut_us, small_block_us,\n"
      "overhead_us, contention_us, waiting_us and unexplained_us sum to the measured time.")
      .def_property_readonly(
          "lane", [](const MeasuredAccount& account) { return to_string(account.lane); },
          "The lane: \"compute\" or \"communication\".")
      .def_readonly("uncut_us", &MeasuredAccount::uncut_us, "Time of the lane's uncut part, in us.")
      .def_readonly("small_block_us", &MeasuredAccount::small_block_us,
                    "Additional time of the blocks over the uncut part, by the lane's curve, in us.")
      .def_readonly("overhead_us", &MeasuredAccount::overhead_us, "Fixed costs of the blocks, in us.")
      .def_readonly("contention_us", &MeasuredAccount::contention_us,
                    "Additional time because the other lane is busy, in us.")
      .def_readonly("waiting_us", &MeasuredAccount::waiting_us,
                    "Time in which the lane waits for the other one, in us.")
      .def_readonly("unexplained_us", &MeasuredAccount::unexplained_us,
                    "The measured time minus all other parts, in us.")
      .def_readonly("blocks_us", &MeasuredAccount::blocks_us,
                    "Time of all blocks of the lane together, in us: as timed, or else by the model.")
      .def_readonly("is_timed", &MeasuredAccount::is_timed, "Whether blocks_us was timed.")
      .def_property_readonly("expansion", &MeasuredAccount::expansion, "blocks_us as a multiple of uncut_us.");
}

void bind_beliefs(py::module_& module) {
  using profiler::CutBelief;
  using profiler::LearnedFactor;
  py::class_<CutBelief>(
      module, "CutBelief",
      "us is the estimated time of a cut, with a 90 % interval from low_us to high_us. profiled_us is the\n"
      "model's prediction before any cut was measured; measured_us is 0 for a cut that was not measured.\n"
      "is_believed is False if other measurements contradict measured_us, which is then ignored.")
      .def_readonly("variant", &CutBelief::variant, "The variant that runs the blocks.")
      .def_property_readonly(
          "blocks", [](const CutBelief& cut) { return cut.cut.block_rows; },
          "Lengths of the blocks in rows or columns of the cut axis, in the order in which they run.")
      .def_readonly("us", &CutBelief::us, "The estimated time of a run, in us.")
      .def_readonly("low_us", &CutBelief::low_us, "Lower end of the 90 % interval, in us.")
      .def_readonly("high_us", &CutBelief::high_us, "Upper end of the 90 % interval, in us.")
      .def_readonly("profiled_us", &CutBelief::profiled_us,
                    "The model's prediction before any cut was measured, in us.")
      .def_readonly("measured_us", &CutBelief::measured_us, "The measured time, in us; 0 if the cut was not measured.")
      .def_readonly("is_believed", &CutBelief::is_believed,
                    "Whether the measurement counts. False if other measurements contradict it.")
      .def_readonly("expected_gain", &CutBelief::expected_gain,
                    "By how much this cut is expected to be faster than the best one so far if it is run next,\n"
                    "relative.");
  py::class_<LearnedFactor>(
      module, "LearnedFactor",
      "A factor that neither lane shows when it runs alone, before and after a refinement: (value, low, high)\n"
      "with a 90 % interval.")
      .def_property_readonly(
          "name", [](const LearnedFactor& factor) { return std::string(to_string(factor.what)); },
          "\"compute_slowdown\", \"communication_slowdown\" or \"block_overhead_us\".")
      .def_property_readonly(
          "before",
          [](const LearnedFactor& f) {
            return Sure{f.before, f.before_low, f.before_high};
          },
          "(value, low, high) before the refinement.")
      .def_property_readonly(
          "after",
          [](const LearnedFactor& f) {
            return Sure{f.after, f.after_low, f.after_high};
          },
          "(value, low, high) after the refinement.")
      .def_readonly("is_determined", &LearnedFactor::is_determined,
                    "Whether the measured cuts make the interval clearly narrower than it was assumed to be.");
}

void bind_refine(py::module_& module) {
  using profiler::Refinement;
  bind_measured_cut(module);
  bind_account(module);
  bind_beliefs(module);
  py::class_<Refinement>(module, "Refinement", "What mc2.refine() has learned from measured cuts.")
      .def_readonly("model", &Refinement::model, "The adjusted cost model.")
      .def_readonly("plan", &Refinement::plan, "The plan to use now: the best measured cut, or an uncut plan.")
      .def_readonly("text", &Refinement::text,
                    "What was adjusted, in one sentence. Empty if no measured cut is believed.")
      .def_readonly("factors", &Refinement::factors, "The factors that neither lane shows when it runs alone.")
      .def_readonly(
          "serial_us", &Refinement::serial_us,
          "Time of the uncut operator, one part after the other, in us: that of the fastest variant, measured\n"
          "if possible, else predicted.")
      .def_readonly("measured", &Refinement::measured,
                    "What is believed of each measured cut: by variant, then in the order given.")
      .def_readonly("accounts", &Refinement::accounts,
                    "The parts of the time of the plan's cut, the compute lane first. Empty for an uncut plan.")
      .def_readonly("next", &Refinement::next,
                    "The cuts to run next, the one with the largest expected gain first. Empty if no further cut is\n"
                    "worth running.")
      .def_readonly("noise", &Refinement::noise,
                    "Relative standard error of the time of the plan's cut; 0 for an uncut plan.")
      .def_readonly("expected_gain", &Refinement::expected_gain,
                    "The largest expected gain of a further cut, relative.");
  module.def(
      "refine",
      [](const planner::OpSpec& op, const planner::CostModel& model, const std::vector<planner::MeasuredCut>& measured,
         int next_count, const py::kwargs& options) {
        profiler::RefineSettings settings{to_options(options, planner::default_options_on(model.fingerprint)),
                                          next_count};
        const py::gil_scoped_release release;
        return unwrap(profiler::refine(op, model, measured, settings));
      },
      "op"_a, "model"_a, "measured"_a, py::kw_only(), "next_count"_a = 3,
      "Learns from cuts that the caller ran elsewhere, and suggests at most next_count cuts to run next.\n"
      "Other keywords are the options of the planner.");
}

std::tuple<double, double, double> paired_ratio(const std::vector<double>& numerators,
                                                const std::vector<double>& denominators, double confidence) {
  if (numerators.empty() || numerators.size() != denominators.size())
    throw Failure({ErrorCode::InvalidSpec, "denominators", "must be as many as numerators, at least one"});
  if (!(confidence > 0 && confidence < 1))
    throw Failure({ErrorCode::InvalidSpec, "confidence", "must lie between 0 and 1"});
  const auto is_time = [](double value) { return std::isfinite(value) && value >= 0; };
  if (!std::ranges::all_of(numerators, is_time))
    throw Failure({ErrorCode::InvalidSpec, "numerators", "must be finite and not negative"});
  if (!std::ranges::all_of(denominators, is_time) || std::ranges::count(denominators, 0.0) > 0)
    throw Failure({ErrorCode::InvalidSpec, "denominators", "must be finite and above 0"});
  const auto interval = profiler::paired_ratio(numerators, denominators, confidence);
  return {interval.value, interval.low, interval.high};
}

} // namespace

void bind_measuring(py::module_& module) {
  bind_fit(module);
  bind_refine(module);
  module.def("sweep", &sweep, "cases"_a, py::kw_only(), "budget_s"_a = 120.0, "max_count"_a = 40, "seed"_a = 1,
             "Calls named callables in interleaved rounds until the times of each have settled. A call returns\n"
             "samples.");
  module.def("sweep_block_rows", &profiler::sweep_block_rows, "rows"_a, "alignment"_a,
             "Block lengths that are worth timing for a cut axis of `rows` rows or columns, ascending. The\n"
             "longest is the whole axis. The shortest is about the alignment, or less on short axes, so that\n"
             "there are enough lengths to fit a curve to. Empty if rows is below 1.");
  module.def("paired_ratio", &paired_ratio, "numerators"_a, "denominators"_a, "confidence"_a = 0.95,
             "The median of numerator / denominator over the pairs, and its interval: (value, low, high).");
}

} // namespace mc2::python
