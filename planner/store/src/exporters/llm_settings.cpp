#include "mc2/store/llm_settings.hpp"
#include "mc2/planner/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "nccl.hpp"

namespace mc2::store {
namespace {

using planner::LayerShape;
using planner::LlmForm;
using planner::LlmPlan;
using planner::LlmPoint;
using planner::LlmSite;
using planner::OpKind;

std::vector<LayerShape> as_they_are(const std::vector<LayerShape>& of_model) { return of_model; }

// vLLM.

constexpr double kMib = 1 << 20;

/// The size up to which vLLM by default fuses an all-reduce with the norm after it, in MiB. Source:
/// vllm/compilation/passes/fusion/allreduce_rms_fusion.py of commit 0052812.
struct NormFusionLimit {
  std::string_view gpu; ///< part of the GPU model's name
  int ranks;
  double mib;
};
constexpr std::array kNormFusionLimits{
    NormFusionLimit{"H100", 2, 64}, NormFusionLimit{"H100", 4, 2},  NormFusionLimit{"H100", 8, 0.5},
    NormFusionLimit{"H200", 2, 64}, NormFusionLimit{"H200", 4, 2},  NormFusionLimit{"H200", 8, 0.5},
    NormFusionLimit{"B200", 2, 64}, NormFusionLimit{"B200", 4, 32}, NormFusionLimit{"B200", 8, 1}};

std::optional<double> norm_fusion_limit_mib(const LlmPlan& plan) {
  const std::string_view gpu = plan.fingerprint.field("gpu_model");
  for (const auto& limit : kNormFusionLimits)
    if (limit.ranks == plan.ranks && gpu.find(limit.gpu) != std::string_view::npos) return limit.mib;
  return std::nullopt;
}

/// The size of the message between two layers for this number of tokens.
double hidden_mib(const LlmPlan& plan, std::int64_t tokens) {
  for (const LlmSite& site : plan.sites)
    if (site.kind == OpKind::MatmulAllReduce)
      return static_cast<double>(tokens * site.layer.n * planner::size_bytes(planner::product_type(site.layer.dtype))) /
             kMib;
  return 0;
}

Result<std::string> write_vllm(const LlmPlan& plan) {
  for (const LlmSite& site : plan.sites)
    if (!planner::divides_an_axis(site.layer.parallelism))
      return Error{
          ErrorCode::Infeasible, site.layer.layer,
          "is of experts, which have the sequence-parallel form alone; vllm is told of models without experts"};
  MC2_ASSIGN(const auto least, planner::sequence_parallel_from(plan.steps));
  nlohmann::ordered_json passes{{"enable_sp", least.has_value()}, {"fuse_gemm_comms", least.has_value()}};
  if (least) {
    passes["sp_min_token_num"] = *least;
    const auto limit = norm_fusion_limit_mib(plan);
    const double taken_over = hidden_mib(plan, *least);
    if (limit && taken_over < *limit) passes["fi_allreduce_fusion_max_size_mb"] = taken_over;
  }
  return nlohmann::ordered_json{{"pass_config", passes}}.dump(2) + "\n";
}

// Transformer Engine. Source: initialize_ub() in transformer_engine/pytorch/module/base.py of commit d0067d0.

struct Gemm {
  std::string_view name;  ///< Transformer Engine's name
  std::string_view layer; ///< mc2's name
  bool is_gradient;       ///< whether it computes the gradient of the layer's input
  OpKind kind;
};
constexpr std::array kGemms{Gemm{"qkv_fprop", "attention_qkv", false, OpKind::AllGatherMatmul},
                            Gemm{"proj_fprop", "attention_output", false, OpKind::MatmulReduceScatter},
                            Gemm{"fc1_fprop", "mlp_gate_up", false, OpKind::AllGatherMatmul},
                            Gemm{"fc1_fprop", "mlp_up", false, OpKind::AllGatherMatmul},
                            Gemm{"fc2_fprop", "mlp_down", false, OpKind::MatmulReduceScatter},
                            Gemm{"proj_dgrad", "attention_output", true, OpKind::AllGatherMatmul},
                            Gemm{"fc2_dgrad", "mlp_down", true, OpKind::AllGatherMatmul}};
constexpr std::string_view kGradient = " (gradient)";

/// The layers that Transformer Engine overlaps. For each one divided by rows, adds the matmul for the gradient of its
/// input: the gathered gradient of its output times the weight.
std::vector<LayerShape> with_gradients(const std::vector<LayerShape>& of_model) {
  std::vector<LayerShape> layers;
  for (const LayerShape& layer : of_model) {
    if (std::ranges::find(kGemms, layer.layer, &Gemm::layer) == kGemms.end()) continue;
    layers.push_back(layer);
    if (layer.parallelism != planner::Parallelism::Row) continue;
    LayerShape gradient = layer;
    gradient.layer += kGradient;
    gradient.parallelism = planner::Parallelism::Column;
    std::swap(gradient.n, gradient.k);
    layers.push_back(std::move(gradient));
  }
  return layers;
}

/// The columns of each part in Transformer Engine's pipeline are a multiple of this: its GEMM needs aligned addresses.
constexpr std::int64_t kColumnStep = 16;

/// The largest number of equal parts, at most `parts`, into which the columns divide. Transformer Engine does not
/// compute a remainder. Source: split_overlap_rs() in comm_gemm_overlap.cpp.
std::int64_t even_parts(std::int64_t columns, std::int64_t parts) {
  while (parts > 1 && columns % (parts * kColumnStep) != 0) --parts;
  return parts;
}

/// The settings for a plan that fuses. A reduce-scatter in several blocks becomes the pipeline with as many parts.
/// Other plans become the ring, whose parts are the ranks' shards: with the SMs that the plan's variant names, else by
/// copy engine.
std::string overlap_text(const LlmSite& site, const LlmPoint& point) {
  const int sms = exchanging_sms(point.variant);
  const std::int64_t parts = even_parts(site.layer.n, std::ssize(point.cut.block_rows));
  if (site.kind == OpKind::MatmulReduceScatter && parts > 1)
    return "{method: pipeline, num_splits: " + std::to_string(parts) + ", num_sm: " + std::to_string(sms ? sms : 16) +
           ", cga_size: 2, set_sm_margin: true}";
  if (sms > 0)
    return "{method: ring_exchange, num_sm: " + std::to_string(sms) +
           ", cga_size: 1, set_sm_margin: true, use_ce: false}";
  return "{method: ring_exchange, num_sm: 1, cga_size: 1, set_sm_margin: false, use_ce: true}";
}

std::string line_of(const Gemm& gemm, const LlmSite& site) {
  const LlmPoint& point = site.points.front();
  const double saved_us = point.serial_us - point.fused.us;
  const std::string what = std::to_string(std::llround(point.serial_us)) + " us one after the other, ";
  const std::string name(gemm.name);
  if (saved_us <= planner::kFormTolerance * point.serial_us) return "# " + name + ": " + what + "nothing is saved\n";
  const bool is_sure = point.fused.provenance < planner::Provenance::Extrapolated;
  return name + ": " + overlap_text(site, point) + "\n  # " + what + std::to_string(std::llround(saved_us)) +
         " less by " + point.cut.text() + " " + one_line(point.variant.text()) +
         (is_sure ? "" : ", " + std::string(to_string(point.fused.provenance))) + "\n";
}

Result<std::string> write_transformer_engine(const LlmPlan& plan) {
  std::string text;
  for (const Gemm& gemm : kGemms)
    for (const LlmSite& site : plan.sites) {
      const std::string layer = std::string(gemm.layer) + std::string(gemm.is_gradient ? kGradient : "");
      if (site.layer.layer != layer || site.kind != gemm.kind) continue;
      if (site.points.empty())
        return Error{ErrorCode::Infeasible, layer, "has no plan" + (site.reason.empty() ? "" : ": " + site.reason)};
      text += line_of(gemm, site);
    }
  if (text.empty())
    return Error{ErrorCode::Infeasible, plan.name, "has none of the layers that Transformer Engine overlaps"};
  return "# ub_cfgs of Transformer Engine, Megatron's --tp-comm-overlap-cfg: " + one_line(plan.name) + ", " +
         std::to_string(plan.ranks) + " ranks, " + std::to_string(plan.last_tokens) + " tokens a step\n" +
         "# costs of " + one_line(plan.fingerprint.label()) +
         "; what is not named keeps Transformer Engine's own settings\n" + text;
}

constexpr std::array kSettings{
    LlmSettings{"vllm", "pass_config of vLLM's --compilation-config (JSON)", false, as_they_are, write_vllm},
    LlmSettings{"transformer-engine", "ub_cfgs of Transformer Engine and Megatron (YAML)", true, with_gradients,
                write_transformer_engine}};

} // namespace

std::span<const LlmSettings> llm_settings() noexcept { return kSettings; }

Result<const LlmSettings*> find_llm_settings(std::string_view name) {
  return find_named(kSettings, name, &LlmSettings::name, "--settings", "name");
}

} // namespace mc2::store
