#include "mc2/planner/llm_plan.hpp"
#include "plan_parts.hpp"

/// Plans of language models are written for people and other programs; mc2 does not read them back.
namespace mc2::store {

using planner::LlmConfig;
using planner::LlmPlan;
using planner::LlmPoint;
using planner::LlmSite;
using planner::LlmStep;

template <>
inline constexpr auto kFields<planner::LatentAttention> =
    std::tuple(field("query_rank", &planner::LatentAttention::query_rank),
               field("key_value_rank", &planner::LatentAttention::key_value_rank),
               field("query_columns", &planner::LatentAttention::query_columns),
               field("key_columns", &planner::LatentAttention::key_columns),
               field("value_columns", &planner::LatentAttention::value_columns));

template <>
inline constexpr auto kFields<planner::ExpertCount> = std::tuple(field("total", &planner::ExpertCount::total),
                                                                 field("per_token", &planner::ExpertCount::per_token));

template <>
inline constexpr auto kFields<planner::ExpertLayers> = std::tuple(
    field("layer_count", &planner::ExpertLayers::layer_count), field("experts", &planner::ExpertLayers::experts),
    field("inner", &planner::ExpertLayers::inner), field("shared_inner", &planner::ExpertLayers::shared_inner));

template <>
inline constexpr auto kFields<LlmConfig> = std::tuple(
    field("architecture", &LlmConfig::architecture), field("dtype", &LlmConfig::dtype),
    field("layer_count", &LlmConfig::layer_count), field("hidden", &LlmConfig::hidden),
    field("heads", &LlmConfig::heads), field_if_set("key_value_heads", &LlmConfig::key_value_heads),
    field_if_set("head_columns", &LlmConfig::head_columns), field("latent", &LlmConfig::latent),
    field("dense_layer_count", &LlmConfig::dense_layer_count), field_if_set("mlp_inner", &LlmConfig::mlp_inner),
    field("has_gate", &LlmConfig::has_gate), field("experts", &LlmConfig::experts));

template <>
inline constexpr auto kFields<planner::LlmRun> = std::tuple(field("first_tokens", &planner::LlmRun::first_tokens),
                                                            field("last_tokens", &planner::LlmRun::last_tokens),
                                                            field("least_benefit", &planner::LlmRun::least_benefit),
                                                            field("most_benefit", &planner::LlmRun::most_benefit));

template <>
inline constexpr auto kFields<LlmPoint> = std::tuple(field("tokens", &LlmPoint::tokens), field("op", &LlmPoint::op),
                                                     field("cut", &LlmPoint::cut), field("variant", &LlmPoint::variant),
                                                     field("serial_us", &LlmPoint::serial_us),
                                                     field("compute_us", &LlmPoint::compute_us),
                                                     field("fused", &LlmPoint::fused),
                                                     field("benefit_interval", &LlmPoint::benefit_interval));

namespace {

constexpr auto layer_of = [](auto& site) -> auto& { return site.layer.layer; };
constexpr auto count_of = [](auto& site) -> auto& { return site.layer.count; };

} // namespace

template <>
inline constexpr auto kFields<LlmSite> = std::tuple(field("layer", layer_of), field("kind", &LlmSite::kind),
                                                    field("count", count_of), field("op", &LlmSite::op),
                                                    field("ranges", &LlmSite::ranges), field("fused", &LlmSite::fused),
                                                    field("points", &LlmSite::points),
                                                    field_if_set("reason", &LlmSite::reason));

template <>
inline constexpr auto kFields<LlmStep> = std::tuple(field("tokens", &LlmStep::tokens), field("form", &LlmStep::form),
                                                    field("serial_us", &LlmStep::serial_us),
                                                    field("fused", &LlmStep::fused),
                                                    field("benefit_interval", &LlmStep::benefit_interval),
                                                    field("missing", &LlmStep::missing));

template <>
inline constexpr auto kFields<planner::LlmRest> = std::tuple(field("what", &planner::LlmRest::what),
                                                             field("why", &planner::LlmRest::why));

template <>
inline constexpr auto kFields<LlmPlan> =
    std::tuple(document("llm_plan"), field("name", &LlmPlan::name), field("config", &LlmPlan::config),
               field("fingerprint", &LlmPlan::fingerprint, Texts{}), field("ranks", &LlmPlan::ranks),
               field("first_tokens", &LlmPlan::first_tokens), field("last_tokens", &LlmPlan::last_tokens),
               field("sites", &LlmPlan::sites), field("steps", &LlmPlan::steps), field("rest", &LlmPlan::rest));

std::string encode(const LlmPlan& plan) { return dump(write_object<kFields<LlmPlan>>(plan, CutAxis::Rows)); }

} // namespace mc2::store
