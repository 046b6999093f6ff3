#include <nlohmann/json.hpp>

#include "error_map.hpp"
#include "mc2/store/codec.hpp"
#include "routes/listing.hpp"
#include "routes/routes.hpp"

namespace mc2::server {

Response list_models(Context& context, const Call& call) {
  const auto filter = read_filter(call.query);
  if (!filter) return problem_of(filter.error(), call.request.id);
  auto models = context.store.read([&](const store::Store& store) { return store.list_models(with_one_more(filter.value())); });
  if (!models) return problem_of(models.error(), call.request.id);
  return list_response("mc2.model_list/1", std::move(models).value(), filter.value().limit);
}

Response add_model(Context& context, const Call& call) {
  if (auto known = call.query.require_all_known(); !known) return problem_of(known.error(), call.request.id);
  const auto model = store::decode_model(call.request.body);
  if (!model) return problem_of(model.error(), call.request.id);
  const auto kept =
      context.store.write([&](store::Store& store) { return store.put_model(model.value(), context.utc_now()); });
  if (!kept) return problem_of(kept.error(), call.request.id);
  Response response = json_response(nlohmann::json{{"digest", kept.value()}}.dump(), 201);
  response.headers.emplace_back("Location", "/v1/models/" + kept.value());
  return response;
}

Response answer_model(Context& context, const Call& call) {
  if (auto known = call.query.require_all_known(); !known) return problem_of(known.error(), call.request.id);
  auto model = context.store.read([&](const store::Store& store) { return store.find_model(call.id); });
  if (!model) return problem_of(model.error(), call.request.id);
  Response response = json_response(std::move(model.value().document));
  response.etag = "\"" + model.value().digest + "\"";
  return response;
}

Response add_samples(Context& context, const Call& call) {
  if (auto known = call.query.require_all_known(); !known) return problem_of(known.error(), call.request.id);
  const auto profile = store::decode_profile(call.request.body);
  if (!profile) return problem_of(profile.error(), call.request.id);
  const planner::Profile& samples = profile.value();
  const auto kept = context.store.write([&](store::Store& store) {
    return store.append_samples(samples.op, samples.fingerprint, samples.samples, context.utc_now());
  });
  if (!kept) return problem_of(kept.error(), call.request.id);
  return json_response(nlohmann::json{{"sample_count", samples.samples.size()}}.dump(), 201);
}

Response list_fingerprints(Context& context, const Call& call) {
  if (auto known = call.query.require_all_known(); !known) return problem_of(known.error(), call.request.id);
  const auto machines = context.store.read([](const store::Store& store) { return store.list_fingerprints(); });
  if (!machines) return problem_of(machines.error(), call.request.id);
  nlohmann::json items = nlohmann::json::array();
  for (const store::StoredFingerprint& machine : machines.value())
    items.push_back({{"digest", machine.digest},
                     {"label", machine.fingerprint.label()},
                     {"fields", machine.fingerprint.fields}});
  return json_response(nlohmann::json{{"schema", "mc2.fingerprint_list/1"}, {"items", std::move(items)}}.dump());
}

} // namespace mc2::server
