#include <array>
#include <string>

#include "backends/host/host_backend.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor {

std::span<const Backend* const> backend_registry() noexcept {
  // Devices go above the host: where one is present, it is what the user means.
  static const std::array<const Backend*, 1> kBackends{&host::host_backend()};
  return kBackends;
}

planner::Result<const Backend*> find_backend(std::string_view name) {
  std::string names;
  for (const Backend* backend : backend_registry()) {
    if (backend->name() == name) return backend;
    names += (names.empty() ? "" : ", ") + std::string(backend->name());
  }
  return planner::Error{planner::ErrorCode::UnknownName, "backend",
                        "no backend \"" + std::string(name) + "\" in this build; it has: " + names};
}

} // namespace mc2::executor
