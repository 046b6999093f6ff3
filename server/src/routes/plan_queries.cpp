#include "error_map.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/finder/topology_costs.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "parameters.hpp"
#include "plan_answer.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

constexpr std::size_t kMaxBatchSize = 1000;

/// The request's text, the key of the cache of questions. Target and body cannot be confused, because a target has no
/// line breaks. Empty for a body that is too long.
std::string text_of(const Request& request) {
  if (std::string_view(request.body).size() > QuestionCache::kLongestText) return {};
  return request.method == "POST" ? request.target + "\n" + std::string(request.body) : request.target;
}

Response to_response(const Answer& answer) { return {.body = answer.body, .etag = answer.etag}; }

/// Errors: as finder::topology_costs.
Result<planner::CostModel> model_of(const store::WhatIf& what_if) {
  if (!what_if.topology) return *what_if.model;
  return finder::topology_costs(*what_if.topology, what_if.request.op, what_if.model);
}

/// Answers a single question and keeps it, so that it is not parsed the next time. Errors: as answer_plan.
Result<Response> answer_and_remember(Context& context, const Call& call, PlanQuestion question) {
  const auto keyed = std::make_shared<const KeyedQuestion>(with_key(std::move(question))); // shared with the cache
  context.questions.keep(text_of(call.request), keyed);
  MC2_ASSIGN(const auto answer, answer_plan(context, *keyed, call.is_stopped));
  return to_response(answer);
}

/// Errors: those of the request, and as answer_plan.
Result<Answer> answer_request(Context& context, const Call& call, const Result<store::PlanRequest>& request) {
  if (!request) return request.error();
  MC2_ASSIGN(auto question, to_plan_question(call.query, request.value()));
  return answer_plan(context, with_key(std::move(question)), call.is_stopped);
}

/// The entry of one question of a batch: {"status": 200, "answer": ...} or {"status": 404, "problem": ...}.
std::string batch_entry(const Result<Answer>& answered, const std::string& request_id) {
  if (answered) return R"({"answer":)" + *answered.value().body + R"(,"status":200})";
  const Response refused = problem_of(answered.error(), request_id);
  return R"({"problem":)" + *refused.body + R"(,"status":)" + std::to_string(refused.status) + "}";
}

} // namespace

Result<Response> answer_plan_get(Context& context, const Call& call) {
  auto question = read_plan_question(call.query);
  if (!question) return as_parameters(question.error());
  auto answer = answer_and_remember(context, call, std::move(question).value());
  return answer ? std::move(answer) : as_parameters(answer.error());
}

std::optional<Response> known_plan(Context& context, const Request& request) {
  const auto question = context.questions.find(text_of(request));
  const auto answer = question ? known_answer(context, *question) : std::nullopt;
  return answer ? std::optional(to_response(*answer)) : std::nullopt;
}

Result<Response> answer_plan_ranges(Context& context, const Call& call) {
  auto question = read_ranges_question(call.query);
  if (!question) return as_parameters(question.error());
  const auto answer = answer_plan(context, with_key(std::move(question).value()), call.is_stopped);
  return answer ? Result(to_response(answer.value())) : as_parameters(answer.error());
}

Result<Response> answer_plan_post(Context& context, const Call& call) {
  MC2_ASSIGN(const auto request, store::decode_request(call.request.body));
  MC2_ASSIGN(auto question, to_plan_question(call.query, request));
  return answer_and_remember(context, call, std::move(question));
}

Result<Response> answer_plan_batch(Context& context, const Call& call) {
  MC2_ASSIGN(const auto requests, store::decode_batch(call.request.body));
  if (requests.size() > kMaxBatchSize)
    return Error{ErrorCode::Malformed, "requests",
                 "are " + std::to_string(requests.size()) + "; must be at most " + std::to_string(kMaxBatchSize)};
  std::vector<std::string> entries;
  for (const auto& request : requests) {
    const auto answered = answer_request(context, call, request);
    if (call.is_stopped && call.is_stopped()) return answered ? Error{ErrorCode::Cancelled, "", ""} : answered.error();
    entries.push_back(batch_entry(answered, call.request.id));
  }
  return json_response(R"({"answers":[)" + list_text(entries, ",") + R"(],"schema":"mc2.batch_answer/1"})");
}

Result<Response> answer_what_if(Context& context, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  MC2_ASSIGN(const auto what_if, store::decode_what_if(call.request.body));
  const store::PlanRequest& request = what_if.request;
  MC2_ASSIGN(const auto model, model_of(what_if));
  MC2_ASSIGN(const auto plan,
             finder::plan_given(model, {.op = request.op,
                                        .machine = {},
                                        .options = request.options_with(planner::default_options_on(model.fingerprint)),
                                        .may_transfer = false,
                                        .is_stopped = call.is_stopped}));
  const SourcedPlan sourced{"what_if", store::encode(plan), plan.makespan.provenance, {}};
  context.metrics.count_answer(sourced.source, to_string(sourced.provenance));
  return json_response(*to_answer(sourced, 0).body);
}

} // namespace mc2::server
