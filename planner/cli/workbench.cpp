#include "workbench.hpp"

#include "mc2/executor/stage.hpp"
#include "mc2/executor/verify.hpp"

namespace mc2::cli {

Workbench::Workbench(const planner::OpSpec& op, std::unique_ptr<executor::Communicator> communicator,
                     std::vector<planner::Variant> variants, bool is_virtual, std::uint64_t seed)
    : op_(op),
      communicator_(std::move(communicator)),
      variants_(std::move(variants)),
      is_virtual_(is_virtual),
      seed_(seed),
      problem_(op, seed, *communicator_) {}

Result<std::unique_ptr<Workbench>> Workbench::open(const executor::Backend& backend,
                                                   const executor::CommunicatorOptions& options,
                                                   const planner::OpSpec& op, std::uint64_t seed,
                                                   const VariantOption& only) {
  if (auto supported = backend.supports(op); !supported) return supported.error();
  auto variants = only.choose(backend, options, op);
  if (!variants) return variants.error();
  auto communicator = backend.open(options);
  if (!communicator) return communicator.error();
  return std::unique_ptr<Workbench>(new Workbench(op, std::move(communicator).value(),
                                                  std::move(variants).value(), options.virtual_compute.has_value(), seed));
}

Result<executor::Prepared*> Workbench::prepare(const planner::Cut& cut, const planner::Variant& variant) {
  auto& slot = prepared_[variant.text() + ": " + cut.text()];
  if (slot) return slot.get();
  const auto stages = executor::lower(op_, cut);
  if (!stages) return stages.error();
  auto prepared = communicator_->prepare(stages.value(), variant, problem_.buffers(), {.allow_independent = true});
  if (!prepared) return prepared.error();
  slot = std::move(prepared).value();
  return slot.get();
}

Result<executor::Verification> Workbench::verify(const planner::Cut& cut, const planner::Variant& variant) {
  auto prepared = prepare(cut, variant);
  if (!prepared) return prepared.error();
  problem_.refill_a(++seed_); // what an earlier run left behind must not pass for this one's work
  problem_.poison();
  prepared.value()->run(executor::RunMode::Fused);
  problem_.fetch_results();
  const auto buffers = problem_.host().buffers();
  if (is_virtual_) return executor::verify_exchange(op_, prepared.value()->intermediates(), buffers);
  return executor::verify_result(op_, buffers, cut, seed_);
}

} // namespace mc2::cli
