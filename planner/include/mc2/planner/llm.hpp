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
  std::int64_t query_columns = 0; ///< of a head, with those that turn with the position
  std::int64_t key_columns = 0;   ///< of a head, made from the latent vector
  std::int64_t value_columns = 0; ///< of a head
  bool operator==(const LatentAttention&) const = default;
};

/// The layers of a model that have experts in place of one MLP, all alike.
struct ExpertLayers {
  std::int64_t layer_count = 0;
  ExpertCount experts;
  std::int64_t inner = 0;        ///< of one expert's MLP
  std::int64_t shared_inner = 0; ///< of the MLP that every token passes besides; 0: there is none
  bool operator==(const ExpertLayers&) const = default;
};

/// Of any size: far above any published model, and low enough that no product of two overflows.
inline constexpr std::int64_t kMaxLlmSize = 10'000'000;

/// Sizes of a decoder-only language model, as its configuration publishes them.
struct LlmConfig {
  std::string name;         ///< what it is called here, e.g. "Llama-3-70B"
  std::string architecture; ///< as it names itself, e.g. "LlamaForCausalLM"
  DType dtype = DType::Bf16;
  std::int64_t layer_count = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0, key_value_heads = 0; ///< of attention
  std::int64_t head_columns = 0;
  std::optional<LatentAttention> latent = std::nullopt; ///< in place of key_value_heads and head_columns
  std::int64_t dense_layer_count = 0;                   ///< with one MLP
  std::int64_t mlp_inner = 0;                           ///< of that MLP
  bool has_gate = true;                                 ///< whether an MLP multiplies two projections up
  std::optional<ExpertLayers> experts = std::nullopt;

  /// Errors: InvalidSpec naming the first size outside its legal range, heads that are no multiple of the key-value
  /// heads, or more layers with an MLP or experts than there are.
  [[nodiscard]] Result<void> validate() const;

  /// The layers whose weights ranks share, in the order of a pass, with how often the model has each. The keys and
  /// values of a few heads are held by several ranks where there are more ranks than heads. Weights that every rank
  /// holds whole have no collective and are left out. How each layer's sizes follow: docs/common_tasks.md, "A whole
  /// model". `*this` is valid.
  [[nodiscard]] std::vector<LayerShape> layers() const;

  /// "80 layers, hidden 8192, 64 heads of 128 (8 of keys and values), MLP 28672".
  [[nodiscard]] std::string text() const;

  bool operator==(const LlmConfig&) const = default;
};

} // namespace mc2::planner

#pragma GCC visibility pop
