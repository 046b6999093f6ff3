#pragma once

#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/store/store.hpp"

namespace mc2::cli {

/// The command that makes a plan for the operator on a machine of this kind, without options that have their default.
[[nodiscard]] std::string tune_command(const planner::OpSpec& op, const planner::Fingerprint& machine);

/// How to ask for the machine `there` from `here`: the option that selects its backend or link, or "the machine" with
/// the first facts that differ.
[[nodiscard]] std::string machine_option(const planner::Fingerprint& here, const planner::Fingerprint& there);

/// "make one: " and tune_command(), or why this machine's backend cannot tune the operator.
[[nodiscard]] std::string how_to_make_one(const planner::OpSpec& op, const planner::Fingerprint& machine);

/// The error for a missing plan, in three lines: what is missing, the nearest kept plan or model and how it differs,
/// and the command that makes a plan or why none can. Where samples are kept that a model could be fitted to, it names
/// them and mc2 fit.
/// @param store  nullptr: there is no store yet
/// @param why  empty, or "; ..." with a reason why what is kept is not enough
[[nodiscard]] Error no_plan(const planner::OpSpec& op, const planner::Fingerprint& machine, const store::Store* store,
                            const std::string& why = {});

} // namespace mc2::cli
