#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mc2/planner/layer_shape.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// Attention whose queries, keys and values are made from short latent vectors. Source: DeepSeek-AI, DeepSeek-V2,
/// arXiv:2405.04434 §2.1.
struct LatentAttention {
  std::int64_t query_rank = 0; ///< 0: queries are made from the hidden state
  std::int64_t key_value_rank = 0;
  std::int64_t query_columns = 0; ///< per head, those that are rotated by position included
  std::int64_t key_columns = 0;   ///< per head, only those made from the latent vector
  std::int64_t value_columns = 0; ///< per head
  bool operator==(const LatentAttention&) const = default;
};

/// The layers of a model that have experts in place of one MLP, all alike.
struct ExpertLayers {
  std::int64_t layer_count = 0;
  ExpertCount experts;
  std::int64_t inner = 0;        ///< inner size of one expert's MLP
  std::int64_t shared_inner = 0; ///< inner size of the MLP that every token passes too; 0: there is none
  bool operator==(const ExpertLayers&) const = default;
};

/// Largest legal size: far above any published model, and low enough that no product of two sizes overflows.
inline constexpr std::int64_t kMaxLlmSize = 10'000'000;

/// Sizes of a decoder-only language model, as its configuration publishes them.
struct LlmConfig {
  std::string name;         ///< mc2's name of the model, e.g. "Llama-3-70B"
  std::string architecture; ///< the configuration's own name of it, e.g. "LlamaForCausalLM"
  DType dtype = DType::Bf16;
  std::string quantization = {}; ///< the method of a quantization_config, for people; empty without one. Not planned
  std::int64_t layer_count = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0, key_value_heads = 0; ///< of attention
  std::int64_t head_columns = 0;
  std::optional<LatentAttention> latent = std::nullopt; ///< in place of key_value_heads and head_columns
  std::int64_t dense_layer_count = 0;                   ///< layers with one MLP, without experts
  std::int64_t mlp_inner = 0;                           ///< inner size of that MLP
  bool has_gate = true; ///< whether an MLP has a gate projection beside its up projection
  std::optional<ExpertLayers> experts = std::nullopt;

  /// Errors: InvalidSpec naming the first size outside its legal range, heads that are no multiple of the key-value
  /// heads, more experts of a token than experts, or a layer_count that is not the number of layers with an MLP plus
  /// the number with experts.
  [[nodiscard]] Result<void> validate() const;

  /// The layers whose weights the ranks share, in the order of a forward pass, each with its count in the model. If
  /// there are more ranks than key-value heads, several ranks hold the same keys and values. Weights that every rank
  /// holds whole have no collective and are left out. `*this` must be valid. Source of each layer's sizes:
  /// docs/common_tasks.md, "A whole model".
  [[nodiscard]] std::vector<LayerShape> layers() const;

  /// "80 layers, hidden 8192, 64 heads of 128 (8 of keys and values), MLP 28672".
  [[nodiscard]] std::string text() const;

  bool operator==(const LlmConfig&) const = default;
};

} // namespace mc2::planner

#pragma GCC visibility pop
