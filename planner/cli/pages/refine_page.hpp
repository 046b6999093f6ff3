#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "mc2/planner/op_spec.hpp"
#include "mc2/profiler/refine.hpp"

namespace mc2::cli {

/// The readable page of `mc2 refine`, and the same content as mc2.refinement/1.
/// @param machine  label of the machine
/// @param next_step  what the reader should do with the times of the cuts to run next
[[nodiscard]] std::string refine_page(const planner::OpSpec& op, const std::string& machine,
                                      const profiler::Refinement& refinement, const std::string& next_step, int width);
[[nodiscard]] nlohmann::ordered_json refine_report(const planner::OpSpec& op, const profiler::Refinement& refinement);

} // namespace mc2::cli
