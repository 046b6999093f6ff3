#include <nlohmann/json.hpp>

#include "model_check.hpp"
#include "routes/listing.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

constexpr int kMostBatches = 100; ///< of at most 10000 samples each

} // namespace

Result<Response> answer_model_drift(Context& context, const Call& call) {
  MC2_ASSIGN(const auto model, find_kept<store::StoredModel>(context, call, &store::Store::find_model));
  MC2_ASSIGN(const auto samples,
             context.store.read([&](const store::Store& store) { return samples_since(store, model, kMostBatches); }));
  nlohmann::json answer = drift_json(profiler::find_drift(model.model, samples));
  answer["schema"] = "mc2.model_drift/1";
  answer["since"] = model.created_at;
  answer["sample_count"] = samples.size();
  return json_response(answer);
}

} // namespace mc2::server
