#include "capi/objects.hpp"

namespace mc2::capi {

void check_process(const executor::ProcessMark& process, const char* what) {
  if (process.is_inherited())
    fail(MC2_ERROR_FORK, what, "was opened by the parent process, before fork(); open another one in this process");
}

PlanObject::PlanObject(std::shared_ptr<const finder::FoundPlan> of)
    : found(std::move(of)), variant(found->stored.plan.variant.text()) {}

PlanObject::PlanObject(planner::Plan of)
    : PlanObject(std::make_shared<const finder::FoundPlan>(finder::FoundPlan{finder::unkept(std::move(of)), {}})) {}

// In a fork()ed child the destructors below leak: the child does not have the parent's threads, connections and
// devices. Closing them there would wait for ever, or would close the parent's.

SharedCommunicator::~SharedCommunicator() {
  if (process_.is_inherited()) static_cast<void>(communicator_.release());
}

Turn::Turn(const executor::ProcessMark& process, std::atomic_flag& is_taken, const char* what, const char* busy)
    : is_taken_(is_taken) {
  check_process(process, what);
  if (is_taken.test_and_set(std::memory_order_acquire)) fail(MC2_ERROR_BUSY, what, busy);
}

Turn SharedCommunicator::take_turn() {
  return {process_, is_taken_, "communicator",
          "another thread runs or prepares on it; one at a time, or open a communicator for each"};
}

PreparedObject::~PreparedObject() {
  if (communicator->process().is_inherited()) static_cast<void>(prepared.release());
}

StoreObject::~StoreObject() {
  if (process.is_inherited()) static_cast<void>(store.release());
}

} // namespace mc2::capi
