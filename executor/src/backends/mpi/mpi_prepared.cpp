#include "backends/mpi/mpi_prepared.hpp"

#include <thread>
#include <utility>

#include "backends/mpi/hierarchical_collective.hpp"
#include "run_turn.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr std::array kModeNames{"fused",       "compute_only", "communication_only",
                                "independent", "serial",       "serial_compute"};
static_assert(kModeNames.size() == kRunModeCount);

} // namespace

MpiPrepared::MpiPrepared(MpiCommunicator& communicator, const StageList& stages, const RankBuffers& buffers,
                         RowSplits splits, Settings settings)
    : LanePrepared(communicator.control(), stages, communicator.local_ranks(), std::move(splits)),
      communicator_(communicator),
      settings_(std::move(settings)),
      layout_(list_, settings_.variant, settings_.allow_independent) {
  for (std::size_t mode = 0; mode < calls_.size(); ++mode)
    calls_[mode] = std::string("run ") + kModeNames[mode] + " of " + settings_.call;
  place_matrices(buffers);
  plan_work({}); // no deadline here: the thread that calls run() watches it and ends the job
  collective_ = make_collective();
  // Builds on the compute lane's thread: then pages and packed weights lie near the core that uses them, and the matmul
  // library sizes its team for the thread that builds.
  communicator_.call_on_compute_lane([this] { build(); });
}

void MpiPrepared::place_matrices(const RankBuffers& buffers) {
  if (!settings_.node_heap) own_heap_ = std::make_unique<lanes::SymmetricHeap>(1, layout_.byte_count);
  const Placement& placement = World::get().placement();
  const auto& neighbours = placement.ranks_of(placement.node_of(communicator_.rank()));
  const auto segment = settings_.node_heap ? settings_.node_heap->segment(placement.place_of(communicator_.rank()))
                                           : own_heap_->segment(0);
  ranks_.front().staging = segment.subspan(layout_.staging, layout_.byte_count - layout_.staging);
  for (std::size_t place = 0; settings_.node_heap && place < neighbours.size(); ++place)
    place_intermediates(matrices_of(neighbours[place]), settings_.node_heap->segment(static_cast<int>(place)));
  lanes::RankMatrices& own = matrices_of(communicator_.rank());
  own.buffers = buffers;
  own.buffers.send_counts = own.buffers.receive_counts = {}; // valid during prepare() only
  place_intermediates(own, segment);
}

void MpiPrepared::place_intermediates(lanes::RankMatrices& of, std::span<std::byte> segment) const {
  const auto bytes = static_cast<std::size_t>(lanes::intermediate_bytes(list_.op));
  of.intermediate = segment.subspan(layout_.intermediate, bytes);
  if (settings_.allow_independent) of.spare_intermediate = segment.subspan(layout_.spare, bytes);
  of.is_staged = has_joined_pieces(list_.op);
}

std::unique_ptr<Collective> MpiPrepared::make_collective() const {
  const Channel& channel = communicator_.channel();
  const MpiVariant& variant = settings_.variant;
  switch (variant.algorithm) {
    case MpiVariant::Algorithm::Direct:
    case MpiVariant::Algorithm::TwoShot:
      return make_direct_collective(*settings_.node_heap, layout_, list_.op, variant);
    case MpiVariant::Algorithm::Hierarchical:
      return make_hierarchical_collective(
          channel, communicator_.rails(), *settings_.node_heap, layout_, [this] { control_.throw_if_aborted(); },
          list_);
    case MpiVariant::Algorithm::Ring:
    case MpiVariant::Algorithm::SlicedRing: return make_ring_collective(communicator_.ring_order(), variant, list_);
    case MpiVariant::Algorithm::Pairwise: return make_pairwise_collective(channel);
    case MpiVariant::Algorithm::Blocking:
    case MpiVariant::Algorithm::Nonblocking: break;
  }
  return make_library_collective(channel, variant, list_.op);
}

void MpiPrepared::build() {
  touch(communicator_.rank(), true); // a run of the collective alone sends it
  build_device(communicator_.rank());
}

const RunRecord& MpiPrepared::run(RunMode asked, RunDetail /*detail*/) {
  const RunMode mode = checked_mode(asked);
  const RunTurn turn(communicator_.turn());
  clear_times();
  local_is_done_.store(ranks_.front().local_work.runs.empty(), std::memory_order_relaxed);
  communicator_.execute(*this, mode, calls_[static_cast<std::size_t>(mode)], [this] { return progress(); });
  finish_record(Clock::now() - control_.start());
  return record_;
}

lanes::ExchangeTimes MpiPrepared::exchange(const BlockExchange& block) {
  const auto start = Clock::now();
  collective_->exchange(block, [this] { pause(); });
  return {start, Clock::now()};
}

void MpiPrepared::begin_stage(int /*rank*/, planner::Lane lane, std::size_t /*stage*/) {
  if (lane == planner::Lane::Compute) local_is_done_.store(true, std::memory_order_relaxed);
}

/// Ends the job at once: the other ranks wait for this lane, and a collective of this rank may be waiting for them.
void MpiPrepared::fail(int rank, planner::Lane lane) noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    abort_job(lanes::lane_text(rank, lane) + ": " + error.what());
  } catch (...) {
    abort_job(lanes::lane_text(rank, lane) + ": an exception of unknown type");
  }
}

/// Whether the matmul runs or is about to run. Beside it the lane should sleep: a yield would give the core away for a
/// whole time slice of the scheduler.
bool MpiPrepared::matmul_has_work() const noexcept {
  const RunMode mode = control_.mode();
  if (mode != RunMode::Fused && mode != RunMode::Independent) return false;
  if (!local_is_done_.load(std::memory_order_relaxed)) return true;
  const bool takes_what_came = mode == RunMode::Fused && !is_first(planner::Lane::Compute);
  return control_.stage_count(0, planner::Lane::Compute) <
         (takes_what_came ? control_.stage_count(0, planner::Lane::Communication) : list_.stages.size());
}

void MpiPrepared::pause() const {
  control_.throw_if_aborted();
  if (settings_.variant.sleep.count() > 0 && matmul_has_work()) {
    std::this_thread::sleep_for(settings_.variant.sleep);
  } else {
    std::this_thread::yield();
  }
}

std::string MpiPrepared::progress() const {
  const auto count = [&](planner::Lane lane) { return std::to_string(control_.stage_count(0, lane)); };
  return "multiplied " + count(planner::Lane::Compute) + " and exchanged " + count(planner::Lane::Communication) +
         " of " + std::to_string(list_.stages.size()) + " blocks";
}

void MpiPrepared::finish_record(std::chrono::nanoseconds wall) {
  const LaneSpan own = lane_span();
  // The start is negated: the maximum over ranks is then the negated earliest start.
  std::array<std::int64_t, 3> slowest{-own.first.count(), own.last.count(), wall.count()};
  communicator_.agreement().maximum(slowest);
  record_.makespan = std::chrono::nanoseconds{slowest[1] + slowest[0]};
  record_.wall = std::chrono::nanoseconds{slowest[2]};
}

} // namespace mc2::executor::mpi
