#pragma once

#include <memory>
#include <span>
#include <string>

#include "mc2/executor/backend.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/planner/planner.hpp"

namespace mc2::testing {

/// Options of the host backend, from the texts that users give. @param device  virtual compute; empty: the CPU
inline executor::CommunicatorOptions host_options(int ranks, const std::string& link = "shm",
                                                  const std::string& device = "") {
  executor::CommunicatorOptions options;
  options.world_size = ranks;
  options.link = executor::parse_link(link).value();
  if (!device.empty()) options.virtual_compute = executor::parse_virtual_compute(device).value();
  return options;
}

/// Prepares a cut without predictions and binds it to buffers.
/// Errors: as planner::unpredicted_plan and executor::prepare.
inline Result<std::unique_ptr<executor::Prepared>> prepare_cut(executor::Communicator& communicator,
                                                               const planner::OpSpec& op, const planner::Cut& cut,
                                                               const planner::Variant& variant,
                                                               std::span<const executor::RankBuffers> buffers,
                                                               const executor::PrepareOptions& options = {}) {
  MC2_ASSIGN(const auto plan, planner::unpredicted_plan(op, communicator.fingerprint(), variant, cut));
  return executor::prepare(plan, buffers, communicator, {.prepare = options});
}

} // namespace mc2::testing
