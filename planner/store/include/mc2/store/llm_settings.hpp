#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/llm_plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// A program that runs models, and what it is told of where to fuse.
struct LlmSettings {
  std::string_view name; ///< "vllm"
  std::string_view text; ///< of what settings, in a few words
  bool is_of_one_step;   ///< whether they are of one number of tokens
  /// What has to be planned: the model's layers, or some of them and others that training adds.
  std::vector<planner::LayerShape> (*layers)(const std::vector<planner::LayerShape>& of_model);
  /// Errors: Infeasible where the plan has no answer for that program, naming the layer.
  Result<std::string> (*write)(const planner::LlmPlan& plan);
};

/// All of them.
[[nodiscard]] std::span<const LlmSettings> llm_settings() noexcept;
/// Errors: UnknownName with the legal ones.
[[nodiscard]] Result<const LlmSettings*> find_llm_settings(std::string_view name);

} // namespace mc2::store

#pragma GCC visibility pop
