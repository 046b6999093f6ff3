#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "capi/values.hpp"
#include "mc2/embed/store_keeper.hpp"
#include "mc2/embed/workbench.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/profiler/anchor.hpp"
#include "mc2/profiler/tune.hpp"
#include "mc2/store/dates.hpp"

namespace mc2::capi {
namespace {

using planner::Sample;
using profiler::CaseTarget;

static_assert(MC2_PART_FUSED == static_cast<int>(profiler::RunPart::Fused));
static_assert(MC2_PART_SERIAL == static_cast<int>(profiler::RunPart::Serial));
static_assert(MC2_PART_SERIAL_COMPUTE == static_cast<int>(profiler::RunPart::SerialCompute));
static_assert(MC2_PART_COMPUTE == static_cast<int>(profiler::RunPart::Compute));
static_assert(MC2_PART_COMMUNICATION == static_cast<int>(profiler::RunPart::Communication));
static_assert(MC2_TIME_MATMUL == static_cast<int>(CaseTarget::Matmul));
static_assert(MC2_TIME_COLLECTIVE == static_cast<int>(CaseTarget::Collective));
static_assert(MC2_TIME_BOTH_LANES == static_cast<int>(CaseTarget::BothLanes));

/// The handle of a plan, freed by the destructor.
class LentPlan {
 public:
  explicit LentPlan(planner::Plan plan) { hand_out(std::make_unique<PlanObject>(std::move(plan)), &handle_); }
  ~LentPlan() { static_cast<void>(free_handle<PlanObject>(handle_)); }
  LentPlan(const LentPlan&) = delete;
  LentPlan& operator=(const LentPlan&) = delete;
  [[nodiscard]] const mc2_plan* get() const noexcept { return handle_; }

 private:
  mc2_plan* handle_ = nullptr;
};

/// A bench that calls the caller's functions. A status other than MC2_OK from one of them leaves the call.
class CallersBench final : public profiler::Bench {
 public:
  CallersBench(const mc2_bench& functions, profiler::BenchFacts facts)
      : Bench(std::move(facts)), functions_(functions) {}

  [[nodiscard]] Result<std::size_t> prepare(const planner::Plan& plan) override {
    auto key = embed::key_of(plan.variant, plan.cut, plan.schedule);
    for (std::size_t i = 0; i < plans_.size(); ++i)
      if (plans_[i].key == key) return i;
    auto lent = std::make_unique<LentPlan>(plan);
    done(functions_.prepare(functions_.user, plans_.size(), lent->get()), "bench.prepare");
    plans_.push_back({std::move(key), std::move(lent)});
    return plans_.size() - 1;
  }
  [[nodiscard]] Result<void> verify(const planner::Plan& plan) override {
    MC2_ASSIGN(const auto number, prepare(plan));
    done(functions_.verify(functions_.user, number), "bench.verify");
    return {};
  }
  [[nodiscard]] double time_us(std::size_t prepared, profiler::RunPart part) override {
    double us = 0;
    done(functions_.time_us(functions_.user, prepared, static_cast<std::int32_t>(part), &us), "bench.time_us");
    return checked(us, "bench.time_us");
  }
  [[nodiscard]] Result<profiler::Measure> prepare_case(const profiler::ProfileCase& one,
                                                       const planner::Variant& variant) override {
    return profiler::Measure([this, one, variant] { return measure(one, variant); });
  }
  [[nodiscard]] std::chrono::steady_clock::time_point now() override {
    if (functions_.now_ns == nullptr) return std::chrono::steady_clock::now();
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(functions_.now_ns(functions_.user)));
  }
  [[nodiscard]] std::string date() override { return functions_.now_ns == nullptr ? store::utc_now() : std::string(); }

 private:
  struct Known {
    std::string key;
    std::unique_ptr<LentPlan> lent;
  };

  static void done(mc2_status status, const char* function) {
    if (status != MC2_OK)
      fail(status, function, "the caller's function returned " + std::string(mc2_status_name(status)));
  }
  static double checked(double us, const char* function) {
    if (us > 0 && us <= planner::kMaxTimeUs) return us;
    fail(MC2_ERROR_INVALID_SPEC, function,
         "gave " + number_text(us) + " us; legal: above 0, to " + number_text(planner::kMaxTimeUs));
  }
  std::vector<Sample> measure(const profiler::ProfileCase& one, const planner::Variant& variant) {
    double matmul_us = 0, collective_us = 0;
    done(functions_.time_blocks(functions_.user, variant.text().c_str(), static_cast<std::int32_t>(one.target),
                                one.block_rows, &matmul_us, &collective_us),
         "bench.time_blocks");
    std::vector<Sample> samples;
    const auto add = [&](planner::Component component, double us) {
      samples.push_back(profiler::sample_of(op(), one, variant, component, checked(us, "bench.time_blocks")));
    };
    if (one.target != CaseTarget::Collective) add(planner::Component::Matmul, matmul_us);
    if (one.target != CaseTarget::Matmul) add(planner::Component::Collective, collective_us);
    return samples;
  }

  mc2_bench functions_;
  std::vector<Known> plans_;
};

std::vector<planner::Variant> read_variants(const mc2_bench& bench) {
  if (bench.variant_count == 0) fail(MC2_ERROR_INVALID_SPEC, "bench.variant_count", "is 0; name at least one variant");
  given(bench.variants, "bench.variants");
  std::vector<planner::Variant> variants;
  for (std::size_t i = 0; i < bench.variant_count; ++i) {
    const std::string field = "bench.variants[" + std::to_string(i) + "]";
    auto variant = planner::parse_variant(&given(bench.variants[i], field));
    if (variant.name.empty()) fail(MC2_ERROR_INVALID_SPEC, field, "is empty; a variant needs a name");
    if (std::ranges::find(variants, variant) != variants.end())
      fail(MC2_ERROR_INVALID_SPEC, field, "is " + variant.text() + " for the second time");
    variants.push_back(std::move(variant));
  }
  return variants;
}

profiler::TuneSettings read_settings(const mc2_tune_options& options, const planner::Fingerprint& machine) {
  profiler::TuneSettings settings;
  settings.plan = read_plan_options(options.plan_options, machine, "options.plan_options");
  if (!settings.plan->counts.empty())
    fail(MC2_ERROR_INVALID_SPEC, "options.plan_options.counts",
         "are given, but races are of equal splits; leave them out");
  const auto budget = profiler::budget_of(options.budget_s);
  if (!budget) fail(MC2_ERROR_INVALID_SPEC, "options.budget_s", budget.error().message);
  if (options.max_sample_count < 0 || options.race_round_count < 0)
    fail(MC2_ERROR_INVALID_SPEC, options.max_sample_count < 0 ? "options.max_sample_count" : "options.race_round_count",
         "must be 0 or more");
  if (options.budget_s > 0) settings.budget = budget.value();
  if (options.max_sample_count > 0) settings.profile.sweep.stopping.limit(options.max_sample_count);
  if (options.race_round_count > 0) settings.race.take_rounds(options.race_round_count);
  if (options.variant != nullptr) settings.only = planner::parse_variant(options.variant);
  if (options.model != nullptr)
    settings.known_model = std::make_shared<const planner::CostModel>(Pinned<ModelObject>(options.model)->value);
  return settings;
}

profiler::TuneHooks read_hooks(const mc2_tune_options& options) {
  profiler::TuneHooks hooks;
  constexpr std::int32_t kInfo = 3;
  if (options.log != nullptr)
    hooks.on_line = hooks.on_race = [log = options.log, user = options.user](const std::string& line) {
      log(user, kInfo, line.c_str());
    };
  if (options.is_cancelled != nullptr)
    hooks.is_cancelled = [ask = options.is_cancelled, user = options.user] { return ask(user) != 0; };
  return hooks;
}

planner::Plan tune(profiler::Bench& bench, const mc2_tune_options& options) {
  const auto settings = read_settings(options, bench.fingerprint());
  std::optional<OpenStore> store;
  std::unique_ptr<profiler::Keeper> keeper = std::make_unique<profiler::Keeper>();
  if (options.store != nullptr) {
    store.emplace(options.store);
    keeper = std::make_unique<embed::StoreKeeper>(embed::access_to(**store), bench, settings);
  }
  return take(profiler::tune(bench, settings, *keeper, read_hooks(options))).plan;
}

} // namespace
} // namespace mc2::capi

using namespace mc2;
using namespace mc2::capi;

extern "C" {

namespace {

/// A bench with random matrices of the operator. The caller has the communicator's turn.
std::unique_ptr<embed::Workbench> bench_on(SharedCommunicator& shared, const planner::OpSpec& op,
                                           std::vector<planner::Variant> variants = {}) {
  constexpr std::uint64_t kSeed = 1;
  return take(embed::Workbench::on(shared.get(), shared.backend(), shared.options(), op, kSeed, std::move(variants)));
}

/// The variants to tune: the named one, or none, which stands for all.
std::vector<planner::Variant> variants_to_tune(SharedCommunicator& shared, const planner::OpSpec& op,
                                               const char* variant) {
  if (variant == nullptr) return {};
  auto one = planner::parse_variant(variant);
  if (const auto legal = shared.backend().check_variant(op, shared.options(), one); !legal)
    take(Result<void>(Error{legal.error().code, "options.variant", legal.error().message}));
  return {std::move(one)};
}

} // namespace

mc2_status mc2_find_plan_anchored(const mc2_context* context, mc2_communicator* communicator, const mc2_op_spec* op,
                                  mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] {
    const auto spec = read_op(op);
    const Pinned<ContextObject> in(context);
    check_process(in->process, "context");
    const Pinned<CommunicatorObject> on(communicator);
    const Turn turn = on->shared->take_turn();
    const auto bench = bench_on(*on->shared, spec);
    finder::PlanQuestion question{.op = spec, .machine = bench->fingerprint()};
    question.time_lanes = [&](const planner::CostModel& model) { return profiler::time_lanes(*bench, model); };
    return take(in->finder.find(question));
  });
}

mc2_status mc2_tune(mc2_communicator* communicator, const mc2_op_spec* op, const mc2_tune_options* options,
                    mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] {
    const auto read = read_optional_struct(options, "options");
    const auto spec = read_op(op);
    const Pinned<CommunicatorObject> on(communicator);
    const Turn turn = on->shared->take_turn();
    const auto bench = bench_on(*on->shared, spec, variants_to_tune(*on->shared, spec, read.variant));
    return tune(*bench, read);
  });
}

mc2_status mc2_tune_bench(const mc2_bench* bench, const mc2_tune_options* options, mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] {
    const auto read = read_optional_struct(options, "options");
    const auto functions = read_struct(&given(bench, "bench"), "bench");
    const bool is_whole = functions.prepare != nullptr && functions.verify != nullptr && functions.time_us != nullptr &&
                          functions.time_blocks != nullptr;
    if (!is_whole) fail(MC2_ERROR_INVALID_SPEC, "bench", "needs prepare, verify, time_us and time_blocks");
    const Pinned<MachineObject> machine(functions.machine);
    CallersBench callers(functions, {read_op(functions.op), machine->value, read_variants(functions), false});
    return tune(callers, read);
  });
}

} // extern "C"
