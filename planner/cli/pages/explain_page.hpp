#pragma once

#include <array>
#include <string>
#include <vector>

#include "mc2/planner/explanation.hpp"
#include "pages/explain_evidence.hpp"
#include "pages/text.hpp"

namespace mc2::cli {

/// The parts that the terminal page and the HTML report share. Long texts and lists from documents are clipped.
[[nodiscard]] Facts summary_facts(const planner::Explanation& explanation, const Evidence& evidence);
[[nodiscard]] Cells lane_cells(const planner::Explanation& explanation);
[[nodiscard]] Cells loss_cells(const planner::Explanation& explanation);
[[nodiscard]] Cells sensitivity_cells(const planner::Sensitivity& sensitivity);
/// Whether two cuts have the same blocks. All uncut ones count as equal, whatever the operator's length.
[[nodiscard]] bool has_same_blocks(const planner::Cut& a, const planner::Cut& b);
/// How much slower a runner-up is: by the model where that can tell, else as the plan states it.
[[nodiscard]] double lost_us(const planner::Loss& loss) noexcept;
/// The name of a parameter, e.g. "fixed cost of a block, compute".
[[nodiscard]] std::string parameter_text(planner::Parameter parameter);
/// A time with its sign: "+12.3 us", "-4.0 us", and "0" for a time that rounds to 0.
[[nodiscard]] std::string signed_time(double us);

/// A part of the makespan, e.g. "waits at the start", "+12.3 us". The first part is the amount that the others change.
struct AccountPart {
  std::string name;
  double us;
  std::string text; ///< of the time
};
/// The parts in the order in which they add up to the makespan.
[[nodiscard]] std::array<AccountPart, 6> account_parts(const planner::Account& account);

/// Says that the model's own uncertainty could change the decision; empty if it could not.
[[nodiscard]] std::string doubt_text(const planner::Sensitivity& sensitivity);
/// What the model would decide, and what the plan loses to that; empty when the plan is the model's decision.
[[nodiscard]] std::string other_choice_text(const planner::Sensitivity& sensitivity);
/// What sensitivity_cells() compare if the plan is not the model's decision; empty if it is.
[[nodiscard]] std::string comparison_text(const planner::Sensitivity& sensitivity);
[[nodiscard]] std::vector<std::string> all_notes(const planner::Explanation& explanation, const Evidence& evidence);

/// Two sentences on how much slower or faster compute and link may become until the plan costs 1 % more than the best
/// plan; empty if it does so today.
[[nodiscard]] std::string robustness_text(const planner::Sensitivity& sensitivity);

/// The readable page of `mc2 explain`. At a width of 80 it has at most 40 lines, and five more for a measured timeline.
[[nodiscard]] std::string explain_page(const planner::Explanation& explanation, const Evidence& evidence, int width,
                                       bool color);
/// The page with all tables in full, whatever their width.
[[nodiscard]] std::string full_explain_page(const planner::Explanation& explanation, const Evidence& evidence,
                                            int width, bool color);

} // namespace mc2::cli
