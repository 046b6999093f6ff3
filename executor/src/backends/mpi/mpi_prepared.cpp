#include "backends/mpi/mpi_prepared.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "backends/mpi/check.hpp"
#include "named_range.hpp"
#include "random_fill.hpp"
#include "run_mode.hpp"
#include "run_turn.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr std::uint64_t kRandomSeed = 0x6D63326D70693031ULL;
constexpr std::array kModeNames{"fused",       "compute_only", "communication_only",
                                "independent", "serial",       "serial_compute"};
static_assert(kModeNames.size() == kRunModeCount);

std::size_t index_of(planner::Lane lane) { return lane == planner::Lane::Compute ? 0 : 1; }

} // namespace

MpiPrepared::MpiPrepared(MpiCommunicator& communicator, const StageList& stages, const RankBuffers& buffers,
                         Settings settings)
    : communicator_(communicator),
      list_(stages),
      settings_(std::move(settings)),
      layout_(list_, settings_.variant, settings_.allow_independent),
      matrices_(static_cast<std::size_t>(list_.op.world_size)),
      pieces_(matrices_.size()) {
  for (std::size_t mode = 0; mode < calls_.size(); ++mode)
    calls_[mode] = std::string("run ") + kModeNames[mode] + " of " + settings_.call;
  place_matrices(buffers);
  local_work_ = lanes::local_work(list_.op, settings_.splits, communicator_.rank(), own());
  for (const Stage& stage : list_.stages)
    stage_work_.push_back(lanes::part_work(list_.op, settings_.splits, communicator_.rank(), {stage, {}}, own()));
  record_.ranks.push_back({communicator_.rank(),
                           std::vector<StageTime>(list_.stages.size()),
                           std::vector<StageTime>(list_.stages.size()),
                           {}});
  collective_ = make_collective();
  // On the compute lane: pages and packed weights land near the core that uses them, and the matmul library sizes its
  // team by the building thread.
  communicator_.call_on_lane(planner::Lane::Compute, [this] { build(); });
}

void MpiPrepared::place_matrices(const RankBuffers& buffers) {
  if (!settings_.node_heap) own_heap_ = std::make_unique<lanes::SymmetricHeap>(1, layout_.byte_count);
  const auto segment = settings_.node_heap ? settings_.node_heap->segment(communicator_.rank()) : own_heap_->segment(0);
  staging_ = segment.subspan(layout_.staging, layout_.byte_count - layout_.staging);
  for (std::size_t rank = 0; rank < matrices_.size() && settings_.node_heap; ++rank)
    place_intermediates(matrices_[rank], settings_.node_heap->segment(static_cast<int>(rank)));
  lanes::RankMatrices& own = matrices_[static_cast<std::size_t>(communicator_.rank())];
  own.buffers = buffers;
  own.buffers.send_counts = own.buffers.receive_counts = {}; // the caller's for prepare() only
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
    case MpiVariant::Algorithm::Ring:
    case MpiVariant::Algorithm::SlicedRing: return make_ring_collective(channel, variant, list_);
    case MpiVariant::Algorithm::Pairwise: return make_pairwise_collective(channel);
    case MpiVariant::Algorithm::Blocking:
    case MpiVariant::Algorithm::Nonblocking: break;
  }
  return make_library_collective(channel, variant, list_.op);
}

/// Every page is written once: an untouched one would be read from a shared page of zeros, faster than real data.
void MpiPrepared::build() {
  const auto seed = kRandomSeed + static_cast<std::uint64_t>(communicator_.rank());
  fill_random(planner::exchange_type(list_.op), own().intermediate, seed);
  fill_random(planner::exchange_type(list_.op), own().spare_intermediate, seed);
  device_ =
      lanes::make_device(list_.op, communicator_.rank(), own().buffers, lanes::shapes_of(local_work_, stage_work_));
}

const RunRecord& MpiPrepared::run(RunMode asked, RunDetail /*detail*/) {
  const RunMode mode = mode_of(list_, asked);
  MC2_CHECK(mode != RunMode::Independent || settings_.allow_independent,
            "RunMode::Independent needs PrepareOptions::allow_independent");
  const RunTurn turn(communicator_.turn());
  RankTimes& times = record_.ranks.front();
  std::ranges::fill(times.compute, StageTime{});
  std::ranges::fill(times.communication, StageTime{});
  times.local = {};
  gathered_end_ = {};
  for (auto& count : finished_) count.store(0, std::memory_order_relaxed);
  local_is_done_.store(local_work_.runs.empty(), std::memory_order_relaxed);
  communicator_.execute(*this, mode, calls_[static_cast<std::size_t>(mode)], [this] { return progress(); });
  finish_record(mode, Clock::now() - communicator_.control().start());
  return record_;
}

void MpiPrepared::run_lane(int rank, planner::Lane lane) noexcept {
  try {
    if (lane == planner::Lane::Compute) {
      compute();
    } else {
      communicate();
    }
  } catch (const lanes::RunAborted&) { // the other lane has said why
  } catch (const std::exception& error) {
    // At once: the other ranks wait for this lane, and a collective of this rank may be waiting for them.
    abort_job(rank_text(rank) + ", " + std::string(planner::to_string(lane)) + " lane: " + error.what());
  } catch (...) {
    abort_job(rank_text(rank) + ": an exception of unknown type");
  }
}

void MpiPrepared::compute() {
  lanes::RunControl& control = communicator_.control();
  RankTimes& times = record_.ranks.front();
  if (!local_work_.runs.empty()) {
    const bool waits = control.mode() == RunMode::Serial || list_.schedule != planner::Schedule::LocalFirst;
    if (waits) await(planner::Lane::Compute, 0);
    times.local = multiply(local_work_);
  }
  local_is_done_.store(true, std::memory_order_relaxed);
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    const NamedRange range(block_range_name(planner::Lane::Compute), static_cast<std::int64_t>(i));
    await(planner::Lane::Compute, i);
    times.compute[i] = multiply(stage_work_[i]);
    finish_stage(planner::Lane::Compute);
  }
}

StageTime MpiPrepared::multiply(const lanes::MatmulWork& work) {
  lanes::RunControl& control = communicator_.control();
  const auto when = device_->multiply(work, control.start(), control);
  return {when.start - control.start(), when.end - control.start()};
}

void MpiPrepared::communicate() {
  const lanes::RunControl& control = communicator_.control();
  auto& times = record_.ranks.front().communication;
  const Pause wait = [this] { pause(); };
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    const NamedRange range(block_range_name(planner::Lane::Communication), static_cast<std::int64_t>(i));
    await(planner::Lane::Communication, i);
    times[i].start = Clock::now() - control.start();
    collective_->exchange(exchange_of(i), wait);
    times[i].end = Clock::now() - control.start();
    finish_stage(planner::Lane::Communication);
  }
  if (own().buffers.gathered_a.empty()) return;
  lanes::complete_gathered_a(list_, communicator_.rank(), own());
  gathered_end_ = Clock::now() - control.start();
}

BlockExchange MpiPrepared::exchange_of(std::size_t stage) {
  const Stage& block = list_.stages[stage];
  const bool uses_spare = communicator_.control().mode() == RunMode::Independent;
  lanes::locate_pieces(list_.op, settings_.splits, {communicator_.rank(), {block, {}}, uses_spare}, matrices_, pieces_);
  const planner::DType dtype = planner::exchange_type(list_.op);
  return {.rank = communicator_.rank(),
          .block = stage,
          .dtype = dtype,
          .element_count = lanes::piece_bytes(list_.op, block.row_count) / planner::size_bytes(dtype),
          .pieces = &pieces_,
          .sum = lanes::sum_target(list_.op, block, own()),
          .landing = lanes::landing_pitch(list_.op),
          .staging = staging_,
          .ready = {}};
}

void MpiPrepared::finish_stage(planner::Lane lane) {
  finished_[index_of(lane)].fetch_add(1, std::memory_order_relaxed);
  if (!is_first(lane)) return;
  communicator_.control().ready(0).add();
  // Where the lanes share a core, the scheduler would let a new matmul finish its slice before the lane that was just
  // woken runs (backends/host/host_prepared.cpp).
  std::this_thread::yield();
}

void MpiPrepared::await(planner::Lane lane, std::size_t stage) {
  lanes::RunControl& control = communicator_.control();
  const RunMode mode = control.mode();
  if (is_first(lane) || (mode != RunMode::Fused && mode != RunMode::Serial)) return;
  if (mode == RunMode::Serial) stage = list_.stages.size() - 1;
  // For ever: the thread that called run() watches the deadline and ends the job.
  if (control.ready(0).wait_at_least(static_cast<std::uint32_t>(stage) + 1, Clock::time_point::max()) ==
      lanes::WaitResult::Aborted)
    throw lanes::RunAborted{};
}

/// While it runs, and while it is about to: yielding to it gives away a whole slice of the scheduler's.
bool MpiPrepared::matmul_has_work() const noexcept {
  const RunMode mode = communicator_.control().mode();
  if (mode != RunMode::Fused && mode != RunMode::Independent) return false;
  if (!local_is_done_.load(std::memory_order_relaxed)) return true;
  const auto finished = [&](planner::Lane lane) { return finished_[index_of(lane)].load(std::memory_order_relaxed); };
  const bool takes_what_came = mode == RunMode::Fused && !is_first(planner::Lane::Compute);
  return finished(planner::Lane::Compute) <
         (takes_what_came ? finished(planner::Lane::Communication) : list_.stages.size());
}

void MpiPrepared::pause() const {
  communicator_.control().throw_if_aborted();
  if (settings_.variant.sleep.count() > 0 && matmul_has_work()) {
    std::this_thread::sleep_for(settings_.variant.sleep);
  } else {
    std::this_thread::yield();
  }
}

std::string MpiPrepared::progress() const {
  const auto count = [&](planner::Lane lane) {
    return std::to_string(finished_[index_of(lane)].load(std::memory_order_relaxed));
  };
  return "multiplied " + count(planner::Lane::Compute) + " and exchanged " + count(planner::Lane::Communication) +
         " of " + std::to_string(list_.stages.size()) + " blocks";
}

void MpiPrepared::finish_record(RunMode mode, std::chrono::nanoseconds wall) {
  const RankTimes& own = record_.ranks.front();
  auto first = std::chrono::nanoseconds::max();
  auto last = std::chrono::nanoseconds::min();
  for (const auto lane : {planner::Lane::Compute, planner::Lane::Communication}) {
    if (!runs_lane(mode, lane)) continue;
    const auto& stages = lane == planner::Lane::Compute ? own.compute : own.communication;
    first = std::min(first, stages.front().start);
    last = std::max(last, stages.back().end);
    if (lane == planner::Lane::Compute && !local_work_.runs.empty()) first = std::min(first, own.local.start);
  }
  last = std::max(last, gathered_end_);
  // The earliest start is the largest of the negated ones.
  std::array<std::int64_t, 3> slowest{-first.count(), last.count(), wall.count()};
  communicator_.agreement().maximum(slowest);
  record_.makespan = std::chrono::nanoseconds{slowest[1] + slowest[0]};
  record_.wall = std::chrono::nanoseconds{slowest[2]};
}

} // namespace mc2::executor::mpi
