#include "mc2/store/llm_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mc2::store::llm_settings_test {
namespace {

using planner::DType;
using planner::LlmForm;
using planner::LlmPlan;
using planner::LlmSite;
using planner::OpKind;
using planner::Parallelism;
using planner::Provenance;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

planner::LayerShape layer(std::string name, Parallelism parallelism, std::int64_t n, std::int64_t k, DType dtype) {
  planner::LayerShape result;
  result.layer = std::move(name);
  result.parallelism = parallelism;
  result.n = n, result.k = k, result.dtype = dtype;
  return result;
}

/// A plan of a row-parallel layer in both forms: with an all-reduce and with a reduce-scatter.
LlmPlan plan(DType dtype, const std::string& gpu, int ranks) {
  LlmPlan result;
  result.name = "Toy";
  result.ranks = ranks;
  result.fingerprint = {{{"backend", "cuda"}, {"gpu_model", gpu}}};
  for (const OpKind kind : {OpKind::MatmulAllReduce, OpKind::MatmulReduceScatter}) {
    LlmSite site;
    site.layer = layer("mlp_down", Parallelism::Row, 4096, 8192, dtype);
    site.kind = kind;
    result.sites.push_back(std::move(site));
  }
  return result;
}

/// Adds steps in which sequence parallelism pays from 512 tokens on.
LlmPlan with_steps(LlmPlan plan) {
  for (const std::int64_t tokens : {256, 512, 1024}) {
    for (const LlmForm form : planner::kLlmForms) {
      planner::LlmStep step;
      step.tokens = tokens, step.form = form, step.serial_us = 100;
      step.fused.us = form == LlmForm::SequenceParallel && tokens >= 512 ? 80 : 100;
      plan.steps.push_back(step);
    }
  }
  return plan;
}

std::string written(const char* program, const LlmPlan& plan) {
  const auto settings = find_llm_settings(program);
  const auto text = settings.value()->write(plan);
  return text ? text.value() : text.error().text();
}

Json passes(const LlmPlan& plan) { return Json::parse(written("vllm", plan))["pass_config"]; }

TEST(LlmSettings, VllmsFusedNormsEndWhereSequenceParallelismBegins) {
  EXPECT_EQ(passes(with_steps(plan(DType::Bf16, "NVIDIA H100 80GB HBM3", 2))),
            (Json{{"enable_sp", true},
                  {"fuse_gemm_comms", true},
                  {"sp_min_token_num", 512},
                  {"fi_allreduce_fusion_max_size_mb", 4.0}})); // 512 x 4096 of 2 bytes
  // Products of 8-bit elements are summed in 16 bits.
  EXPECT_EQ(passes(with_steps(plan(DType::F8E4m3, "NVIDIA H200", 2)))["fi_allreduce_fusion_max_size_mb"], 4.0);
  EXPECT_EQ(passes(with_steps(plan(DType::F32, "NVIDIA B200", 4)))["fi_allreduce_fusion_max_size_mb"], 8.0);
  // Nothing is written where vLLM's own limit is lower, or is not known.
  for (const auto& [gpu, ranks] : {std::pair{"NVIDIA H100 80GB HBM3", 4}, {"NVIDIA H200", 8}, {"NVIDIA A100", 2}})
    EXPECT_FALSE(passes(with_steps(plan(DType::Bf16, gpu, ranks))).contains("fi_allreduce_fusion_max_size_mb")) << gpu;
}

TEST(LlmSettings, VllmHasNoAnswerForExperts) {
  auto with_experts = with_steps(plan(DType::Bf16, "NVIDIA H200", 2));
  with_experts.sites.front().layer.parallelism = Parallelism::Dispatch;
  EXPECT_THAT(written("vllm", with_experts), StartsWith("mlp_down: is of experts"));
}

/// What is written for a layer with a reduce-scatter, or with an all-gather.
std::string line(OpKind kind, std::int64_t n, std::vector<std::int64_t> blocks, const std::string& variant,
                 double fused_us = 80, Provenance provenance = Provenance::Interpolated) {
  LlmPlan toy;
  toy.name = "Toy", toy.ranks = 2, toy.last_tokens = 512;
  LlmSite site;
  const bool gathers = kind == OpKind::AllGatherMatmul;
  site.layer =
      layer(gathers ? "mlp_up" : "mlp_down", gathers ? Parallelism::Column : Parallelism::Row, n, 512, DType::Bf16);
  site.kind = kind;
  planner::LlmPoint point;
  point.tokens = 512;
  point.cut.block_rows = std::move(blocks);
  point.variant = planner::parse_variant(variant);
  point.serial_us = 100;
  point.fused = {fused_us, fused_us, fused_us, provenance, ""};
  site.points.push_back(std::move(point));
  toy.sites.push_back(std::move(site));
  return written("transformer-engine", toy);
}

TEST(LlmSettings, ScatteredBlocksArePartsThatTheColumnsDivideInto) {
  const auto parts = [](std::int64_t n, std::size_t blocks) {
    return line(OpKind::MatmulReduceScatter, n, std::vector<std::int64_t>(blocks, 64), "direct");
  };
  EXPECT_THAT(parts(4096, 4),
              HasSubstr("fc2_fprop: {method: pipeline, num_splits: 4, num_sm: 16, cga_size: 2, set_sm_"));
  EXPECT_THAT(parts(4096, 7), HasSubstr("num_splits: 4,"));
  EXPECT_THAT(parts(4608, 7), HasSubstr("num_splits: 6,"));
  EXPECT_THAT(parts(4608, 3), HasSubstr("num_splits: 3,"));
  EXPECT_THAT(parts(24, 3), HasSubstr("fc2_fprop: {method: ring_exchange,")); // so few columns cannot be split
}

TEST(LlmSettings, BlocksOfThreadsThatAVariantNamesAreSms) {
  EXPECT_THAT(line(OpKind::MatmulReduceScatter, 4096, {128, 128}, "nccl(ctas=8)"),
              HasSubstr("num_splits: 2, num_sm: 8,"));
  EXPECT_THAT(
      line(OpKind::AllGatherMatmul, 4096, {256}, "direct(ctas=8,gemm_sms=124)"),
      HasSubstr("fc1_fprop: {method: ring_exchange, num_sm: 8, cga_size: 1, set_sm_margin: true, use_ce: false}"));
  EXPECT_THAT(line(OpKind::AllGatherMatmul, 4096, {128, 128}, "copy_engine(gemm_sms=132)"),
              HasSubstr("{method: ring_exchange, num_sm: 1, cga_size: 1, set_sm_margin: false, use_ce: true}"));
}

TEST(LlmSettings, WhatGainsNothingIsARemarkAndWhatIsUnsureIsMarked) {
  const std::vector<std::int64_t> blocks{128, 128};
  EXPECT_THAT(line(OpKind::AllGatherMatmul, 4096, blocks, "direct", 99),
              HasSubstr("# fc1_fprop: 100 us one after the other, nothing"));
  EXPECT_THAT(line(OpKind::AllGatherMatmul, 4096, blocks, "direct", 120), Not(HasSubstr("\nfc1_fprop")));
  EXPECT_THAT(line(OpKind::AllGatherMatmul, 4096, blocks, "direct", 80), HasSubstr("20 less by 2 x 128 direct\n"));
  EXPECT_THAT(line(OpKind::AllGatherMatmul, 4096, blocks, "direct", 80, Provenance::Extrapolated),
              HasSubstr("20 less by 2 x 128 direct, extrapolated\n"));
}

TEST(LlmSettings, TrainingAddsGradientsOfLayersDividedByRows) {
  const auto* program = find_llm_settings("transformer-engine").value();
  const auto layers = program->layers({layer("attention_qkv", Parallelism::Column, 768, 512, DType::Bf16),
                                       layer("mlp_down", Parallelism::Row, 512, 1024, DType::Bf16),
                                       layer("expert_down", Parallelism::Combine, 512, 64, DType::Bf16)});
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(layers[2].layer, "mlp_down (gradient)");
  EXPECT_EQ(layers[2].parallelism, Parallelism::Column);
  EXPECT_EQ(layers[2].n, 1024);
  EXPECT_EQ(layers[2].k, 512);
}

TEST(LlmSettings, ProgramsThatItDoesNotKnow) {
  EXPECT_EQ(find_llm_settings("sglang").error().text(),
            "--settings: unknown name 'sglang'; legal: vllm, transformer-engine");
}

} // namespace
} // namespace mc2::store::llm_settings_test
