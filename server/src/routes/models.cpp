#include <nlohmann/json.hpp>

#include "mc2/store/codec.hpp"
#include "routes/listing.hpp"
#include "routes/routes.hpp"

namespace mc2::server {

Result<Response> list_models(Context& context, const Call& call) {
  return list_documents(context, call, "mc2.model_list/1", ListOfStore(&store::Store::list_models));
}

Result<Response> add_model(Context& context, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  MC2_ASSIGN(const auto model, store::decode_model(call.request.body));
  MC2_ASSIGN(auto response, keep_document(context, call, "/v1/models/",
                                          [&](store::Store& store, const store::MayReplace& may_replace) {
                                            return store.put_model(model, context.surroundings.utc_now(), may_replace);
                                          }));
  if (response.status == 201) context.drift.forget(model);
  return response;
}

Result<Response> remove_model(Context& context, const Call& call) {
  MC2_ASSIGN(const auto kept, find_kept<store::StoredModel>(context, call, &store::Store::find_model));
  MC2_ASSIGN(auto response, remove_document(context, call, kept.digest, &store::Store::remove_model));
  if (response.status == 204) context.drift.forget(kept.model);
  return response;
}

Result<Response> list_fingerprints(Context& context, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  MC2_ASSIGN(const auto machines,
             context.store.read([](const store::Store& store) { return store.list_fingerprints(); }));
  nlohmann::json items = nlohmann::json::array();
  for (const store::StoredFingerprint& machine : machines)
    items.push_back(
        {{"digest", machine.digest}, {"label", machine.fingerprint.label()}, {"fields", machine.fingerprint.fields}});
  return json_response(nlohmann::json{{"schema", "mc2.fingerprint_list/1"}, {"items", std::move(items)}});
}

} // namespace mc2::server
