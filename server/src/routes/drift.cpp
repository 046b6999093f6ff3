#include <nlohmann/json.hpp>

#include "model_check.hpp"
#include "routes/listing.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
Result<Response> answer_model_drift(Context& context, const Call& call) {
  MC2_ASSIGN(const auto model, find_kept<store::StoredModel>(context, call, &store::Store::find_model));
  MC2_ASSIGN(const auto recent,
             context.store.read([&](const store::Store& store) { return recent_drift(store, model); }));
  nlohmann::json answer = drift_json(recent.drift);
  answer["schema"] = "mc2.model_drift/1";
  answer["since"] = model.created_at;
  answer["sample_count"] = recent.sample_count;
  return json_response(answer);
}

} // namespace mc2::server
