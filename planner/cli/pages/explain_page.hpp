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
/// Whether they are one cut; uncut is, whatever the operator's length.
[[nodiscard]] bool has_same_blocks(const planner::Cut& a, const planner::Cut& b);
/// What a runner-up lost by: by the model where it can tell, else as the plan states it.
[[nodiscard]] double lost_us(const planner::Loss& loss) noexcept;
/// "fixed cost of a block, compute".
[[nodiscard]] std::string parameter_text(planner::Parameter parameter);
/// "+12.3 us", "-4.0 us", and "0" for what rounds to nothing.
[[nodiscard]] std::string signed_time(double us);

/// "waits at the start", "+12.3 us"; the first part is what the others change.
struct AccountPart {
  std::string name;
  double us;
  std::string text; ///< of the time
};
/// In the order in which they add up to the makespan.
[[nodiscard]] std::array<AccountPart, 6> account_parts(const planner::Account& account);

/// How far the model's own uncertainty reaches; empty when the decision holds inside it.
[[nodiscard]] std::string doubt_text(const planner::Sensitivity& sensitivity);
/// What the model itself would decide, and what the plan loses to that; empty when the plan is its decision.
[[nodiscard]] std::string other_choice_text(const planner::Sensitivity& sensitivity);
/// What sensitivity_cells() compare where the plan is not the model's decision; empty when it is.
[[nodiscard]] std::string comparison_text(const planner::Sensitivity& sensitivity);
[[nodiscard]] std::vector<std::string> all_notes(const planner::Explanation& explanation, const Evidence& evidence);

/// In two sentences, how far compute and link may become slower or faster until the plan costs 1 % more than the best;
/// empty where it does so today.
[[nodiscard]] std::string robustness_text(const planner::Sensitivity& sensitivity);

/// The readable page of `mc2 explain`: a screen of 40 lines and 80 columns, and five lines more for a measured
/// timeline.
[[nodiscard]] std::string explain_page(const planner::Explanation& explanation, const Evidence& evidence, int width,
                                       bool color);
/// The same with every table, as wide as they are.
[[nodiscard]] std::string full_explain_page(const planner::Explanation& explanation, const Evidence& evidence,
                                            int width, bool color);

} // namespace mc2::cli
