#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "mc2/executor/communicator.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/profiler/race.hpp"

namespace mc2::cli {

/// The measured lanes of the slowest rank as a timeline that can be drawn beside the predicted one.
[[nodiscard]] planner::Timeline measured_timeline(const planner::OpSpec& op, const executor::RunRecord& record);

/// One row per contender: measured, benefit with interval, overlap efficiency, predicted.
[[nodiscard]] std::string race_table(const profiler::Race& race, const std::vector<planner::Plan>& plans);

/// The readable page of `mc2 run`, and the same content as mc2.run/1.
/// @param here  the machine of the race, which need not be that of the plan
[[nodiscard]] std::string run_page(const planner::Plan& plan, const profiler::Race& race,
                                   const executor::Verification& verification, const executor::RunRecord& record,
                                   const planner::Fingerprint& here, int width, bool color);
[[nodiscard]] nlohmann::json run_report(const planner::Plan& plan, const profiler::Race& race,
                                        const executor::Verification& verification, const planner::Fingerprint& here);

/// What `mc2 run` shows, and writes as mc2.run/1, where ranks share a device: the check of the result, and no time.
[[nodiscard]] std::string verification_page(const planner::Plan& plan, const executor::Verification& verification,
                                            const planner::Fingerprint& here, int width);
[[nodiscard]] nlohmann::json verification_report(const planner::Plan& plan, const executor::Verification& verification);

} // namespace mc2::cli
