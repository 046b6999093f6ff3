#pragma once

#include <span>
#include <string>
#include <string_view>

#include "mc2/planner/llm.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// Reads the configuration that is published beside a model's weights, `config.json` as Hugging Face's transformers
/// writes it; its other keys do not matter. A size that is missing is what transformers takes for it, if anything.
/// @param name  what the model is to be called: 1 to 128 bytes without control characters
/// Errors: InvalidSpec for another name; Malformed naming the JSON path and what was expected; UnknownName for an
/// architecture that is none of llm_architectures(), or an element type; InvalidSpec as LlmConfig::validate.
[[nodiscard]] Result<planner::LlmConfig> decode_llm_config(std::string_view json, std::string name);

/// "LlamaForCausalLM, MistralForCausalLM, ...": those that decode_llm_config() reads.
[[nodiscard]] std::string llm_architectures();

/// A published model that is part of the library.
struct BuiltInLlm {
  std::string_view name; ///< of its file in data/llm/, e.g. "Llama-3-70B"
  std::string_view json;
};

/// In the order of their names.
[[nodiscard]] std::span<const BuiltInLlm> built_in_llms() noexcept;

/// Errors: UnknownName, listing those that there are.
[[nodiscard]] Result<planner::LlmConfig> find_built_in_llm(std::string_view name);

} // namespace mc2::store

#pragma GCC visibility pop
