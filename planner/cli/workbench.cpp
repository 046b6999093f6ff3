#include "workbench.hpp"

#include <algorithm>

#include "mc2/executor/executor.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/planner.hpp"
#include "measure.hpp"

namespace mc2::cli {
namespace {

constexpr const char* kKeySeparator = ": ";

std::string key_of(const planner::Variant& variant, const planner::Cut& cut, planner::Schedule schedule) {
  return variant.text() + kKeySeparator + cut.text() + ", " + std::string(to_string(schedule));
}

} // namespace

Workbench::Workbench(const planner::OpSpec& op, std::unique_ptr<executor::Communicator> communicator,
                     std::vector<planner::Variant> variants, const Workload& workload)
    : op_(op),
      communicator_(std::move(communicator)),
      variants_(std::move(variants)),
      seed_(workload.seed),
      problem_(op, workload.seed, *communicator_, {.counts = workload.counts}) {}

Result<std::unique_ptr<Workbench>> Workbench::open(const executor::Backend& backend,
                                                   const executor::CommunicatorOptions& options,
                                                   const planner::OpSpec& op, const Workload& workload,
                                                   const VariantOption& only) {
  if (auto supported = backend.supports(op); !supported) return supported.error();
  auto variants = only.choose(backend, options, op);
  if (!variants) return variants.error();
  auto communicator = backend.open(options);
  if (!communicator) return communicator.error();
  std::unique_ptr<Workbench> bench(
      new Workbench(op, std::move(communicator).value(), std::move(variants).value(), workload));
  bench->is_virtual_ = options.virtual_compute.has_value();
  bench->variants_share_matmul_ = backend.variants_share_matmul();
  return bench;
}

void Workbench::keep_variants(std::vector<planner::Variant> variants) {
  variants_ = std::move(variants);
  std::erase_if(prepared_, [&](const auto& entry) {
    return std::ranges::none_of(variants_, [&](const planner::Variant& variant) {
      return entry.first.starts_with(variant.text() + kKeySeparator);
    });
  });
}

Result<executor::Prepared*> Workbench::prepare(const planner::Plan& plan) {
  auto& slot = prepared_[key_of(plan.variant, plan.cut, plan.schedule)];
  if (slot) return slot.get();
  // Whether a plan of another machine may run here was decided before.
  const executor::ExecuteOptions options{.accept_other_fingerprint = true, .prepare = {.allow_independent = true}};
  auto prepared = executor::prepare(plan, problem_.buffers(), *communicator_, options);
  if (!prepared) return prepared.error();
  slot = std::move(prepared).value();
  return slot.get();
}

Result<executor::Prepared*> Workbench::prepare(const planner::Cut& cut, const planner::Variant& variant) {
  const auto plan = planner::unpredicted_plan(op_, fingerprint(), variant, cut);
  if (!plan) return plan.error();
  return prepare(plan.value());
}

bool Workbench::is_prepared(const planner::Cut& cut, const planner::Variant& variant) const {
  const auto found = prepared_.find(key_of(variant, cut, planner::overlapping_schedule(op_, variant, cut)));
  return found != prepared_.end() && found->second != nullptr;
}

void Workbench::release(const planner::Cut& cut, const planner::Variant& variant) {
  prepared_.erase(key_of(variant, cut, planner::overlapping_schedule(op_, variant, cut)));
}

Result<executor::Verification> Workbench::verify(const planner::Plan& plan) {
  auto prepared = prepare(plan);
  if (!prepared) return prepared.error();
  problem_.refill_a(++seed_); // what an earlier run left behind must not pass for this one's work
  problem_.poison();
  prepared.value()->run(executor::RunMode::Fused);
  problem_.fetch_results();
  const auto buffers = problem_.host().buffers();
  if (is_virtual_) return executor::verify_exchange(op_, prepared.value()->intermediates(), buffers, plan.cut);
  return executor::verify_result(op_, buffers, plan.cut, seed_);
}

Result<executor::Verification> Workbench::verify(const planner::Cut& cut, const planner::Variant& variant) {
  const auto plan = planner::unpredicted_plan(op_, fingerprint(), variant, cut);
  if (!plan) return plan.error();
  return verify(plan.value());
}

double Workbench::timed_us(executor::Prepared& prepared, executor::RunMode mode) {
  const double us = to_us(prepared.run(mode, executor::RunDetail::Makespan).wall);
  total_timed_us_ += us;
  return us;
}

} // namespace mc2::cli
