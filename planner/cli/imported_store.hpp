#pragma once

#include <memory>
#include <optional>
#include <string>

#include "context.hpp"
#include "mc2/finder/device_costs.hpp"
#include "mc2/store/imported.hpp"

namespace mc2::cli {

/// What all layers together hold of the machine that `--device` names.
/// Errors: Stale when logs of the machine contradict each other, naming the field.
[[nodiscard]] Result<store::ImportedMachine> find_imported(const store::Layers& layers, const std::string& device);

/// The imported timings of machines other than this one; there may be no store.
class ImportedStore {
 public:
  /// Errors: as StoreOptions::open; but a missing store is an error only if --store names it.
  [[nodiscard]] static Result<ImportedStore> open(const StoreOptions& store);

  /// What the store holds, for one thread at a time; none without a store. This object must outlive it.
  [[nodiscard]] std::optional<finder::Kept> kept() const;

  /// Costs as finder::device_costs() finds them in this store. Errors: as there.
  [[nodiscard]] Result<finder::DeviceCosts> costs(const std::string& device, const planner::OpSpec& op,
                                                  const planner::PlanOptions& limits) const;

 private:
  struct Opened {
    explicit Opened(store::Layers opened) : layers(std::move(opened)) {}
    store::Layers layers;
    finder::SharedLayers shared{layers};
  };
  std::unique_ptr<Opened> opened_; ///< null: there is no store
};

} // namespace mc2::cli
