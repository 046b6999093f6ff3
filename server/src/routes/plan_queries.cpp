#include <nlohmann/json.hpp>

#include "error_map.hpp"
#include "json_body.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/store/codec.hpp"
#include "plan_answer.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

constexpr std::size_t kMaxBatchSize = 1000;

Response to_response(const Answer& answer) { return {.body = answer.body, .etag = answer.etag}; }

/// What one question of a batch gets: {"status": 200, "answer": ...} or {"status": 404, "problem": ...}.
std::string batch_entry(Context& context, const Call& call, const nlohmann::json& request) {
  const auto answered = [&]() -> Result<Answer> {
    auto question = read_plan_question(call.query, request.dump());
    if (!question) return question.error();
    return answer_plan(context, question.value());
  }();
  if (answered) return R"({"answer":)" + *answered.value().body + R"(,"status":200})";
  const Response refused = problem_of(answered.error(), call.request.id);
  return R"({"problem":)" + *refused.body + R"(,"status":)" + std::to_string(refused.status) + "}";
}

/// The plan of a what-if: `request` as of mc2.request/1, `model` as of mc2.cost_model/1. Errors: as the decoders and make_plan.
Result<planner::Plan> plan_what_if(const nlohmann::json& body) {
  for (const char* key : {"model", "request"})
    if (!body.contains(key)) return Error{ErrorCode::Malformed, key, "is missing"};
  const auto request = store::decode_request(body["request"].dump());
  if (!request) return request.error();
  const auto model = store::decode_model(body["model"].dump());
  if (!model) return model.error();
  return planner::make_plan(request.value().op, model.value(), request.value().options);
}

} // namespace

Response answer_plan_query(Context& context, const Call& call) {
  const bool is_get = call.request.method != "POST";
  const auto question = is_get ? read_plan_question(call.query) : read_plan_question(call.query, call.request.body);
  if (!question) return problem_of(question.error(), call.request.id);
  const auto answer = answer_plan(context, question.value());
  return answer ? to_response(answer.value()) : problem_of(answer.error(), call.request.id);
}

Response answer_plan_batch(Context& context, const Call& call) {
  const auto body = parse_object(call.request.body, {"requests", "schema"});
  if (!body) return problem_of(body.error(), call.request.id);
  const auto requests = body.value().find("requests");
  if (requests == body.value().end() || !requests->is_array() || requests->size() > kMaxBatchSize)
    return problem_of({ErrorCode::Malformed, "requests",
                       "must be an array of at most " + std::to_string(kMaxBatchSize) + " mc2.request/1 documents"},
                      call.request.id);
  std::string entries;
  for (const auto& request : *requests) entries += (entries.empty() ? "" : ",") + batch_entry(context, call, request);
  return json_response(R"({"answers":[)" + entries + R"(],"schema":"mc2.batch_answer/1"})");
}

Response answer_what_if(Context& context, const Call& call) {
  const auto body = parse_object(call.request.body, {"model", "request", "schema"});
  if (!body) return problem_of(body.error(), call.request.id);
  if (auto known = call.query.require_all_known(); !known) return problem_of(known.error(), call.request.id);
  const auto plan = plan_what_if(body.value());
  if (!plan) return problem_of(plan.error(), call.request.id);
  const SourcedPlan sourced{"what_if", store::encode(plan.value()),
                            std::string(to_string(plan.value().makespan.provenance)), {}};
  context.metrics.count_answer(sourced.source, sourced.provenance);
  return json_response(*to_answer(sourced, 0).body);
}

} // namespace mc2::server
