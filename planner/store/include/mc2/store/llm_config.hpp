#pragma once

#include <span>
#include <string>
#include <string_view>

#include "mc2/planner/llm.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// Reads the configuration that is published beside a model's weights, `config.json` as Hugging Face's transformers
/// writes it. Ignores keys that it does not need. For a missing size, takes the default of transformers, if any.
/// @param name  the name to give the model: 1 to 128 bytes without control characters
/// Errors: InvalidSpec for another name; Malformed, naming the JSON path and what was expected; UnknownName for an
/// architecture that is not in llm_architectures(), or for an unknown element type; InvalidSpec as LlmConfig::validate.
[[nodiscard]] Result<planner::LlmConfig> decode_llm_config(std::string_view json, std::string name);

/// The architectures that decode_llm_config() reads: "LlamaForCausalLM, MistralForCausalLM, ...".
[[nodiscard]] std::string llm_architectures();

/// A published model that is part of the library.
struct BuiltInLlm {
  std::string_view name; ///< the name of its file in data/llm/, e.g. "Llama-3-70B"
  std::string_view json;
};

/// All of them, sorted by name.
[[nodiscard]] std::span<const BuiltInLlm> built_in_llms() noexcept;

/// Errors: UnknownName, listing the names that exist.
[[nodiscard]] Result<planner::LlmConfig> find_built_in_llm(std::string_view name);

} // namespace mc2::store

#pragma GCC visibility pop
