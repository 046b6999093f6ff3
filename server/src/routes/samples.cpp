#include <nlohmann/json.hpp>

#include "mc2/store/codec.hpp"
#include "model_check.hpp"
#include "routes/listing.hpp"
#include "routes/routes.hpp"

namespace mc2::server {

Result<Response> list_samples(Context& context, const Call& call) {
  return list_documents(context, call, "mc2.sample_list/1", &store::Store::list_samples);
}

Result<Response> add_samples(Context& context, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  MC2_ASSIGN(const planner::Profile profile, store::decode_profile(call.request.body));
  MC2_ASSIGN(const auto kept, context.store.write([&](store::Store& store) {
    return store.add_new_samples(profile.op, profile.fingerprint, profile.samples, context.surroundings.utc_now());
  }));
  const bool is_new = kept.new_count > 0; // samples that are sent again raise no second alarm
  const nlohmann::json answer{{"digests", kept.digests},
                              {"sample_count", profile.samples.size()},
                              {"drift", is_new ? check_against_model(context, profile) : nullptr}};
  return json_response(answer, is_new ? 201 : 200);
}

} // namespace mc2::server
