#pragma once

#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/store/store.hpp"

namespace mc2::cli {

/// The command that makes a plan for the operator on a machine of this kind, without what is the default anyway.
[[nodiscard]] std::string tune_command(const planner::OpSpec& op, const planner::Fingerprint& machine);

/// "make one: " and tune_command(), or why this machine's backend cannot tune the operator.
[[nodiscard]] std::string how_to_make_one(const planner::OpSpec& op, const planner::Fingerprint& machine);

/// "No plan" as people read it, in three lines: what is missing, the nearest that is kept and what is different there,
/// and the command that makes one, or why there is none. @param store  nullptr where there is none yet
/// @param why  "; ..." that is not enough for a plan
[[nodiscard]] Error no_plan(const planner::OpSpec& op, const planner::Fingerprint& machine, const store::Store* store,
                            const std::string& why = {});

} // namespace mc2::cli
