#pragma once

#include <cstddef>
#include <vector>

#include "damage_watch.hpp"
#include "mc2/store/store.hpp"

namespace mc2::server {

/// As Store::list_plans, but without copies of a service's answers (client::is_served_copy): those are the cache of
/// programs that share this store with the service. Errors: as there.
[[nodiscard]] Result<std::vector<store::Listed>> list_own_plans(const store::Store& store, store::ListFilter filter);

/// The newest 500 plans of list_own_plans(), without damaged plans, which are noted. Errors: as there.
[[nodiscard]] Result<std::vector<store::StoredPlan>> newest_plans(const store::Store& store, DamageWatch& damage);

/// Figures of those plans that were raced.
struct PlanFigures {
  std::vector<double> errors;    ///< measured / predicted makespan - 1
  std::vector<double> gains;     ///< measured benefit over serial
  std::size_t covered_count = 0; ///< plans whose measured makespan lies in the predicted interval
};
[[nodiscard]] PlanFigures figures_of(const std::vector<store::StoredPlan>& plans);

} // namespace mc2::server
