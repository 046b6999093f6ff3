#include "imported_store.hpp"

#include <utility>

namespace mc2::cli {
Result<store::ImportedMachine> find_imported(const store::Layers& layers, const std::string& device) {
  return store::join_imported(device, layers.list_profiles(store::imported_fields(device)));
}

Result<ImportedStore> ImportedStore::open(const StoreOptions& store) {
  ImportedStore result;
  auto layers = store.open(StoreUse::Read);
  if (layers)
    result.opened_ = std::make_unique<Opened>(std::move(layers).value());
  else if (layers.error().code != ErrorCode::NotFound || !store.path.empty()) // MC2_STORE may have no store yet
    return layers.error();
  return result;
}

std::optional<finder::Kept> ImportedStore::kept() const {
  return opened_ ? std::optional(finder::kept_in(opened_->shared)) : std::nullopt;
}

Result<finder::DeviceCosts> ImportedStore::costs(const std::string& device, const planner::OpSpec& op,
                                                 const planner::PlanOptions& limits) const {
  auto costs = finder::device_costs(device, op, limits, kept());
  if (costs || costs.error().code != ErrorCode::NotFound) return costs;
  return Error{costs.error().code, costs.error().field, costs.error().message + "; see mc2 import --help"};
}

} // namespace mc2::cli
