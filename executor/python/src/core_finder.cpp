#include <pybind11/stl.h>

#include <memory>

#include "core.hpp"
#include "mc2/finder/find_ranges.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/profiler/anchor.hpp"
#include "open_store.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using finder::FoundPlan;
using finder::Kept;
using finder::PlanQuestion;
using finder::PlanSource;
using planner::CostModel;
using planner::Fingerprint;
using planner::OpSpec;
using planner::Plan;

Kept kept_in(const std::shared_ptr<OpenStore>& open) {
  return finder::kept_by([open](const auto& body) { return open->ask(body); });
}

/// A Python exception as the error of a place. The caller holds the interpreter's lock.
Error raised(const py::error_already_set& error) {
  const py::object& value = error.value();
  const auto name = py::hasattr(value, "code") ? py::str(value.attr("code")).cast<std::string>() : std::string();
  return {parse_error_code(name).value_or(ErrorCode::Unsupported), "", py::str(value).cast<std::string>()};
}

/// The plan that a service's function returned: a whole answer, or a plan alone.
FoundPlan served(const py::object& answer) {
  if (py::isinstance<store::PlanAnswer>(answer))
    return finder::served_plan(answer.cast<store::PlanAnswer>(), "service");
  if (!py::isinstance<Plan>(answer)) throw wrong_result("service", "a mc2.Plan or mc2.PlanAnswer", answer);
  const auto plan = answer.cast<Plan>();
  return {finder::unkept(plan), "service", finder::Origin::Service, finder::is_stopgap(plan)};
}

/// A service that is asked through a Python function. Its arguments: operator, machine, and whether models of other
/// operators may answer.
PlanSource service(const py::function& ask) {
  // Shared by the copies of the PlanSource; the function must be deleted with the interpreter's lock.
  const std::shared_ptr<py::function> held(new py::function(ask), [](py::function* function) {
    const py::gil_scoped_acquire acquired;
    delete function;
  });
  return {"service", [held](const PlanQuestion& question) -> Result<FoundPlan> {
            const py::gil_scoped_acquire acquired;
            try {
              FoundPlan found = served((*held)(question.op, question.machine, question.may_transfer));
              MC2_TRY(finder::require_asked(found.stored.plan, question));
              return found;
            } catch (const py::error_already_set& error) {
              // KeyboardInterrupt and SystemExit end the search, and so does a function that does not take these
              // arguments: that error has no frame yet.
              const bool is_of_call = error.matches(PyExc_TypeError) && !error.trace();
              if (!error.matches(PyExc_Exception) || is_of_call) throw;
              return raised(error);
            }
          }};
}

/// Throws Failure unless the bench times the operator of the question on its machine.
void require_asked_bench(const profiler::Bench& bench, const PlanQuestion& question) {
  if (bench.op() != question.op)
    throw Failure({ErrorCode::InvalidSpec, "anchor",
                   "is a bench of " + bench.op().text() + "; the plan is for " + question.op.text()});
  if (bench.fingerprint() != question.machine)
    throw Failure({ErrorCode::InvalidSpec, "anchor",
                   "is a bench of another machine than the plan is for (" +
                       bench.fingerprint().differences(question.machine).front() + ")"});
}

FoundPlan find_among(const OpSpec& op, const Fingerprint& machine, const std::vector<Plan>& plans,
                     const std::optional<py::function>& asked_service, const std::shared_ptr<OpenStore>& open,
                     std::vector<CostModel> models, std::optional<planner::Variant> variant, bool may_transfer,
                     profiler::Bench* anchor, const py::kwargs& words) {
  PlanQuestion question{.op = op, .machine = machine, .variant = std::move(variant), .may_transfer = may_transfer};
  if (anchor != nullptr) {
    require_asked_bench(*anchor, question);
    question.time_lanes = [anchor](const CostModel& model) { return profiler::time_lanes(*anchor, model); };
  }
  if (!words.empty()) question.options = to_options(words, planner::default_options_on(machine));
  std::vector<PlanSource> sources;
  sources.reserve(plans.size());
  for (const Plan& plan : plans) sources.push_back(finder::given_plan("given plan", plan));
  if (asked_service) sources.push_back(service(*asked_service));
  finder::ModelPlaces places{.given = std::move(models)};
  if (open) {
    places.kept = kept_in(open);
    sources.push_back(finder::kept_plans(*places.kept));
  }
  sources.push_back(finder::own_planner(std::move(places)));
  const py::gil_scoped_release released;
  return unwrap(finder::find_plan(sources, std::move(question)));
}

planner::PlanRanges find_ranges(const OpSpec& op, const Fingerprint& machine, std::int64_t first_m,
                                const std::shared_ptr<OpenStore>& open, std::vector<CostModel> models,
                                std::optional<planner::Variant> variant, bool may_transfer, const py::kwargs& words) {
  PlanQuestion question{.op = op, .machine = machine, .variant = std::move(variant), .may_transfer = may_transfer};
  if (!words.empty()) question.options = to_options(words, planner::default_options_on(machine));
  finder::ModelPlaces places{.given = std::move(models)};
  if (open) places.kept = kept_in(open);
  const py::gil_scoped_release released;
  return unwrap(finder::find_ranges(places, question, first_m));
}

} // namespace

void bind_finder(py::module_& module) {
  py::class_<store::Staleness>(
      module, "Staleness",
      "How much longer a kept plan is predicted to take than the best cut, at the speed of the operator's\n"
      "later runs: loss is kept / best - 1.")
      .def_readonly("loss", &store::Staleness::loss,
                    "By how much longer the kept plan is predicted to take, relative: 0.1 means 10 %.")
      .def_readonly("best_blocks", &store::Staleness::best_blocks,
                    "The blocks of the best cut as text, e.g. \"320 + 11 x 64\".")
      .def_readonly("best_variant", &store::Staleness::best_variant, "The variant of the best cut as text.")
      .def_readonly("why", &store::Staleness::why,
                    "Why the kept plan is no longer the best: how the speed of later runs differs, or what the race\n"
                    "that chose it says.");
  py::class_<FoundPlan, std::shared_ptr<FoundPlan>>(
      module, "FoundPlan", "A plan, where it came from, and why the places that were asked earlier had none (misses).")
      .def_property_readonly(
          "plan", [](const FoundPlan& found) { return found.stored.plan; }, "The plan.")
      .def_property_readonly(
          "digest", [](const FoundPlan& found) { return found.stored.digest; },
          "SHA-256 of the plan's document, as 64 hexadecimal digits.")
      .def_readonly("source", &FoundPlan::source, "Where the plan came from, as text for people.")
      .def_property_readonly(
          "origin", [](const FoundPlan& found) { return finder::to_string(found.origin); },
          "The kind of place: \"given\" (a plan or file that the caller named), \"service\", \"kept\" (a store) or\n"
          "\"model\" (made from a model).")
      .def_readonly(
          "is_stopgap", &FoundPlan::is_stopgap,
          "Whether the plan is predicted from measurements of another operator, or outside the range that was\n"
          "measured. Then no place had a better one.")
      .def_readonly("misses", &FoundPlan::misses,
                    "The reasons of the places without a plan, as \"NAME: reason\", in the order in which they were\n"
                    "asked.")
      .def_readonly("passed_over_damage", &FoundPlan::passed_over_damage,
                    "Whether one of the misses is a document that could not be read.")
      .def_readonly(
          "staleness", &FoundPlan::staleness,
          "For a kept plan that is worth tuning again: how much longer it is predicted to take than the best\n"
          "cut. Otherwise None.")
      .def("_repr_html_", [](const FoundPlan& found) { return py::cast(found.stored.plan).attr("_repr_html_")(); });
  module.def(
      "find_plan", &find_among, "op"_a, "fingerprint"_a, py::kw_only(), "plans"_a = std::vector<Plan>{},
      "service"_a = py::none(), "store"_a = py::none(), "models"_a = std::vector<CostModel>{}, "variant"_a = py::none(),
      "may_transfer"_a = true, "anchor"_a = py::none(),
      "Returns the first plan from these places, in this order: `plans`; the function `service`, called with\n"
      "op, fingerprint and may_transfer; the plans kept in `store`; plans made from `models` and from the models\n"
      "in `store`.\n"
      "A plan made from measurements of another operator, or outside the measured range, is used only if no\n"
      "later place has a better one.\n"
      "anchor  a bench of op on this machine: each of its lanes is timed alone, and a model is brought to that\n"
      "        speed before it plans; kept plans are not used\n"
      "Other keywords are the options of the planner, as for mc2.plan(). Raises mc2.Error with every place's\n"
      "reason if no place has a plan.");
  module.def("find_plan_ranges", &find_ranges, "op"_a, "fingerprint"_a, "first_m"_a, py::kw_only(),
             "store"_a = py::none(), "models"_a = std::vector<CostModel>{}, "variant"_a = py::none(),
             "may_transfer"_a = true,
             "Plans every m from first_m to op.m with the given models and those in the store. The result divides\n"
             "these m into ranges with one rule for cutting each. Plans that tuning kept are not used. Keywords: the\n"
             "options of the planner.");
  module.def("default_options", &default_options, "fingerprint"_a,
             "The alignment, min_block_rows and max_block_count that planning uses on a machine unless the caller\n"
             "names others.");
}

} // namespace mc2::python
