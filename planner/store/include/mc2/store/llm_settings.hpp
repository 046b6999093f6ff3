#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/llm_plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// The settings by which a program that runs language models is told where to fuse.
struct LlmSettings {
  std::string_view name; ///< of the program, e.g. "vllm"
  std::string_view text; ///< which settings they are, in a few words
  bool is_of_one_step;   ///< whether they hold for one number of tokens only
  /// The layers to plan: those of the model, or some of them together with layers that training adds.
  std::vector<planner::LayerShape> (*layers)(const std::vector<planner::LayerShape>& of_model);
  /// Writes the settings as the program reads them. Errors: Infeasible, naming the layer or the model, if the settings
  /// cannot be derived from the plan.
  Result<std::string> (*write)(const planner::LlmPlan& plan);
};

/// The settings of all programs.
[[nodiscard]] std::span<const LlmSettings> llm_settings() noexcept;
/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<const LlmSettings*> find_llm_settings(std::string_view name);

} // namespace mc2::store

#pragma GCC visibility pop
