#include "backends/mpi/mpi_checks.hpp"

#include <climits>
#include <string>

#include "backends/mpi/block_layout.hpp"
#include "backends/mpi/direct_collective.hpp"
#include "backends/mpi/hierarchical_collective.hpp"
#include "backends/mpi/mpi_backend.hpp"
#include "backends/mpi/world.hpp"
#include "checks.hpp"
#include "lanes/lane_checks.hpp"

namespace mc2::executor::mpi {
Result<void> check_world_size(int world_size) {
  const int count = launched_process_count();
  if (count == world_size) return {};
  const std::string wanted = std::to_string(world_size), running = std::to_string(count);
  return Error{ErrorCode::Unsupported, "world_size",
               count == 1 ? "is " + wanted + ", but 1 process runs; start it with mpirun -np " + wanted
                          : "is " + wanted + ", but " + running + " processes run; ask for " + running +
                                " ranks, or start it with mpirun -np " + wanted};
}

Result<void> check_launch() {
  const int count = launched_process_count();
  if (count < 2) return {};
  const World& world = World::get();
  if (world.size() == count) return {};
  return Error{ErrorCode::Unsupported, "mpi",
               "the launcher says that it started " + std::to_string(count) + " processes, but " + world.library() +
                   " runs " + std::to_string(world.size()) + "; start them with the mpirun of this MPI"};
}

Result<void> check_options(const CommunicatorOptions& options) {
  MC2_TRY(options.validate());
  MC2_TRY(check_holds_all_ranks(options, "mpi"));
  MC2_TRY(mpi_backend().check_emulation(options));
  MC2_TRY(check_world_size(options.world_size));
  MC2_TRY(check_launch());
  return launched_process_count() > 1 ? World::get().pretence() : Result<void>{};
}

Result<void> check_memory(const planner::OpSpec& op) {
  // Rank 0 of a directed job also holds the matrices of every rank, to check the results.
  const std::int64_t one_rank = lanes::operator_bytes(op) / op.world_size;
  return lanes::check_memory(one_rank * (World::get().most_on_a_node() + op.world_size));
}

Result<void> check_prepared_memory(const StageList& list, const MpiVariant& variant, bool allow_independent) {
  const SegmentLayout layout(list, variant, allow_independent);
  const std::int64_t sums = variant.algorithm == MpiVariant::Algorithm::Hierarchical ? hierarchical_bytes(list) : 0;
  const std::int64_t one_rank = static_cast<std::int64_t>(layout.byte_count) + sums + lanes::device_bytes(list);
  return lanes::check_memory(one_rank * World::get().most_on_a_node());
}

Result<void> check_message_sizes(const StageList& list) {
  for (std::size_t i = 0; i < list.stages.size(); ++i) {
    const std::int64_t count = list.stages[i].row_count * exchanged_elements(list.op);
    if (count <= INT_MAX) continue;
    return Error{ErrorCode::Unsupported, "blocks[" + std::to_string(i) + "]",
                 "exchanges " + std::to_string(count) + " elements and MPI counts up to " + std::to_string(INT_MAX) +
                     "; cut into shorter blocks"};
  }
  return {};
}

} // namespace mc2::executor::mpi
