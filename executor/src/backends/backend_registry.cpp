#include <array>
#include <string>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/host/host_backend.hpp"
#include "backends/mpi/mpi_backend.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::executor {

Result<void> Backend::check_emulation(const CommunicatorOptions& options) const {
  const std::string who = "the " + std::string(name()) + " backend ";
  if (!emulates() && options.link != LinkSpec{})
    return Error{ErrorCode::Unsupported, "link",
                 who + "runs on the machine's own links and emulates none; leave it out"};
  if (!emulates() && options.virtual_compute)
    return Error{ErrorCode::Unsupported, "virtual_compute", who + "has no virtual compute; leave it out"};
  return {};
}

Result<void> Backend::check_rank_count(int world_size) const {
  if (world_size <= most_ranks()) return {};
  return Error{ErrorCode::Unsupported, "world_size",
               "is " + std::to_string(world_size) + "; legal on the " + std::string(name()) + " backend: 2 to " +
                   std::to_string(most_ranks())};
}

std::span<const Backend* const> backend_registry() noexcept {
  // Table order is preference order. The host backend is first: it needs no set-up and works on every machine.
  static const std::array<const Backend*, 3> kBackends{&host::host_backend(), &cuda::cuda_backend(),
                                                       &mpi::mpi_backend()};
  return kBackends;
}

Result<const Backend*> find_backend(std::string_view name) {
  MC2_ASSIGN(const auto* const found, find_named(backend_registry(), name, &Backend::name, "backend", "backend"));
  return *found;
}

} // namespace mc2::executor
