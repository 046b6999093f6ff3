#include <algorithm>
#include <utility>

#include "mc2/finder/plan_llm.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/llm_config.hpp"
#include "plan_answer.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

constexpr int kUsualRanks = 8;
constexpr std::int64_t kUsualTokens = 16'384;

/// The question about a model, with ranks, steps and element type from the parameters.
Result<finder::LlmQuestion> llm_question(const Query& query, planner::LlmConfig config) {
  if (const auto dtype = query.text("dtype")) {
    MC2_ASSIGN(config.dtype, planner::parse_dtype(*dtype));
  }
  MC2_ASSIGN(const auto ranks, query.integer("ranks", 2, planner::kMaxWorldSize));
  MC2_ASSIGN(const auto given_first, query.integer("first_m", 1, planner::kMaxRangeAxis));
  const std::int64_t first = given_first.value_or(1);
  MC2_ASSIGN(const auto last, query.integer("m", first, planner::kMaxRangeAxis));
  if (!last && first > kUsualTokens)
    return Error{ErrorCode::InvalidSpec, "m",
                 "is missing; the usual last one, " + std::to_string(kUsualTokens) + ", is below first_m, " +
                     std::to_string(first)};
  return finder::LlmQuestion{.name = config.name,
                             .layers = config.layers(),
                             .config = config,
                             .ranks = static_cast<int>(ranks.value_or(kUsualRanks)),
                             .first_tokens = first,
                             .last_tokens = last.value_or(kUsualTokens)};
}

/// @param named  the model's name or digest, which makes questions about different models of one name differ
Result<Response> answer_llm(Context& context, const Call& call, planner::LlmConfig config, const std::string& named) {
  MC2_ASSIGN(auto asked, llm_question(call.query, std::move(config)));
  MC2_ASSIGN(const auto sites, finder::sites_of(asked));
  const auto legal = std::ranges::find_if(sites, [](const auto& site) { return site.op.has_value(); });
  MC2_ASSIGN(auto question, to_plan_question(call.query, store::PlanRequest::usual(*legal->op)));
  question.llm = LlmAsked{std::move(asked), named};
  MC2_ASSIGN(const auto answer, answer_plan(context, with_key(std::move(question)), call.is_stopped));
  return Response{.body = answer.body, .etag = answer.etag};
}

} // namespace

Result<Response> list_llms(Context& /*context*/, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  std::vector<std::string> items;
  for (const auto& llm : store::built_in_llms()) {
    MC2_ASSIGN(const auto config, store::find_built_in_llm(llm.name));
    items.push_back(R"({"architecture":")" + config.architecture + R"(","name":")" + config.name + R"(","text":")" +
                    config.text() + R"("})");
  }
  return json_response(R"({"items":[)" + list_text(items, ",") + R"(],"schema":"mc2.llm_list/1"})");
}

Result<Response> answer_llm_plan(Context& context, const Call& call) {
  auto config = store::find_built_in_llm(call.id);
  if (!config)
    return Error{ErrorCode::NotFound, "", config.error().text() + "; POST /v1/llms/plan takes any config.json"};
  return answer_llm(context, call, std::move(config).value(), call.id);
}

Result<Response> answer_llm_plan_post(Context& context, const Call& call) {
  MC2_ASSIGN(auto config, store::decode_llm_config(call.request.body, call.query.text("name").value_or("posted")));
  return answer_llm(context, call, std::move(config), store::digest(call.request.body));
}

} // namespace mc2::server
