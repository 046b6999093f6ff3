#include "mc2/store/llm_config.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

#include "json_reader.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::store {
namespace {

using planner::ExpertLayers;
using planner::LlmConfig;

/// The families of keys by which configurations describe layers with experts.
enum class ExpertKeys : std::uint8_t { None, Mixtral, Qwen, DeepSeek, Llama4 };

/// Facts that an architecture's name implies and its keys do not state. The sizes are the defaults of transformers for
/// missing keys; 0: there is no default, or, for head_columns, the default is hidden / heads.
struct Architecture {
  std::string_view name;
  ExpertKeys experts = ExpertKeys::None;
  bool is_nested = false; ///< the sizes are under text_config, beside those of an image encoder
  bool has_gate = true;
  bool is_latent = false;
  std::int64_t head_columns = 0, heads = 0, key_value_heads = 0;
  std::int64_t shared_inner = 0;       ///< of the shared expert, by the key shared_expert_intermediate_size
  std::int64_t shared_experts = 0;     ///< by the key n_shared_experts; 0: there is no default
  std::int64_t first_expert_layer = 0; ///< by the key first_k_dense_replace
};

constexpr std::int64_t kGemmaColumns = 256;

constexpr std::array kArchitectures{
    Architecture{.name = "LlamaForCausalLM"},
    Architecture{.name = "MistralForCausalLM", .key_value_heads = 8},
    Architecture{.name = "Qwen2ForCausalLM"},
    Architecture{.name = "Qwen3ForCausalLM", .head_columns = 128},
    Architecture{.name = "PhiForCausalLM", .has_gate = false},
    Architecture{.name = "Phi3ForCausalLM"},
    Architecture{.name = "GemmaForCausalLM", .head_columns = kGemmaColumns},
    Architecture{.name = "Gemma2ForCausalLM", .head_columns = kGemmaColumns},
    Architecture{.name = "Gemma3ForCausalLM", .head_columns = kGemmaColumns, .heads = 8, .key_value_heads = 4},
    Architecture{.name = "Gemma3ForConditionalGeneration",
                 .is_nested = true,
                 .head_columns = kGemmaColumns,
                 .heads = 8,
                 .key_value_heads = 4},
    Architecture{.name = "MixtralForCausalLM", .experts = ExpertKeys::Mixtral, .key_value_heads = 8},
    Architecture{.name = "PhiMoEForCausalLM", .experts = ExpertKeys::Mixtral, .key_value_heads = 8},
    Architecture{.name = "PhimoeForCausalLM", .experts = ExpertKeys::Mixtral, .key_value_heads = 8},
    Architecture{
        .name = "Qwen2MoeForCausalLM", .experts = ExpertKeys::Qwen, .key_value_heads = 16, .shared_inner = 5632},
    Architecture{.name = "Qwen3MoeForCausalLM", .experts = ExpertKeys::Qwen, .key_value_heads = 4},
    Architecture{.name = "DeepseekV2ForCausalLM", .experts = ExpertKeys::DeepSeek, .is_latent = true},
    Architecture{.name = "DeepseekV3ForCausalLM",
                 .experts = ExpertKeys::DeepSeek,
                 .is_latent = true,
                 .shared_experts = 1,
                 .first_expert_layer = 3},
    Architecture{.name = "Llama4ForCausalLM",
                 .experts = ExpertKeys::Llama4,
                 .head_columns = 128,
                 .heads = 40,
                 .key_value_heads = 8},
    Architecture{.name = "Llama4ForConditionalGeneration",
                 .experts = ExpertKeys::Llama4,
                 .is_nested = true,
                 .head_columns = 128,
                 .heads = 40,
                 .key_value_heads = 8},
};

constexpr std::int64_t kMaxLayerCount = 10'000;
constexpr std::size_t kMaxLlmNameBytes = 128;
constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20U;

struct ElementType {
  std::string_view name; ///< in PyTorch
  planner::DType dtype;
};
constexpr std::array kElementTypes{ElementType{"bfloat16", planner::DType::Bf16},
                                   ElementType{"float16", planner::DType::F16},
                                   ElementType{"float32", planner::DType::F32}};

/// An object of which some keys are read. A key with the value null counts as missing.
class Keys {
 public:
  explicit Keys(const Node& node) : node_(node) { node.require(node.json().is_object(), "an object"); }

  [[nodiscard]] const Json* find(std::string_view key) const {
    if (!node_.json().is_object()) return nullptr;
    const auto found = node_.json().find(key);
    return found == node_.json().end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  /// A size; a missing key is an error.
  [[nodiscard]] std::int64_t size(std::string_view key, std::int64_t low = 1,
                                  std::int64_t high = planner::kMaxLlmSize) const {
    const Json* value = find(key);
    if (value != nullptr)
      return std::max(node_.member(key, *value).integer(low, high), low); // a legal size even after a failure
    node_.fail(ErrorCode::Malformed, "has no key '" + std::string(key) + "', which this architecture needs");
    return low;
  }
  [[nodiscard]] std::int64_t size_or(std::string_view key, std::int64_t fallback, std::int64_t low = 1) const {
    return has(key) ? size(key, low) : fallback;
  }
  [[nodiscard]] bool is_null(std::string_view key) const {
    return node_.json().is_object() && node_.json().contains(key) && !has(key);
  }
  /// A size or 0, also for null. A missing key is an error, since the versions of transformers have different defaults
  /// for it.
  [[nodiscard]] std::int64_t size_or_null(std::string_view key) const { return is_null(key) ? 0 : size(key, 0); }
  /// The size under the first of these keys that exists.
  [[nodiscard]] std::int64_t size_of(std::initializer_list<std::string_view> keys) const {
    const auto known = std::ranges::find_if(keys, [&](std::string_view key) { return has(key); });
    return size(known == keys.end() ? *keys.begin() : *known);
  }
  /// A text; empty if the key is missing.
  [[nodiscard]] std::string text(std::string_view key) const {
    const Json* value = find(key);
    return value == nullptr ? std::string() : node_.member(key, *value).text();
  }
  /// A list of layer numbers, which count from 0; empty if the key is missing.
  [[nodiscard]] std::set<std::int64_t> layers(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return {};
    const auto listed =
        node_.member(key, *value).list([](const Node& each) { return each.integer(0, kMaxLayerCount); });
    return {listed.begin(), listed.end()};
  }
  [[nodiscard]] const Node& node() const noexcept { return node_; }

 private:
  Node node_;
};

/// Reads the architecture's name. Null if it is missing or unknown, which is recorded.
const Architecture* read_architecture(const Keys& keys) {
  const Json* names = keys.find("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    keys.node().fail(ErrorCode::Malformed,
                     "has no key 'architectures' with a name such as LlamaForCausalLM; is this a model's config.json?");
    return nullptr;
  }
  const auto& name = names->front().get_ref<const std::string&>();
  const auto* found = std::ranges::find(kArchitectures, name, &Architecture::name);
  if (found != kArchitectures.end()) return found;
  keys.node().fail(ErrorCode::UnknownName,
                   "unknown architecture " + in_quotes(name) + "; known: " + llm_architectures() +
                       ". Describe another one's layers as CSV: "
                       "model,layer,parallel,n,k[,units,dtype,count,experts,experts_per_token]");
  return nullptr;
}

/// The method by which the weights are quantized; empty if they are not. Some programs write it beside the sizes under
/// text_config, others above.
std::string read_quantization(const Keys& sizes, const Keys& whole) {
  for (const Keys* keys : {&sizes, &whole}) {
    const Json* value = keys->find("quantization_config");
    if (value == nullptr) continue;
    const std::string method = Keys(keys->node().member("quantization_config", *value)).text("quant_method");
    return method.empty() ? "no method" : in_quotes(method.substr(0, kMaxLlmNameBytes));
  }
  return {};
}

planner::DType read_dtype(const Keys& sizes, const Keys& whole) {
  std::string name;
  for (const Keys* keys : {&sizes, &whole})
    for (const char* key : {"torch_dtype", "dtype"})
      if (name.empty()) name = keys->text(key);
  if (name.empty()) return planner::DType::Bf16;
  const auto found = find_named(kElementTypes, name, &ElementType::name, "", "torch_dtype");
  if (found) return found.value()->dtype;
  whole.node().fail(found.error().code, found.error().message);
  return planner::DType::Bf16;
}

void read_attention(const Keys& keys, const Architecture& architecture, LlmConfig& config) {
  config.heads = architecture.heads > 0 ? keys.size_or("num_attention_heads", architecture.heads)
                                        : keys.size("num_attention_heads");
  if (architecture.is_latent) {
    const std::int64_t nope = keys.size("qk_nope_head_dim");
    config.latent = {.query_rank = keys.size_or_null("q_lora_rank"),
                     .key_value_rank = keys.size("kv_lora_rank"),
                     .query_columns = nope + keys.size("qk_rope_head_dim"),
                     .key_columns = nope,
                     .value_columns = keys.size("v_head_dim")};
    return;
  }
  // null stands for as many as heads; only a missing key has the architecture's default.
  const bool has_default = architecture.key_value_heads > 0 && !keys.is_null("num_key_value_heads");
  config.key_value_heads =
      keys.size_or("num_key_value_heads", has_default ? architecture.key_value_heads : config.heads);
  if (architecture.head_columns > 0 || keys.has("head_dim")) {
    config.head_columns = keys.size_or("head_dim", architecture.head_columns);
    return;
  }
  if (config.hidden % config.heads == 0)
    config.head_columns = config.hidden / config.heads;
  else
    keys.node().fail(ErrorCode::InvalidSpec, "num_attention_heads do not divide hidden_size, and head_dim is missing");
}

std::int64_t count_layers(std::int64_t layer_count, const auto& holds) {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < layer_count; ++layer) count += holds(layer) ? 1 : 0;
  return count;
}

ExpertLayers read_mixtral(const Keys& keys, std::int64_t layer_count) {
  return {layer_count,
          {keys.size("num_local_experts"), keys.size("num_experts_per_tok")},
          keys.size("intermediate_size"),
          0};
}

ExpertLayers read_qwen(const Keys& keys, const Architecture& architecture, std::int64_t layer_count) {
  const std::int64_t step = keys.size_or("decoder_sparse_step", 1);
  const std::set<std::int64_t> dense = keys.layers("mlp_only_layers");
  const auto has_experts = [&](std::int64_t layer) { return (layer + 1) % step == 0 && !dense.contains(layer); };
  return {count_layers(layer_count, has_experts),
          {keys.size_of({"num_experts", "num_local_experts"}), keys.size("num_experts_per_tok")},
          keys.size("moe_intermediate_size"),
          keys.size_or("shared_expert_intermediate_size", architecture.shared_inner, 0)};
}

/// The number of shared experts, 0 for null. Where there is no default, a missing key is an error, since the versions
/// of transformers differ there.
std::int64_t shared_experts(const Keys& keys, const Architecture& architecture) {
  constexpr std::string_view key = "n_shared_experts";
  const bool has_default = architecture.shared_experts > 0 && !keys.is_null(key);
  return has_default ? keys.size_or(key, architecture.shared_experts, 0) : keys.size_or_null(key);
}

ExpertLayers read_deep_seek(const Keys& keys, const Architecture& architecture, std::int64_t layer_count) {
  const std::int64_t first = keys.size_or("first_k_dense_replace", architecture.first_expert_layer, 0),
                     step = keys.size_or("moe_layer_freq", 1);
  const auto has_experts = [&](std::int64_t layer) { return layer >= first && layer % step == 0; };
  const std::int64_t inner = keys.size("moe_intermediate_size");
  return {count_layers(layer_count, has_experts),
          {keys.size("n_routed_experts"), keys.size("num_experts_per_tok")},
          inner,
          inner * shared_experts(keys, architecture)};
}

ExpertLayers read_llama_4(const Keys& keys, std::int64_t layer_count) {
  const std::int64_t inner = keys.size("intermediate_size"); // also the size of the one shared expert
  const std::set<std::int64_t> listed = keys.layers("moe_layers");
  const std::int64_t step = keys.size_or("interleave_moe_layer_step", 1);
  return {!keys.has("moe_layers")
              ? layer_count / step // an empty list, in contrast, means that no layer has experts
              : count_layers(layer_count, [&](std::int64_t layer) { return listed.contains(layer); }),
          {keys.size("num_local_experts"), keys.size("num_experts_per_tok")},
          inner,
          inner};
}

std::optional<ExpertLayers> read_experts(const Keys& keys, const Architecture& architecture, std::int64_t layer_count) {
  switch (architecture.experts) {
    case ExpertKeys::Mixtral: return read_mixtral(keys, layer_count);
    case ExpertKeys::Qwen: return read_qwen(keys, architecture, layer_count);
    case ExpertKeys::DeepSeek: // null stands for layers without experts; a missing key is an error
      if (!keys.is_null("n_routed_experts")) return read_deep_seek(keys, architecture, layer_count);
      break;
    case ExpertKeys::Llama4: return read_llama_4(keys, layer_count);
    case ExpertKeys::None: break;
  }
  return std::nullopt;
}

void read_sizes(const Keys& keys, const Architecture& architecture, LlmConfig& config) {
  config.layer_count = keys.size("num_hidden_layers", 1, kMaxLayerCount);
  config.hidden = keys.size("hidden_size");
  config.has_gate = architecture.has_gate;
  read_attention(keys, architecture, config);
  config.experts = read_experts(keys, architecture, config.layer_count);
  config.dense_layer_count = config.layer_count - (config.experts ? config.experts->layer_count : 0);
  if (config.experts && config.experts->layer_count == 0) config.experts.reset();
  if (config.dense_layer_count <= 0) return;
  config.mlp_inner =
      keys.size(architecture.experts == ExpertKeys::Llama4 ? "intermediate_size_mlp" : "intermediate_size");
}

LlmConfig read_llm_config(const Node& node, std::string name) {
  LlmConfig config;
  config.name = std::move(name);
  const Keys whole(node);
  const Architecture* architecture = node.is_ok() ? read_architecture(whole) : nullptr;
  if (architecture == nullptr) return config;
  config.architecture = architecture->name;
  const Json* nested = architecture->is_nested ? whole.find("text_config") : nullptr;
  const Keys sizes(nested != nullptr ? node.member("text_config", *nested) : node);
  config.dtype = read_dtype(sizes, whole);
  config.quantization = read_quantization(sizes, whole);
  read_sizes(sizes, *architecture, config);
  if (node.is_ok()) node.check(config.validate());
  return config;
}

} // namespace

Result<LlmConfig> decode_llm_config(std::string_view json, std::string name) {
  if (name.empty() || name.size() > kMaxLlmNameBytes || has_control(name))
    return Error{ErrorCode::InvalidSpec, "name",
                 "is " + in_quotes(name.substr(0, kMaxLlmNameBytes)) + "; a model's name has 1 to " +
                     std::to_string(kMaxLlmNameBytes) + " bytes without control characters"};
  MC2_ASSIGN(const Json document, parse_json(json, {.max_bytes = kMaxConfigBytes}));
  ReadStatus status;
  LlmConfig config = read_llm_config(Node(document, status), std::move(name));
  if (status.error) return *status.error;
  return config;
}

std::string llm_architectures() {
  return list_text(kArchitectures, [](const auto& each) { return each.name; });
}

Result<LlmConfig> find_built_in_llm(std::string_view name) {
  MC2_ASSIGN(const auto* const found, find_named(built_in_llms(), name, &BuiltInLlm::name, "model", "model"));
  return decode_llm_config(found->json, std::string(name));
}

} // namespace mc2::store
