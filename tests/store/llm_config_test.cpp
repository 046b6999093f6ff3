#include "mc2/store/llm_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "mc2/planner/llm_plan.hpp"

namespace mc2::store::llm_config_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"torch_dtype", "float16"},
          {"hidden_size", 512},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"intermediate_size", 1024},
          {"rope_theta", 500000.0}}; // one of the many keys that do not matter
}

Result<planner::LlmConfig> decode(const Json& json) { return decode_llm_config(json.dump(), "Toy"); }

std::string refusal(const std::string& key, const Json& value) {
  Json json = llama();
  json[key] = value;
  const auto config = decode(json);
  return config ? "" : config.error().text();
}

/// One line for each layer of each model, as tests/store/llm_layers.csv has them.
std::string layers_text() {
  std::ostringstream text;
  text << "model,layer,parallel,n,k,units,count,experts,experts_per_token\n";
  for (const auto& llm : built_in_llms())
    for (const auto& layer : find_built_in_llm(llm.name).value().layers()) {
      text << layer.model << ',' << layer.layer << ',' << to_string(layer.parallelism) << ',' << layer.n << ','
           << layer.k << ',' << (layer.units > 0 ? std::to_string(layer.units) : "") << ',' << layer.count << ',';
      if (layer.experts) text << layer.experts->total;
      text << ',';
      if (layer.experts) text << layer.experts->per_token;
      text << '\n';
    }
  return text.str();
}

std::vector<std::string> sorted_lines(std::istream& text) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (!line.empty() && line.front() != '#') lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

// The file was worked out by hand from the published sizes, without this code (its head says how).
TEST(LlmConfig, BuiltInModelsHaveTheLayersThatWereCountedByHand) {
  std::ifstream file(MC2_SOURCE_DIR "/tests/store/llm_layers.csv");
  ASSERT_TRUE(file);
  std::istringstream found(layers_text());
  EXPECT_EQ(sorted_lines(found), sorted_lines(file));
  EXPECT_EQ(built_in_llms().size(), 35U);
}

TEST(LlmConfig, MissingSizesAreWhatTransformersTakes) {
  const auto config = decode(llama()).value();
  EXPECT_EQ(config.key_value_heads, 4); // as many as heads
  EXPECT_EQ(config.head_columns, 128);  // 512 / 4
  EXPECT_EQ(config.dtype, planner::DType::F16);
  EXPECT_EQ(config.dense_layer_count, 3);
  Json gemma = llama();
  gemma["architectures"] = {"GemmaForCausalLM"};
  EXPECT_EQ(decode(gemma).value().head_columns, 256);
  Json mistral = llama();
  mistral.update(Json{{"architectures", {"MistralForCausalLM"}}, {"num_attention_heads", 16}});
  EXPECT_EQ(decode(mistral).value().key_value_heads, 8);
  mistral["num_key_value_heads"] = nullptr; // stands for as many as heads
  EXPECT_EQ(decode(mistral).value().key_value_heads, 16);
  Json qwen = llama();
  qwen["architectures"] = {"Qwen3ForCausalLM"};
  qwen["hidden_size"] = 4 * 80;
  EXPECT_EQ(decode(qwen).value().head_columns, 128);
}

TEST(LlmConfig, QuantizedWeightsAreToldAndNotPlanned) {
  const auto with = [](const char* quantization) {
    const std::string sizes = R"("num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8)";
    const std::string all = R"({"architectures": ["LlamaForCausalLM"], "intermediate_size": 1024, )" + sizes;
    return decode_llm_config(all + quantization + "}", "own");
  };
  EXPECT_EQ(with("").value().quantization, "");
  const auto config = with(R"(, "quantization_config": {"quant_method": "fp8", "bits": 8})").value();
  EXPECT_EQ(config.quantization, "'fp8'");
  EXPECT_EQ(config.dtype, planner::DType::Bf16);
  EXPECT_THAT(planner::rest_of(config)[2].why, AllOf(HasSubstr("'fp8'"), HasSubstr("--dtype f8e4m3")));
  const auto unpacked = with(R"(, "quantization_config": {"quant_method": "awq", "bits": 4})").value();
  EXPECT_THAT(planner::rest_of(unpacked)[2].why, AllOf(HasSubstr("'awq'"), Not(HasSubstr("f8e4m3"))));
  EXPECT_FALSE(with(R"(, "quantization_config": 7)"));
}

TEST(LlmConfig, QuantizedWeightsAreToldBesideTheSizesToo) {
  Json nested{{"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", llama()}};
  EXPECT_EQ(decode(nested).value().quantization, "");
  nested["text_config"]["quantization_config"] = {{"quant_method", "gptq"}};
  EXPECT_EQ(decode(nested).value().quantization, "'gptq'");
}

/// A configuration with experts. The sizes that transformers has defaults for are missing.
Json with_experts(const char* architecture, Json more) {
  Json json = llama();
  json["architectures"] = {architecture};
  json.update(Json{{"num_hidden_layers", 8}, {"num_experts_per_tok", 4}, {"moe_intermediate_size", 128}});
  json.update(std::move(more));
  return json;
}

// Defaults: configuration_*.py of transformers for Qwen2MoeConfig, Qwen3MoeConfig, PhimoeConfig and DeepseekV3Config.
TEST(LlmConfig, MissingSizesOfExpertsAreWhatTransformersTakes) {
  const Json experts{{"num_experts", 16}, {"num_attention_heads", 16}};
  const auto qwen2 = decode(with_experts("Qwen2MoeForCausalLM", experts)).value();
  EXPECT_EQ(qwen2.experts->shared_inner, 5632);
  EXPECT_EQ(qwen2.key_value_heads, 16);
  const auto qwen3 = decode(with_experts("Qwen3MoeForCausalLM", experts)).value();
  EXPECT_EQ(qwen3.experts->shared_inner, 0);
  EXPECT_EQ(qwen3.key_value_heads, 4);
  const Json phi{{"num_local_experts", 16}, {"num_attention_heads", 16}};
  EXPECT_EQ(decode(with_experts("PhimoeForCausalLM", phi)).value().key_value_heads, 8);
  const Json latent{{"n_routed_experts", 16}, {"q_lora_rank", 64},      {"kv_lora_rank", 64},
                    {"qk_nope_head_dim", 32}, {"qk_rope_head_dim", 16}, {"v_head_dim", 32}};
  Json deep_seek = with_experts("DeepseekV3ForCausalLM", latent);
  const auto v3 = decode(deep_seek).value();
  EXPECT_EQ(v3.experts->layer_count, 8 - 3);
  EXPECT_EQ(v3.experts->shared_inner, 128);
  deep_seek["n_shared_experts"] = nullptr; // stands for none
  EXPECT_EQ(decode(deep_seek).value().experts->shared_inner, 0);
  deep_seek["n_routed_experts"] = nullptr; // stands for layers without experts
  EXPECT_FALSE(decode(deep_seek).value().experts);
}

// Versions of transformers have different defaults for these.
TEST(LlmConfig, MissingSizesOfExpertsWithoutOneDefaultAreErrors) {
  const Json latent{{"n_routed_experts", 16}, {"n_shared_experts", 1},  {"q_lora_rank", 64}, {"kv_lora_rank", 64},
                    {"qk_nope_head_dim", 32}, {"qk_rope_head_dim", 16}, {"v_head_dim", 32}};
  for (const char* key : {"n_routed_experts", "n_shared_experts"}) {
    Json json = with_experts("DeepseekV2ForCausalLM", latent);
    EXPECT_TRUE(decode(json));
    json.erase(key);
    EXPECT_THAT(decode(json).error().text(), HasSubstr("has no key '" + std::string(key) + "'"));
  }
}

TEST(LlmConfig, ANullIsAMissingKey) {
  Json json = llama();
  json["num_key_value_heads"] = nullptr;
  json["head_dim"] = nullptr;
  EXPECT_EQ(decode(json).value(), decode(llama()).value());
}

TEST(LlmConfig, LayersWithExpertsFollowTheirKeys) {
  Json qwen = llama();
  qwen["architectures"] = {"Qwen2MoeForCausalLM"};
  qwen.update(Json{{"num_hidden_layers", 8},
                   {"num_key_value_heads", 4},
                   {"num_experts", 16},
                   {"num_experts_per_tok", 4},
                   {"moe_intermediate_size", 128},
                   {"shared_expert_intermediate_size", 256},
                   {"decoder_sparse_step", 2},
                   {"mlp_only_layers", {3}}});
  const auto config = decode(qwen).value();
  EXPECT_EQ(config.experts->layer_count, 3); // 1, 5 and 7: every other one but 3
  EXPECT_EQ(config.dense_layer_count, 5);
  Json llama4 = llama();
  llama4["architectures"] = {"Llama4ForCausalLM"};
  llama4.update(Json{
      {"num_local_experts", 16}, {"num_experts_per_tok", 1}, {"intermediate_size_mlp", 2048}, {"moe_layers", {0, 2}}});
  llama4["num_key_value_heads"] = 4;
  EXPECT_EQ(decode(llama4).value().experts->layer_count, 2);
  EXPECT_EQ(decode(llama4).value().mlp_inner, 2048);
  llama4["moe_layers"] = Json::array(); // not the default, which is every layer here
  EXPECT_EQ(decode(llama4).value().dense_layer_count, 3);
}

TEST(LlmConfig, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(refusal("architectures", {"MambaForCausalLM"}),
              AllOf(HasSubstr("unknown architecture 'MambaForCausalLM'; known: LlamaForCausalLM, Mistral"),
                    HasSubstr("as CSV: model,layer,parallel,n,k")));
  EXPECT_THAT(refusal("architectures", nullptr), HasSubstr("is this a model's config.json?"));
  EXPECT_THAT(refusal("torch_dtype", "int3"), HasSubstr("unknown torch_dtype 'int3'; legal: bfloat16"));
}

TEST(LlmConfig, RefusesAbsurdSizesByTheirKey) {
  EXPECT_THAT(refusal("hidden_size", 0), HasSubstr("hidden_size: expected"));
  EXPECT_THAT(refusal("hidden_size", "wide"), HasSubstr("hidden_size: expected"));
  EXPECT_THAT(refusal("num_hidden_layers", 10'001), HasSubstr("num_hidden_layers: expected"));
  EXPECT_THAT(refusal("num_hidden_layers", 1e300), HasSubstr("num_hidden_layers: expected"));
  EXPECT_THAT(refusal("hidden_size", nullptr), HasSubstr("has no key 'hidden_size'"));
  EXPECT_THAT(refusal("num_attention_heads", 3), HasSubstr("do not divide hidden_size"));
  EXPECT_THAT(refusal("num_key_value_heads", 3), HasSubstr("3 do not divide the 4 heads"));
  for (const char* text : {"", "[]", "{", "7", "\"config\""}) EXPECT_FALSE(decode_llm_config(text, "Toy")) << text;
}

TEST(LlmConfig, RefusesEveryKeyOfExpertsThatIsAbsurd) {
  const Json experts{{"num_experts", 8},         {"num_local_experts", 8},      {"n_routed_experts", 8},
                     {"num_experts_per_tok", 2}, {"moe_intermediate_size", 64}, {"intermediate_size_mlp", 64},
                     {"qk_nope_head_dim", 64},   {"qk_rope_head_dim", 32},      {"v_head_dim", 64},
                     {"kv_lora_rank", 128},      {"q_lora_rank", nullptr},      {"num_key_value_heads", 4},
                     {"n_shared_experts", 0}};
  const std::pair<const char*, const char*> keys[]{
      {"Qwen3MoeForCausalLM", "decoder_sparse_step"},     {"Qwen3MoeForCausalLM", "mlp_only_layers"},
      {"DeepseekV2ForCausalLM", "moe_layer_freq"},        {"DeepseekV2ForCausalLM", "first_k_dense_replace"},
      {"Llama4ForCausalLM", "interleave_moe_layer_step"}, {"Llama4ForCausalLM", "moe_layers"}};
  for (const auto& [architecture, key] : keys)
    for (const Json& value : {Json(0.5), Json(-1), Json("x"), Json{{"a", 1}}, Json{"x"}}) {
      Json json = llama();
      json.update(experts);
      json["architectures"] = {architecture};
      ASSERT_TRUE(decode(json)) << architecture << ": " << decode(json).error().text();
      json[key] = value;
      ASSERT_FALSE(decode(json)) << key << " " << value;
      EXPECT_THAT(decode(json).error().text(), HasSubstr(key));
    }
}

TEST(LlmConfig, ALayerThatIsListedTwiceIsOne) {
  Json json = llama();
  json["architectures"] = {"Llama4ForCausalLM"};
  json.update(Json{{"num_local_experts", 16},
                   {"num_experts_per_tok", 1},
                   {"intermediate_size_mlp", 2048},
                   {"num_key_value_heads", 4},
                   {"moe_layers", {1, 1, 1, 7}}}); // the model has three layers
  EXPECT_EQ(decode(json).value().experts->layer_count, 1);
}

TEST(LlmConfig, RefusesNamesThatATerminalWouldObey) {
  for (const std::string& name : {std::string(), std::string("a\x1b[31m"), std::string("a\nb"), std::string(129, 'a')})
    EXPECT_THAT(decode_llm_config(llama().dump(), name).error().text(), HasSubstr("name: is"));
}

TEST(LlmConfig, LatentAttentionNeedsToBeToldOfItsQueries) {
  Json json = Json::parse(find_built_in_llm("DeepSeek-V2-Lite") ? built_in_llms()[0].json : "{}");
  ASSERT_TRUE(json["q_lora_rank"].is_null()); // null: queries are made from the hidden state
  EXPECT_EQ(decode(json).value().latent->query_rank, 0);
  json["q_lora_rank"] = 0; // as some converters write it
  EXPECT_EQ(decode(json).value().latent->query_rank, 0);
  json.erase("q_lora_rank");
  EXPECT_THAT(decode(json).error().text(), HasSubstr("has no key 'q_lora_rank'"));
}

TEST(LlmConfig, ANameThatIsNotBuiltInIsRefusedWithThoseThatAre) {
  EXPECT_THAT(find_built_in_llm("Llama-9").error().text(),
              AllOf(HasSubstr("unknown model 'Llama-9'"), HasSubstr("Llama-3-8B")));
}

} // namespace
} // namespace mc2::store::llm_config_test
