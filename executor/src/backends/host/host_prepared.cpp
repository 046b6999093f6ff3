#include "backends/host/host_prepared.hpp"

#include "backends/host/mechanisms/mechanism.hpp"
#include "backends/host/virtual_device.hpp"
#include "mc2/planner/units.hpp"
#include "run_turn.hpp"

namespace mc2::executor::host {
namespace {

constexpr std::size_t kHeapAlignment = 4096;

/// Names rank and lane for exceptions that do not come from one of mc2's own check wrappers.
SystemError lane_error(int rank, planner::Lane lane, const char* what) {
  return {"lane", 0, lanes::lane_text(rank, lane) + ": " + what};
}

} // namespace

HostPrepared::HostPrepared(HostCommunicator& communicator, const StageList& stages, const HostVariant& variant,
                           std::span<const RankBuffers> buffers, const PrepareOptions& options)
    : LanePrepared(communicator.control(), stages, communicator.local_ranks(), RowSplits(stages.op, buffers)),
      communicator_(communicator),
      mechanism_(make_mechanism(variant, mechanism_shape(stages.op), communicator.proxies())),
      transport_(mechanism_ ? *mechanism_ : communicator.transport()),
      staging_(buffers.size()) {
  allocate(buffers, options.allow_independent);
  plan_work({.slice_count = static_cast<std::size_t>(variant.slice_count),
             .order = variant.order,
             .reads_peers = transport_.reads_peers_directly(),
             .watches_deadline = true});
  // Builds on the compute lanes' threads: then pages and packed weights lie near the cores that use them, and the
  // matmul library sizes its team for the thread that builds.
  communicator_.call_on_lanes(planner::Lane::Compute, [this](int rank) { build(rank); });
}

void HostPrepared::allocate(std::span<const RankBuffers> buffers, bool allow_independent) {
  const auto bytes = static_cast<std::size_t>(lanes::intermediate_bytes(list_.op));
  const std::size_t spare_offset = planner::align_up(bytes, kHeapAlignment);
  heap_ = std::make_unique<lanes::SymmetricHeap>(list_.op.world_size, allow_independent ? spare_offset + bytes : bytes);
  const std::int64_t staged = staging_bytes(list_.op, longest_rows(list_), transport_);
  for (const int rank : communicator_.local_ranks()) {
    const auto index = static_cast<std::size_t>(rank);
    lanes::RankMatrices& own = matrices_[index];
    own.buffers = buffers[index];
    own.intermediate = own.buffers.gathered_a.empty() ? heap_->segment(rank).first(bytes) : own.buffers.gathered_a;
    if (allow_independent) own.spare_intermediate = heap_->segment(rank).subspan(spare_offset, bytes);
    staging_[index].resize(static_cast<std::size_t>(staged));
    ranks_[index].staging = staging_[index];
    intermediates_.emplace_back(own.intermediate);
  }
}

void HostPrepared::build(int rank) {
  const auto& virtual_compute = communicator_.options().virtual_compute;
  touch(rank, virtual_compute.has_value()); // virtual compute writes no products
  if (virtual_compute)
    state_of(rank).device = make_virtual_device(rank, *virtual_compute);
  else
    build_device(rank);
}

const RunRecord& HostPrepared::run(RunMode asked, RunDetail /*detail*/) {
  const RunMode mode = checked_mode(asked);
  const RunTurn turn(communicator_.turn());
  clear_times();
  const auto called = lanes::Clock::now();
  communicator_.execute(*this, transport_, mode, [this](lanes::Clock::time_point start) {
    for (RankState& state : ranks_) state.device->begin_run(start);
  });
  record_.wall = lanes::Clock::now() - called;
  const LaneSpan span = lane_span();
  record_.makespan = span.last - span.first;
  return record_;
}

lanes::ExchangeTimes HostPrepared::exchange(const lanes::BlockExchange& block) {
  return transport_.exchange(block, control_);
}

void HostPrepared::begin_stage(int rank, planner::Lane lane, std::size_t stage) {
  if (communicator_.hook()) communicator_.hook()(rank, lane, stage);
}

void HostPrepared::fail(int rank, planner::Lane lane) noexcept {
  try {
    throw;
  } catch (const SystemError& error) {
    communicator_.fail(error);
  } catch (const std::exception& error) {
    communicator_.fail(lane_error(rank, lane, error.what()));
  } catch (...) {
    communicator_.fail(lane_error(rank, lane, "an exception of unknown type"));
  }
}

} // namespace mc2::executor::host
