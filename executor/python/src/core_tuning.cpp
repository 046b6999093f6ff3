#include <pybind11/stl.h>

#include <chrono>
#include <memory>

#include "core.hpp"
#include "mc2/embed/store_keeper.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/tune.hpp"
#include "mc2/store/dates.hpp"
#include "open_store.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using planner::CostModel;
using planner::Plan;
using planner::Sample;
using planner::Variant;
using profiler::Bench;
using profiler::CaseTarget;
using profiler::Race;

constexpr Name<CaseTarget> kTargetNames[]{
    {CaseTarget::Matmul, "matmul"}, {CaseTarget::Collective, "collective"}, {CaseTarget::BothLanes, "both"}};

std::string to_text(CaseTarget target) { return std::string(name_of<CaseTarget>(kTargetNames, target)); }

profiler::RunPart parse_part(const std::string& name) {
  using profiler::RunPart;
  constexpr std::array kParts{RunPart::Fused, RunPart::Serial, RunPart::SerialCompute, RunPart::Compute,
                              RunPart::Communication};
  return *unwrap(find_named(
      kParts, name, [](RunPart part) { return to_string(part); }, "part", "name"));
}

/// Raises unless the sample is of the case that was to be timed.
void require_asked(const planner::Sample& sample, const profiler::ProfileCase& one, const std::string& variant) {
  const bool is_matmul = sample.component == planner::Component::Matmul;
  const bool is_asked = sample.block_rows == one.block_rows && sample.variant == variant &&
                        one.target != (is_matmul ? profiler::CaseTarget::Collective : profiler::CaseTarget::Matmul);
  if (is_asked) return;
  throw Failure({ErrorCode::InvalidSpec, "prepare_case",
                 std::string("its callable returned a sample of the ") + (is_matmul ? "matmul" : "collective") +
                     ", block_rows " + std::to_string(sample.block_rows) + ", variant '" + sample.variant +
                     "'; it was asked for " + to_text(one.target) + ", " + std::to_string(one.block_rows) + ", '" +
                     variant + "'"});
}

/// A bench whose functions are overridden in Python. Exceptions that they raise pass through the tuner.
class PythonBench final : public Bench {
 public:
  PythonBench(const planner::OpSpec& op, planner::Fingerprint fingerprint, std::vector<Variant> variants,
              bool variants_share_matmul)
      : Bench({op, std::move(fingerprint), checked(op, std::move(variants)), variants_share_matmul}) {}

  [[nodiscard]] Result<std::size_t> prepare(const Plan& plan) override {
    const py::gil_scoped_acquire acquired;
    return returned_by<std::size_t>("prepare", "the plan's number, a whole number from 0 on",
                                    function("prepare")(plan));
  }
  [[nodiscard]] Result<void> verify(const Plan& plan) override {
    const py::gil_scoped_acquire acquired;
    function("verify")(plan);
    return {};
  }
  [[nodiscard]] double time_us(std::size_t prepared, profiler::RunPart part) override {
    const py::gil_scoped_acquire acquired;
    const auto us = returned_by<double>("time_us", "a time in us", function("time_us")(prepared, to_string(part)));
    if (us > 0 && us <= planner::kMaxTimeUs) return us;
    throw Failure({ErrorCode::InvalidSpec, "time_us", "returned " + number(us, "%f") + "; times are above 0 us"});
  }
  [[nodiscard]] Result<profiler::Measure> prepare_case(const profiler::ProfileCase& one,
                                                       const Variant& variant) override {
    const py::gil_scoped_acquire acquired;
    const py::object given = function("prepare_case")(to_text(one.target), one.block_rows, variant);
    if (PyCallable_Check(given.ptr()) == 0) throw wrong_result("prepare_case", "a callable", given);
    return profiler::Measure([measure = given.cast<Measure>(), one, asked = variant.text()] {
      auto samples = samples_of(measure, "prepare_case", "its callable");
      for (const auto& sample : samples) require_asked(sample, one, asked);
      return samples;
    });
  }
  [[nodiscard]] std::chrono::steady_clock::time_point now() override {
    const py::gil_scoped_acquire acquired;
    const py::function found = py::get_override(this, "now_s");
    if (!found) return std::chrono::steady_clock::now();
    return std::chrono::steady_clock::time_point(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(returned_by<double>("now_s", "seconds", found()))));
  }
  /// Empty if Python overrides the clock: the date then must not come from another clock.
  [[nodiscard]] std::string date() override {
    const py::gil_scoped_acquire acquired;
    return py::get_override(this, "now_s") ? std::string() : store::utc_now();
  }
  [[nodiscard]] Result<std::vector<Plan>> rivals(const CostModel& model) override {
    const py::gil_scoped_acquire acquired;
    const py::function found = py::get_override(this, "rivals");
    return found ? returned_by<std::vector<Plan>>("rivals", "a list of mc2.Plan", found(model)) : std::vector<Plan>();
  }

 private:
  static std::vector<Variant> checked(const planner::OpSpec& op, std::vector<Variant> variants) {
    unwrap(op.validate());
    if (variants.empty()) throw Failure({ErrorCode::InvalidSpec, "variants", "is empty; name at least one"});
    return variants;
  }

  [[nodiscard]] py::function function(const char* name) const {
    py::function found = py::get_override(this, name);
    if (found) return found;
    throw Failure({ErrorCode::InvalidSpec, "bench",
                   std::string("has no function '") + name +
                       "'; a subclass of mc2.Bench gives prepare, verify, time_us and prepare_case"});
  }
};

/// Hooks with which Ctrl-C takes effect between runs: exceptions of Python's signal handlers pass through the tuner.
profiler::TuneHooks hooks_of(const std::function<void(const std::string&)>& on_line) {
  profiler::TuneHooks hooks;
  hooks.is_cancelled = [] {
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    return false;
  };
  hooks.on_line = hooks.on_race = on_line;
  return hooks;
}

embed::StoreAccess access_to(const std::shared_ptr<OpenStore>& store) {
  return [store](const std::function<void(store::Store&)>& body) {
    store->use([&](store::Store& open) {
      body(open);
      return Result<void>();
    });
  };
}

/// @param settings  of the tuning, which decide the purpose of the kept plan
std::unique_ptr<profiler::Keeper> keeper_of(const std::shared_ptr<OpenStore>& store, const Bench& bench,
                                            const profiler::TuneSettings& settings = {}) {
  if (!store) return std::make_unique<profiler::Keeper>();
  return std::make_unique<embed::StoreKeeper>(access_to(store), bench, settings);
}

/// A plan that raced, with its times.
struct RacedPlan {
  Plan plan;
  profiler::Contender times;
};

std::vector<RacedPlan> raced_plans(const profiler::Tuned& tuned) {
  std::vector<RacedPlan> result;
  for (std::size_t i = 0; i < tuned.contenders.size(); ++i)
    result.push_back({tuned.contenders[i], tuned.race.contenders[i]});
  return result;
}

profiler::Tuned tune(Bench& bench, const std::shared_ptr<OpenStore>& store, const CostModel* model, double budget_s,
                     int max_count, std::optional<int> race_rounds,
                     const std::function<void(const std::string&)>& on_line, const py::kwargs& options) {
  profiler::TuneSettings settings;
  settings.plan = to_options(options, planner::default_options_on(bench.fingerprint()));
  settings.budget = unwrap(profiler::budget_of(budget_s));
  settings.profile.sweep.stopping.limit(checked_count("max_count", max_count));
  if (race_rounds) settings.race.take_rounds(checked_count("race_rounds", *race_rounds));
  if (model != nullptr) settings.known_model = std::make_shared<const CostModel>(*model);
  const py::gil_scoped_release released;
  const auto keeper = keeper_of(store, bench, settings);
  return unwrap(profiler::tune(bench, settings, *keeper, hooks_of(on_line)));
}

planner::Profile profile(Bench& bench, std::optional<std::int64_t> alignment, double budget_s, int max_count,
                         const std::shared_ptr<OpenStore>& store) {
  profiler::ProfileSettings settings;
  settings.plan = planner::default_options_on(bench.fingerprint());
  if (alignment) settings.plan->alignment = settings.plan->min_block_rows = *alignment;
  settings.sweep.budget = unwrap(profiler::budget_of(budget_s));
  settings.sweep.stopping.limit(checked_count("max_count", max_count));
  const auto keeper = keeper_of(store, bench);
  return {bench.op(), bench.fingerprint(), unwrap(profiler::profile(bench, settings, *keeper, hooks_of({}))).samples};
}

Race race(Bench& bench, const std::vector<Plan>& plans, std::optional<int> rounds, double budget_s, bool times_parts) {
  profiler::RaceSettings settings;
  settings.budget = unwrap(profiler::budget_of(budget_s));
  if (rounds) settings.take_rounds(checked_count("rounds", *rounds));
  settings.times_parts = times_parts;
  return unwrap(profiler::race(bench, plans, settings, "race", hooks_of({})));
}

std::optional<int> winner_of(const std::vector<Race>& races) {
  if (races.empty()) throw Failure({ErrorCode::InvalidSpec, "races", "is empty"});
  const int winner = profiler::winner_of(races);
  return winner < 0 ? std::nullopt : std::optional(winner);
}

/// Keeps the findings of a tuning that had no store, and the given plans.
void keep(const std::shared_ptr<OpenStore>& store, const Bench& bench, const profiler::Tuned& tuned,
          const std::vector<Plan>& plans) {
  const auto keeper = keeper_of(store, bench);
  unwrap(keeper->append_samples(tuned.samples));
  if (tuned.model) {
    unwrap(keeper->keep_model(*tuned.model));
    unwrap(keeper->keep_race(tuned.race, tuned.contenders));
  }
  for (const Plan& plan : plans)
    unwrap(embed::StoreKeeper(access_to(store), plan.op, plan.fingerprint, store::PlanKey{}.purpose).keep_plan(plan));
}

void bind_bench(py::module_& module) {
  py::class_<Bench>(module, "AnyBench", "One operator, and the means to run and time it on a machine.")
      .def_property_readonly("op", &Bench::op, "The operator.")
      .def_property_readonly("fingerprint", &Bench::fingerprint, "The machine.")
      .def_property_readonly(
          "variants",
          [](const Bench& bench) { return std::vector<Variant>(bench.variants().begin(), bench.variants().end()); },
          "The variants to measure, the best known default first.")
      .def(
          "prepare", [](Bench& bench, const Plan& plan) { return unwrap(bench.prepare(plan)); }, "plan"_a, NoGil(),
          "Makes a plan ready to run and returns its number. An equal plan gets the same number again. Raises\n"
          "mc2.Error if the plan cannot run here.")
      .def(
          "verify", [](Bench& bench, const Plan& plan) { unwrap(bench.verify(plan)); }, "plan"_a, NoGil(),
          "Runs the plan and compares its result with the correct one. Raises mc2.Error (mismatch) if they\n"
          "differ.")
      .def(
          "time_us",
          [](Bench& bench, std::size_t number, const std::string& part) {
            return bench.time_us(number, parse_part(part));
          },
          "number"_a, "part"_a, NoGil(),
          "Runs a part of the plan with this number once, and returns how long a caller waits for it, in us.\n"
          "part: \"fused\" for the plan, \"compute\" or \"communication\" for one lane alone. For uncut plans also\n"
          "\"serial\" for one lane after the other, and \"serial_compute\" for the matmul of that alone.")
      .def(
          "prepare_case",
          [](Bench& bench, const std::string& target, std::int64_t block_rows, const Variant& variant) {
            const py::gil_scoped_release released;
            return unwrap(bench.prepare_case(
                {unwrap(parse_name<CaseTarget>(kTargetNames, target, "target")), block_rows}, variant));
          },
          "target"_a, "block_rows"_a, "variant"_a, py::keep_alive<0, 1>(),
          "Returns a callable that runs the whole cut axis in blocks of block_rows rows or columns once, and\n"
          "returns samples. target: \"matmul\", \"collective\" or \"both\".");
}

void bind_own_bench(py::module_& module) {
  py::class_<PythonBench, Bench>(
      module, "Bench",
      "An operator that functions of a subclass run and time. The subclass has these functions:\n"
      "prepare(plan)\n"
      "    makes the plan ready and returns its number; the same plan gets the same number\n"
      "verify(plan)\n"
      "    raises mc2.Error if the plan's result is wrong\n"
      "time_us(number, part)\n"
      "    runs a part of the plan once and returns its time: \"fused\", \"serial\", \"serial_compute\", \"compute\"\n"
      "    or \"communication\"\n"
      "prepare_case(target, block_rows, variant)\n"
      "    returns a callable that times blocks of one length and returns samples; target: \"matmul\",\n"
      "    \"collective\" or \"both\"\n"
      "now_s()\n"
      "    may be left out: the seconds on the bench's clock\n"
      "rivals(model)\n"
      "    may be left out: more plans to race")
      .def(py::init<const planner::OpSpec&, planner::Fingerprint, std::vector<Variant>, bool>(), "op"_a,
           "fingerprint"_a, "variants"_a, "variants_share_matmul"_a = false);
}

planner::Validation validation_of(const Race& race, std::size_t index) {
  if (index >= race.contenders.size()) throw py::index_error();
  return race.contenders[index].validation();
}

void bind_races(py::module_& module) {
  using profiler::Contender;
  const auto times = [](std::vector<double> Contender::*member) {
    return [member](const RacedPlan& raced) { return raced.times.*member; };
  };
  py::class_<RacedPlan>(
      module, "Contender",
      "A cut that raced, and its times in us. The entries i of all lists were measured within moments of each\n"
      "other.")
      .def_readonly("plan", &RacedPlan::plan, "The plan that raced.")
      .def_property_readonly("fused_us", times(&Contender::fused_us), "Times of the plan, in us.")
      .def_property_readonly("serial_us", times(&Contender::serial_us),
                             "Times of the serial run beside each run of the plan, in us.")
      .def_property_readonly("compute_us", times(&Contender::compute_us),
                             "Times of the variant's uncut matmul alone, in us.")
      .def_property_readonly("communication_us", times(&Contender::communication_us),
                             "Times of the variant's uncut collective alone, in us.")
      .def(
          "validation", [](const RacedPlan& raced) { return raced.times.validation(); },
          "The medians, and the benefit with its interval.")
      .def(
          "observation", [](const RacedPlan& raced) { return RaceObservation{profiler::observation_of(raced.times)}; },
          "The medians in the form that mc2.recalibrate() takes.");
  py::class_<Race>(module, "Race", "What one race measured.")
      .def_readonly("round_count", &Race::round_count, "How many rounds were timed.")
      .def_readonly("serial_variant", &Race::serial_variant,
                    "The variant whose serial run is the fastest. All plans raced against it.")
      .def("validation", &validation_of, "index"_a,
           "What was measured of the plan with this index in the list that raced. Raises IndexError if there\n"
           "is none.");
  py::class_<profiler::Tuned>(module, "Tuned", "What tuning one operator found.")
      .def_readonly("plan", &profiler::Tuned::plan,
                    "The plan to use, with what its race measured. Uncut if no cut was faster beyond noise.")
      .def_readonly("model", &profiler::Tuned::model,
                    "The cost model, adjusted to the races. None if no model could be fitted to the samples.")
      .def_property_readonly("contenders", &raced_plans, "The plans of the last race, with their times.")
      .def_readonly("notes", &profiler::Tuned::notes, "Notes for people on the fit, the adjustment and the races.");
}

} // namespace

void bind_tuning(py::module_& module) {
  bind_bench(module);
  bind_own_bench(module);
  bind_races(module);
  const double budget_s = std::chrono::duration<double>(profiler::TuneSettings{}.budget).count();
  const int max_count = profiler::StoppingOptions{}.max_count;
  module.def("tune_on", &tune, "bench"_a, py::kw_only(), "store"_a = nullptr, "model"_a = nullptr,
             "budget_s"_a = budget_s, "max_count"_a = max_count, "race_rounds"_a = py::none(), "on_line"_a = nullptr,
             "Profiles, fits, plans, checks and races the operator of a bench, as mc2.tune() does on a communicator.");
  module.def("profile_on", &profile, "bench"_a, py::kw_only(), "alignment"_a = py::none(), "budget_s"_a = budget_s,
             "max_count"_a = max_count, "store"_a = nullptr, NoGil(),
             "Times both lanes, alone and together, over a sweep of block lengths, for the bench's variants. If these\n"
             "share their matmul, leaves out those that a few runs show to be the fastest at no size.");
  module.def("race_on", &race, "bench"_a, "plans"_a, py::kw_only(), "rounds"_a = py::none(), "budget_s"_a = budget_s,
             "times_parts"_a = true, NoGil(),
             "Runs the plans and the uncut operator in turn and compares their times. times_parts: also times the\n"
             "uncut matmul and the uncut collective alone.");
  module.def(
      "winner_of", &winner_of, "races"_a,
      "The index of the contender to keep, or None. The whole 95 % interval of its benefit over the uncut\n"
      "operator is above zero in the first race, and below zero in no race. All races have the same contenders.");
  module.def("keep", &keep, "store"_a, "bench"_a, "tuned"_a, "plans"_a, NoGil(),
             "Keeps in the store what a tuning without a store has found (samples, model, race), and these plans.");
}

} // namespace mc2::python
