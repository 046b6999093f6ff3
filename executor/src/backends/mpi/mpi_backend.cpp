#include "backends/mpi/mpi_backend.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/mpi/agreement.hpp"
#include "backends/mpi/check.hpp"
#include "backends/mpi/leader.hpp"
#include "backends/mpi/mpi_checks.hpp"
#include "backends/mpi/mpi_communicator.hpp"
#include "backends/mpi/orders.hpp"
#include "backends/mpi/variants.hpp"
#include "backends/mpi/world.hpp"
#include "lanes/lane_checks.hpp"
#include "mc2/executor/processes.hpp"

namespace mc2::executor {
namespace mpi {
namespace {

class MpiBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "mpi"; }

  [[nodiscard]] Availability availability(int /*local_ranks*/) const override {
    const int count = launched_process_count();
    if (count < 2) return {.is_available = false, .reason = "one process alone; start it with mpirun -np N"};
    if (const auto launch = check_launch(); !launch) return {.is_available = false, .reason = launch.error().message};
    const World& world = World::get();
    const std::string slow = world.links().text();
    return {.is_available = true,
            .reason = std::to_string(count) + " processes on " + std::to_string(world.placement().node_count()) +
                      " nodes, " + world.library() + (slow.empty() ? "" : "; slow links between nodes: " + slow)};
  }

  [[nodiscard]] int usual_world_size() const override { return std::max(2, launched_process_count()); }

  [[nodiscard]] std::vector<planner::Variant> variants(const planner::OpSpec& op,
                                                       const CommunicatorOptions& /*options*/) const override {
    return mpi_variants(op);
  }

  [[nodiscard]] Result<void> check_variant(const planner::OpSpec& op, const CommunicatorOptions& /*options*/,
                                           const planner::Variant& variant) const override {
    MC2_TRY(read_variant(op, variant));
    return {};
  }

  // All variants use the host backend's matmul.
  [[nodiscard]] bool variants_share_matmul() const noexcept override { return true; }

  [[nodiscard]] Result<void> supports(const planner::OpSpec& op) const override {
    MC2_TRY(lanes::check_operator(op));
    MC2_TRY(check_world_size(op.world_size));
    return check_memory(op);
  }

  [[nodiscard]] planner::Fingerprint fingerprint(const CommunicatorOptions& options) const override {
    return mpi_fingerprint(options);
  }

  [[nodiscard]] Result<std::unique_ptr<Communicator>> open(const CommunicatorOptions& options) const override {
    const std::chrono::milliseconds deadline = options.validate() ? options.deadline : kOpeningDeadline;
    // A process on its own, or rank 0 while it directs the others, has no peer to tell of its error.
    const bool is_alone = launched_process_count() < 2 || World::get(deadline).is_led;
    const auto own = check_options(options);
    if (is_alone && !own) return own.error();
    if (is_alone) return open_as_leader(options);
    MC2_TRY(Agreement(deadline).share_error(own));
    MC2_ASSIGN(auto opened, MpiCommunicator::open(options));
    return std::unique_ptr<Communicator>(std::move(opened));
  }
};

} // namespace

const Backend& mpi_backend() noexcept {
  static const MpiBackend kBackend;
  return kBackend;
}

} // namespace mpi

Result<int> lead_processes(const std::string& request, const std::function<int()>& lead,
                           std::chrono::milliseconds deadline) {
  using namespace mpi;
  if (launched_process_count() < 2) return lead();
  World& world = World::get(deadline);
  MC2_TRY(check_launch());
  MC2_TRY(Agreement(deadline).agree(request));
  static_cast<void>(order_channel()); // made while all ranks are here: rank 0 may work for long before its first order
  world.is_led = true;
  if (world.rank() != 0) {
    follow();
    return 0;
  }
  try {
    const int answer = lead();
    dismiss_followers();
    return answer;
  } catch (...) {
    dismiss_followers();
    throw;
  }
}

} // namespace mc2::executor
