#include "capi/objects.hpp"
#include "capi/values.hpp"
#include "mc2/finder/device_costs.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/dates.hpp"

namespace mc2::capi {
namespace {

std::string purpose_of(const char* purpose) { return purpose == nullptr ? store::PlanKey{}.purpose : purpose; }

finder::FoundPlan kept_plan(store::StoredPlan stored) {
  finder::FoundPlan found;
  found.stored = std::move(stored);
  return found;
}

} // namespace
} // namespace mc2::capi

using namespace mc2;
using namespace mc2::capi;

extern "C" {

mc2_status mc2_store_open(const char* path, int32_t read_only, mc2_store** store) {
  return call_for<StoreObject>(store, "store", [&] {
    const auto mode = read_only != 0 ? store::OpenMode::ReadOnly : store::OpenMode::ReadWrite;
    return take(store::Store::open(&given(path, "path"), mode));
  });
}

mc2_status mc2_store_put_plan(mc2_store* store, const mc2_plan* plan, const char* purpose) {
  return call([&] {
    const Pinned<PlanObject> kept(plan);
    take(OpenStore(store)->put_plan(kept->plan(), purpose_of(purpose), store::utc_now()));
  });
}

mc2_status mc2_store_get_plan(mc2_store* store, const mc2_op_spec* op, const mc2_machine* machine, const char* purpose,
                              mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] {
    const Pinned<MachineObject> on(machine);
    const store::PlanKey key{read_op(op), store::digest(on->value), purpose_of(purpose)};
    return std::make_shared<const finder::FoundPlan>(kept_plan(take(OpenStore(store)->find_plan(key))));
  });
}

mc2_status mc2_store_put_model(mc2_store* store, const mc2_model* model) {
  return call([&] {
    const Pinned<ModelObject> kept(model);
    take(OpenStore(store)->put_model(kept->value, store::utc_now()));
  });
}

mc2_status mc2_store_get_model(mc2_store* store, const mc2_op_spec* op, const mc2_machine* machine, mc2_model** model) {
  return call_for<ModelObject>(model, "model", [&] {
    const Pinned<MachineObject> on(machine);
    const auto spec = read_op(op);
    return take(OpenStore(store)->find_model(spec, on->value));
  });
}

mc2_status mc2_store_get_device_model(mc2_store* store, const char* device, const mc2_op_spec* op, mc2_model** model) {
  return call_for<ModelObject>(model, "model", [&] {
    const std::string name(&given(device, "device"));
    const auto spec = read_op(op);
    OpenStore opened(store);
    return take(finder::device_costs(name, spec, {}, finder::kept_in_unnamed(*opened))).model;
  });
}

mc2_status mc2_free_store(mc2_store* store) { return free_handle<StoreObject>(store); }

} // extern "C"
