#include "mc2/planner/llm.hpp"

#include <initializer_list>
#include <utility>

namespace mc2::planner {
namespace {

struct NamedSize {
  const char* name;
  std::int64_t value;
  std::int64_t low = 1;
};

Result<void> check_sizes(std::initializer_list<NamedSize> sizes) {
  for (const auto& [name, value, low] : sizes)
    if (value < low || value > kMaxLlmSize)
      return Error{
          ErrorCode::InvalidSpec, name,
          "is " + std::to_string(value) + "; legal: " + std::to_string(low) + " to " + std::to_string(kMaxLlmSize)};
  return {};
}

Result<void> check_attention(const LlmConfig& config) {
  if (const auto& latent = config.latent)
    return check_sizes({{"query rank", latent->query_rank, 0},
                        {"key and value rank", latent->key_value_rank},
                        {"columns of a query", latent->query_columns},
                        {"columns of a key", latent->key_columns},
                        {"columns of a value", latent->value_columns}});
  MC2_TRY(check_sizes({{"key-value heads", config.key_value_heads}, {"columns of a head", config.head_columns}}));
  if (config.heads % config.key_value_heads == 0) return {};
  return Error{
      ErrorCode::InvalidSpec, "key-value heads",
      std::to_string(config.key_value_heads) + " do not divide the " + std::to_string(config.heads) + " heads"};
}

Result<void> check_experts(const LlmConfig& config) {
  if (!config.experts) return {};
  const ExpertLayers& layers = *config.experts;
  MC2_TRY(check_sizes({{"layers with experts", layers.layer_count},
                       {"experts", layers.experts.total},
                       {"experts of a token", layers.experts.per_token},
                       {"inner size of an expert", layers.inner},
                       {"inner size of the shared experts", layers.shared_inner, 0}}));
  if (layers.experts.per_token <= layers.experts.total) return {};
  return Error{ErrorCode::InvalidSpec, "experts of a token",
               "are " + std::to_string(layers.experts.per_token) + ", more than the " +
                   std::to_string(layers.experts.total) + " that there are"};
}

class Layers {
 public:
  explicit Layers(const LlmConfig& config) : config_(config) {}

  std::vector<LayerShape> all() {
    config_.latent ? add_latent_attention(*config_.latent) : add_attention();
    if (config_.dense_layer_count > 0) add_mlp("mlp", config_.mlp_inner, config_.dense_layer_count);
    if (config_.experts) add_experts(*config_.experts);
    return std::move(layers_);
  }

 private:
  LayerShape& add(std::string layer, Parallelism parallelism, std::int64_t n, std::int64_t k, std::int64_t units,
                  std::int64_t count) {
    layers_.push_back({.model = config_.name,
                       .layer = std::move(layer),
                       .parallelism = parallelism,
                       .n = n,
                       .k = k,
                       .units = units,
                       .dtype = config_.dtype,
                       .count = count});
    return layers_.back();
  }

  void add_output(std::int64_t columns_of_head) {
    add("attention_output", Parallelism::Row, config_.hidden, config_.heads * columns_of_head, config_.heads,
        config_.layer_count);
  }
  void add_attention() {
    const std::int64_t shared = 2 * config_.key_value_heads * config_.head_columns;
    add("attention_qkv", Parallelism::Column, config_.heads * config_.head_columns + shared, config_.hidden,
        config_.heads, config_.layer_count)
        .shared = {shared, config_.key_value_heads};
    add_output(config_.head_columns);
  }
  void add_latent_attention(const LatentAttention& latent) {
    const std::int64_t heads = config_.heads, count = config_.layer_count;
    const bool has_rank = latent.query_rank > 0;
    add(has_rank ? "attention_query_up" : "attention_query", Parallelism::Column, heads * latent.query_columns,
        has_rank ? latent.query_rank : config_.hidden, heads, count);
    add("attention_key_value_up", Parallelism::Column, heads * (latent.key_columns + latent.value_columns),
        latent.key_value_rank, heads, count);
    add_output(latent.value_columns);
  }
  /// Columns of the up projection, with those of the gate beside them.
  [[nodiscard]] std::int64_t up_columns(std::int64_t inner) const { return config_.has_gate ? 2 * inner : inner; }
  [[nodiscard]] std::string up_name(const std::string& what) const {
    return what + (config_.has_gate ? "_gate_up" : "_up");
  }
  void add_mlp(const std::string& what, std::int64_t inner, std::int64_t count) {
    add(up_name(what), Parallelism::Column, up_columns(inner), config_.hidden, inner, count);
    add(what + "_down", Parallelism::Row, config_.hidden, inner, inner, count);
  }
  void add_experts(const ExpertLayers& experts) {
    const std::int64_t count = experts.layer_count;
    add(up_name("expert"), Parallelism::Dispatch, up_columns(experts.inner), config_.hidden, 0, count).experts =
        experts.experts;
    add("expert_down", Parallelism::Combine, config_.hidden, experts.inner, 0, count).experts = experts.experts;
    if (experts.shared_inner > 0) add_mlp("shared_expert", experts.shared_inner, count);
  }

  const LlmConfig& config_;
  std::vector<LayerShape> layers_;
};

std::string attention_text(const LlmConfig& config) {
  const std::string heads = std::to_string(config.heads) + " heads";
  if (config.latent) return heads + " of latent vectors";
  const std::string shared = std::to_string(config.key_value_heads) + " of keys and values";
  return heads + " of " + std::to_string(config.head_columns) +
         (config.key_value_heads == config.heads ? "" : " (" + shared + ")");
}

} // namespace

Result<void> LlmConfig::validate() const {
  MC2_TRY(check_sizes({{"layers", layer_count}, {"hidden size", hidden}, {"heads", heads}}));
  MC2_TRY(check_attention(*this));
  MC2_TRY(check_sizes({{"layers with an MLP", dense_layer_count, 0}}));
  if (dense_layer_count > 0) MC2_TRY(check_sizes({{"inner size of the MLP", mlp_inner}}));
  MC2_TRY(check_experts(*this));
  const std::int64_t described = dense_layer_count + (experts ? experts->layer_count : 0);
  if (described == layer_count) return {};
  return Error{ErrorCode::InvalidSpec, "layers",
               "are " + std::to_string(layer_count) + ", of which " + std::to_string(described) +
                   " have an MLP or experts; every layer has one of them"};
}

std::vector<LayerShape> LlmConfig::layers() const { return Layers(*this).all(); }

std::string LlmConfig::text() const {
  std::string result =
      std::to_string(layer_count) + " layers, hidden " + std::to_string(hidden) + ", " + attention_text(*this);
  if (dense_layer_count > 0) result += ", MLP " + std::to_string(mlp_inner);
  if (dense_layer_count > 0 && experts) result += " in " + std::to_string(dense_layer_count);
  if (!experts) return result;
  return result + ", " + std::to_string(experts->experts.per_token) + " of " + std::to_string(experts->experts.total) +
         " experts of " + std::to_string(experts->inner) +
         (experts->shared_inner > 0 ? " and a shared one of " + std::to_string(experts->shared_inner) : "") +
         (dense_layer_count > 0 ? " in " + std::to_string(experts->layer_count) : "");
}

} // namespace mc2::planner
