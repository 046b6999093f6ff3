#pragma once

#include <memory>
#include <optional>
#include <string>

#include "context.hpp"
#include "mc2/finder/device_costs.hpp"
#include "mc2/store/imported.hpp"

namespace mc2::cli {

/// What every layer holds of a machine that `--device` names.
/// Errors: Stale when logs of the machine contradict each other, naming the field.
[[nodiscard]] Result<store::ImportedMachine> find_imported(const store::Layers& layers, const std::string& device);

/// What was imported for machines that are not here, if there is a store.
class ImportedStore {
 public:
  /// Errors: as StoreOptions::open, but a store that nobody named may be missing.
  [[nodiscard]] static Result<ImportedStore> open(const StoreOptions& store);

  /// For one thread at a time. The store must outlive it.
  [[nodiscard]] std::optional<finder::Kept> kept() const;

  /// finder::device_costs().
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
