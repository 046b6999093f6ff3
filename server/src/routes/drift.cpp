#include <nlohmann/json.hpp>

#include "mc2/store/codec.hpp"
#include "model_check.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

constexpr int kMaxBatches = 100; ///< the newest; each is at most 10000 samples

/// Samples that were kept after the model, of any operator of equal block costs on its machine.
Result<std::vector<planner::Sample>> samples_since(const store::Store& store, const store::StoredModel& kept) {
  const planner::CostModel& model = kept.model;
  MC2_ASSIGN(const auto listed,
             store.list_samples({.kind = model.op.kind,
                                 .dtype = model.op.dtype,
                                 .world_size = model.op.world_size,
                                 .fingerprint_digest = store::digest(model.fingerprint.canonical_text()),
                                 .limit = kMaxBatches}));
  std::vector<planner::Sample> samples;
  for (const store::Listed& batch : listed) {
    if (batch.created_at <= kept.created_at) break; // newest first
    if (!planner::has_same_block_costs(batch.key.op, model.op)) continue;
    const auto found = store.find_samples(batch.digest);
    if (!found) continue; // removed meanwhile
    const auto& more = found.value().profile.samples;
    samples.insert(samples.end(), more.begin(), more.end());
  }
  return samples;
}

} // namespace

Result<Response> answer_model_drift(Context& context, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  MC2_ASSIGN(const auto model,
             context.store.read([&](const store::Store& store) { return store.find_model(call.id); }));
  MC2_ASSIGN(const auto samples,
             context.store.read([&](const store::Store& store) { return samples_since(store, model); }));
  nlohmann::json answer = drift_json(profiler::find_drift(model.model, samples));
  answer["schema"] = "mc2.model_drift/1";
  answer["since"] = model.created_at;
  answer["sample_count"] = samples.size();
  return json_response(answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

} // namespace mc2::server
