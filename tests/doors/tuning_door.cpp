// Tunes an operator of the invented machine through one door and prints the plan's document.
//
//   tuning_door cpp|workbench|c
//
// "cpp" calls profiler::tune() on a bench of its own. "workbench" tunes on a backend, as the program, mc2_tune() and
// Python's Communicator do. "c" calls mc2_tune_bench() with functions in C. tuning_test.py invents the same machine for
// Python and PyTorch.

#include <cstdio>
#include <cstring>
#include <iostream>
#include <vector>

#include "mc2.h"
#include "mc2/embed/workbench.hpp"
#include "mc2/profiler/tune.hpp"
#include "mc2/store/codec.hpp"
#include "support/invented_backend.hpp"

namespace mc2::test {
namespace {

constexpr std::int64_t kAlignment = 64;
/// Costs that make whole nanoseconds of every block, so that no door rounds.
const InventedCosts kDirect{20, 1, 15, 0.75}, kRing{20, 1, 30, 0.5};

VariantCosts costs() { return {{{"direct", {}}, kDirect}, {{"ring", {}}, kRing}}; }

/// A bench whose runs all take exactly the invented time.
class SteadyBench final : public InventedBench {
 public:
  SteadyBench() : InventedBench(invented_op(), costs()) {}

 protected:
  double timed(double us) override { return us; }
};

/// The workbench that the program tunes on, except that it does not check products.
class UncheckedBench final : public profiler::Bench {
 public:
  explicit UncheckedBench(std::unique_ptr<embed::Workbench> bench)
      : Bench({bench->op(), bench->fingerprint(), {bench->variants().begin(), bench->variants().end()}, false}),
        bench_(std::move(bench)) {}
  Result<std::size_t> prepare(const planner::Plan& plan) override { return bench_->prepare(plan); }
  Result<void> verify(const planner::Plan& /*plan*/) override { return {}; }
  double time_us(std::size_t prepared, profiler::RunPart part) override { return bench_->time_us(prepared, part); }
  Result<profiler::Measure> prepare_case(const profiler::ProfileCase& one, const planner::Variant& variant) override {
    return bench_->prepare_case(one, variant);
  }
  std::chrono::steady_clock::time_point now() override { return bench_->now(); }

 private:
  std::unique_ptr<embed::Workbench> bench_;
};

std::string tune_on(profiler::Bench& bench) {
  profiler::TuneSettings settings;
  settings.plan = planner::PlanOptions{.alignment = kAlignment, .min_block_rows = kAlignment};
  profiler::Keeper keeper;
  return store::encode(profiler::tune(bench, settings, keeper).value().plan);
}

/// The invented machine, as a program in C would offer it.
struct CMachine {
  std::vector<std::pair<InventedCosts, std::vector<std::int64_t>>> plans;

  static const InventedCosts& costs_of(const char* variant) {
    return std::strcmp(variant, "ring") == 0 ? kRing : kDirect;
  }

  static mc2_status prepare(void* user, size_t number, const mc2_plan* plan) {
    auto& self = *static_cast<CMachine*>(user);
    mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
    if (mc2_plan_summarize(plan, &summary) != MC2_OK) return MC2_ERROR_SYSTEM;
    std::vector<std::int64_t> blocks(static_cast<std::size_t>(summary.block_count));
    size_t count = 0;
    if (mc2_plan_blocks(plan, blocks.data(), blocks.size(), &count) != MC2_OK) return MC2_ERROR_SYSTEM;
    if (number != self.plans.size()) return MC2_ERROR_OUT_OF_RANGE;
    self.plans.emplace_back(costs_of(summary.variant), std::move(blocks));
    return MC2_OK;
  }
  static mc2_status verify(void* /*user*/, size_t /*number*/) { return MC2_OK; }
  static mc2_status time_us(void* user, size_t number, int32_t part, double* us) {
    const auto& [costs, blocks] = static_cast<CMachine*>(user)->plans[number];
    const planner::Cut cut{blocks};
    const double compute_us = costs.lane_us(true, cut), communication_us = costs.lane_us(false, cut);
    *us = part == MC2_PART_FUSED           ? costs.fused_us(true, cut)
          : part == MC2_PART_SERIAL        ? compute_us + communication_us
          : part == MC2_PART_COMMUNICATION ? communication_us
                                           : compute_us;
    return MC2_OK;
  }
  static mc2_status time_blocks(void* /*user*/, const char* variant, int32_t /*what*/, int64_t block_length,
                                double* matmul_us, double* collective_us) {
    *matmul_us = costs_of(variant).block_us(true, block_length);
    *collective_us = costs_of(variant).block_us(false, block_length);
    return MC2_OK;
  }
};

std::string tune_in_c() {
  mc2_op_spec op = MC2_INIT(mc2_op_spec);
  op.kind = MC2_MATMUL_ALL_REDUCE;
  op.m = 1024;
  op.n = op.k = 64;
  op.dtype = MC2_F32;
  op.world_size = 2;
  const std::string fingerprint = store::encode(planner::Fingerprint{.fields = {{"backend", "invented"}}});
  mc2_machine* machine = nullptr;
  mc2_machine_from_json(fingerprint.data(), fingerprint.size(), &machine);
  CMachine invented;
  const char* variants[] = {"direct", "ring"};
  mc2_bench bench = MC2_INIT(mc2_bench);
  bench.user = &invented;
  bench.op = &op;
  bench.machine = machine;
  bench.variants = variants;
  bench.variant_count = 2;
  bench.prepare = &CMachine::prepare;
  bench.verify = &CMachine::verify;
  bench.time_us = &CMachine::time_us;
  bench.time_blocks = &CMachine::time_blocks;
  mc2_plan_options plan_options = MC2_INIT(mc2_plan_options);
  plan_options.alignment = kAlignment;
  mc2_tune_options options = MC2_INIT(mc2_tune_options);
  options.plan_options = &plan_options;
  mc2_plan* plan = nullptr;
  const char* json = "";
  size_t length = 0;
  if (mc2_tune_bench(&bench, &options, &plan) != MC2_OK || mc2_plan_to_json(plan, &json, &length) != MC2_OK) {
    mc2_error error = MC2_INIT(mc2_error);
    mc2_last_error(&error);
    std::cerr << error.name << ": " << error.field << ": " << error.message << "\n";
    return {};
  }
  const std::string document(json, length);
  mc2_free_plan(plan);
  mc2_free_machine(machine);
  return document;
}

std::string tune_through(const std::string& door) {
  if (door == "c") return tune_in_c();
  if (door == "workbench") {
    const InventedBackend backend(costs());
    UncheckedBench bench(embed::Workbench::open(backend, {}, invented_op(), 1).value());
    return tune_on(bench);
  }
  SteadyBench bench;
  return tune_on(bench);
}

} // namespace
} // namespace mc2::test

int main(int count, char** arguments) {
  if (count != 2) return 2;
  std::cout << mc2::test::tune_through(arguments[1]);
  return 0;
}
